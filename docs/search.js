// Guides first, then the reference; options of commands, what was measured and what changed last.
var LAST = ["changelog", "faults", "tables"];
var FIRST = ["how-do-i", "tutorial", "choosing"];

// What is asked, as words; the search calls this first.
var asked = [];
var splitQuery = (query) => (asked = query.split(/[^\p{Letter}\p{Number}_]+/gu).filter((word) => word));

// Whether a stem, such as "interv", is that of one of some words.
function isIn(words, stem) {
  return words.some((own) => own === stem || (stem.length > 3 && own.startsWith(stem)));
}

// Lead to the section that an index entry stands in, or that says most of what is asked, and name it.
function nameSection(hit) {
  const [page, title, anchor, description] = hit;
  const [whole, ...sections] = SECTIONS[page] || [];
  if (!whole || description || title !== whole[1]) return;
  let best = [whole, ...sections].find((section) => anchor && section[2].includes(anchor.slice(1)));
  if (!best && !anchor) {
    const stemmer = new Stemmer();
    const said = asked.map((word) => word.toLowerCase()).filter((word) => !stopwords.has(word));
    const stems = said.map((word) => stemmer.stemWord(word));
    let most = 0;
    for (const section of sections) {
      const title = section[1].toLowerCase().split(/\W+/);
      const points = stems.reduce((sum, stem) => sum + isIn(section[3], stem) + isIn(title, stem), 0);
      if (points > most) [best, most] = [section, points];
    }
  }
  if (best && best !== whole) [hit[1], hit[2]] = [`${title} > ${best[1]}`, `#${best[0]}`];
}

var Scorer = {
  score(hit) {
    nameSection(hit);
    const [page, title, anchor, description, score] = hit;
    if (page.startsWith("generated/notebooks/")) return score - 10;
    if (page.startsWith("generated/")) return score - 5;
    if (page === "command-line") return anchor.includes("cmdoption") ? score - 30 : score - 5;
    if (LAST.includes(page)) return score - 20;
    return score + (FIRST.includes(page) ? 15 : 10);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 25,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
