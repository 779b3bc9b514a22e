// Guides first, then the reference; what was measured and what changed last.
var LAST = ["changelog", "faults", "what-was-measured", "security", "stability"];
var FIRST = ["how-do-i", "tutorial", "choosing", "glossary"];

var Scorer = {
  score([page, title, anchor, description, score]) {
    if (page.startsWith("generated/notebooks/")) return score - 10;
    if (page.startsWith("generated/")) return score - 5;
    if (LAST.includes(page)) return score - 20;
    return score + (FIRST.includes(page) ? 20 : 10);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
