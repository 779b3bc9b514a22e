// Guides first, then the reference; options of commands, what was measured and what changed last.
var LAST = ["changelog", "faults", "tables"];
var FIRST = ["how-do-i", "tutorial", "choosing"];

var Scorer = {
  score([page, title, anchor, description, score]) {
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
