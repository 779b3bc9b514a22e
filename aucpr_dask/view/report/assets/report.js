// The page: leaderboards, comparisons, and curves by uPlot. Data become text nodes and attributes, never markup.
"use strict";
(() => {
  const page = JSON.parse(document.getElementById("page-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE_SIZES = [25, 100, 1000];
  const collator = new Intl.Collator("en", { numeric: true });

  // --- elements ------------------------------------------------------------------------------------------------

  function fill(element, properties, children) {
    for (const [name, value] of Object.entries(properties)) {
      if (value === undefined || value === null || value === false) continue;
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children.filter((child) => child !== null && child !== undefined));
    return element;
  }
  const h = (tag, properties = {}, ...children) => fill(document.createElement(tag), properties, children);
  const s = (tag, properties = {}, ...children) => fill(document.createElementNS(SVG, tag), properties, children);
  const option = (value, text) => h("option", { value }, text);
  const labelled = (text, control) => h("label", {}, text, control);
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // --- numbers -------------------------------------------------------------------------------------------------

  const DTYPES = { float64: Float64Array, float32: Float32Array, uint16: Uint16Array, uint8: Uint8Array,
    int32: Int32Array };
  const unpacked = new Map();

  function numbers(reference) {
    if (!unpacked.has(reference.payload)) unpacked.set(reference.payload, unpack(reference));
    return unpacked.get(reference.payload);
  }
  async function unpack({ payload, dtype }) {
    const holder = document.getElementById(`payload-${payload}`);
    const binary = atob(holder.textContent);
    holder.remove();
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return new DTYPES[dtype](await new Response(stream).arrayBuffer());
  }

  function shown(value, digits = 4) {
    if (value === undefined || Number.isNaN(value)) return "–";
    if (!Number.isFinite(value)) return value < 0 ? "−∞" : "∞";
    return value.toFixed(digits).replace("-", "−");
  }
  const signed = (value) => (value > 0 && Number.isFinite(value) ? "+" : "") + shown(value);
  const p_shown = (p) => (p < 0.0001 ? "< 0.0001" : p.toFixed(4));
  const p_said = (p) => (p < 0.0001 ? "p < 0.0001" : `p = ${p_shown(p)}`);
  // Long names may break after these characters, not within a word.
  const breakable = (name) => name.split(/(?<=[_\-./])(?=[^_\-./])/)
    .flatMap((part, i) => (i ? [h("wbr"), part] : [part]));
  const known = (value) => (Number.isNaN(value) ? undefined : value);
  const plural = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

  // --- tables as files -----------------------------------------------------------------------------------------

  // A spreadsheet would run text that starts like this as a formula; an apostrophe prevents that.
  const csvText = (text) => {
    const safe = /^ *[=+\-@\t\r\n＝＋－＠]/.test(text) ? `'${text}` : text;
    return /[",\n\r']/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
  };
  const csvCell = (value) =>
    typeof value === "string" ? csvText(value) : value === undefined || Number.isNaN(value) ? "" : String(value);

  function download(name, rows) {
    const text = rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
    const url = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
    h("a", { href: url, download: `${name.replace(/[^\w.-]+/g, "_").slice(0, 80)}.csv` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
  }

  // --- leaderboards --------------------------------------------------------------------------------------------

  function flagNames(mask) {
    return page.flags.filter((flag) => mask & flag.bit).map((flag) => flag.name.replaceAll("_", " "));
  }

  // Draw a table of models: `data` has one value a model for estimate, lower, upper, count and mask.
  function leaderboard(host, { caption, file, models, data, countName, intervalName, flagText, compare, mark, direction }) {
    const { estimate, lower, upper, count, mask } = data;
    const order = Array.from(models, (_, i) => i).filter((i) => !Number.isNaN(estimate[i]));
    order.sort((a, b) => direction * (estimate[b] - estimate[a]) || a - b); // less may be better
    const rank = new Array(models.length);
    order.forEach((i, place) => { rank[i] = place + 1; });
    const [low, high] = extent(estimate, lower, upper);
    // What each column sorts by, and whether its largest value comes first.
    const column = (id, title, value, down = false) => ({ id, title, value, down });
    const columns = [
      column("rank", "Rank", (i) => rank[i]),
      column("model", "Model", (i) => models[i]),
      column("estimate", "Estimate", (i) => known(estimate[i]), direction > 0),
      lower && column("interval", intervalName),
      lower && column("lower", "Lower", (i) => known(lower[i]), true),
      upper && column("upper", "Upper", (i) => known(upper[i]), true),
      count && column("count", countName, (i) => count[i], true),
      mask && column("warnings", "Warnings", (i) => flagNames(mask[i]).length, true),
    ].filter(Boolean);
    const state = { by: columns[0], down: false, page: 0, size: PAGE_SIZES[0], words: [], least: null, warned: null };
    const update = (change) => { Object.assign(state, { page: 0 }, change); draw(); };
    const lowerCase = Array.from(models, (name) => name.toLowerCase());

    const isFound = (i) => state.words.every((word) => lowerCase[i].includes(word))
      && (state.least === null || estimate[i] >= state.least)
      && (state.warned === null || (state.warned === 0 ? mask[i] === 0 : (mask[i] & state.warned) !== 0));

    // The models that are not filtered out, in the order of the table; those without a value are last either way.
    function found() {
      const { by: { value }, down } = state;
      return Array.from(models.keys()).filter(isFound).sort((a, b) => {
        const [x, y] = [value(a), value(b)];
        if (x === undefined || y === undefined) return (x === undefined) - (y === undefined);
        const order = typeof x === "string" ? collator.compare(x, y) : x - y;
        return down ? -order : order;
      });
    }

    const search = h("input", { type: "search", oninput: () => update({
      words: search.value.toLowerCase().split(/\s+/).filter(Boolean) }) });
    const asNumber = ({ value }) => (value === "" ? null : Number(value));
    const least = h("input", { type: "number", step: "0.05", oninput: () => update({ least: asNumber(least) }) });
    const warned = mask && h("select", { onchange: () => update({ warned: asNumber(warned) }) },
      option("", "all models"), option("0", "without warnings"),
      ...page.flags.filter((flag) => mask.some((one) => one & flag.bit))
        .map((flag) => option(flag.bit, `with ${flag.name.replaceAll("_", " ")}`)));
    const sizes = h("select", { onchange: () => update({ size: Number(sizes.value) }) },
      ...PAGE_SIZES.map((size) => option(size, `${size.toLocaleString("en")} rows`)));

    function save() {
      const head = ["rank", "model", "estimate", ...(lower ? ["lower", "upper"] : []),
        ...(count ? [countName.toLowerCase()] : []), ...(mask ? ["warnings"] : [])];
      const body = found().map((i) => [rank[i], models[i], estimate[i],
        ...(lower ? [lower[i], upper[i]] : []), ...(count ? [count[i]] : []),
        ...(mask ? [flagNames(mask[i]).join("; ")] : [])]);
      download(file, [head, ...body]);
    }

    const head = h("tr");
    for (const one of columns) {
      const { id, title } = one;
      const classes = { rank: "number", estimate: "number", lower: "number", upper: "number", count: "number",
        interval: "bar-column" };
      const cell = h("th", { scope: "col", class: classes[id], "data-column": id });
      if (!one.value) {
        cell.append(title, h("div", { class: "ends" }, h("span", {}, shown(low, 2)), h("span", {}, shown(high, 2))));
      } else {
        // Browsers omit buttons from the headers that they repeat on paper.
        cell.append(h("button", { type: "button", class: "sort", onclick: () => update({ by: one,
          down: state.by === one ? !state.down : one.down }) }, title),
        h("span", { class: "printed", "aria-hidden": "true" }, title));
      }
      head.append(cell);
    }
    if (compare) head.append(h("th", { scope: "col", class: "row-action" }, "Compare"));
    const body = h("tbody");
    const status = h("span", { role: "status" });
    const turn = (text, step) => h("button", { type: "button", onclick: () => update({ page: state.page + step }) }, text);
    const [back, forth] = [turn("Previous", -1), turn("Next", 1)];

    function line(i) {
      const name = models[i];
      const cells = columns.map(({ id }) => {
        if (id === "rank") return h("td", { class: "number" }, rank[i] === undefined ? "–" : String(rank[i]));
        if (id === "model") return h("th", { scope: "row", class: "name" }, ...breakable(name));
        if (id === "interval") return h("td", { class: "bar-column" }, bar(estimate[i], lower[i], upper[i], low, high));
        if (id === "count") return h("td", { class: "number" }, String(count[i]));
        if (id === "warnings") return h("td", { class: "warnings" },
          flagText ? flagText(i) : flagNames(mask[i]).join(", "));
        return h("td", { class: "number" }, shown({ estimate, lower, upper }[id][i]));
      });
      if (compare) cells.push(h("td", { class: "row-action" }, h("button", { type: "button", class: "row-button",
        "aria-label": `Compare ${name}`, onclick: (event) => compare(i, event.currentTarget) }, "Compare")));
      const over = () => mark && mark(i), out = () => mark && mark(null);
      return h("tr", { "data-model": i, onmouseenter: over, onmouseleave: out, onfocusin: over, onfocusout: out },
        ...cells);
    }

    function draw() {
      const shown = found(), { by, down, page, size } = state;
      body.replaceChildren(...shown.slice(page * size, (page + 1) * size).map(line));
      for (const cell of head.children) {
        if (cell.dataset.column === by.id) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        else cell.removeAttribute("aria-sort");
      }
      const last = Math.min(shown.length, (page + 1) * size);
      const of = shown.length === models.length ? "" : ` (of ${models.length.toLocaleString("en")})`;
      status.textContent = shown.length
        ? `Models ${(page * size + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ` +
          `${shown.length.toLocaleString("en")}${of}`
        : `No model${of}`;
      back.disabled = page === 0;
      forth.disabled = last >= shown.length;
      back.hidden = forth.hidden = shown.length <= size;
    }

    host.replaceChildren(
      h("div", { class: "tools" },
        labelled("Find a model", search), labelled("Estimate at least", least),
        warned && labelled("Show", warned),
        models.length > PAGE_SIZES[0] ? labelled("Rows on a page", sizes) : null,
        h("button", { type: "button", class: "end", onclick: save }, "Download CSV")),
      h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": caption },
        h("table", { class: "board" }, h("caption", {}, caption), h("thead", {}, head), body)),
      h("div", { class: "pager" }, back, forth, status));
    update({});
    let shownBefore = null; // paper has no pages to turn
    addEventListener("beforeprint", () => {
      if (!host.isConnected || shownBefore) return;
      shownBefore = { page: state.page, size: state.size };
      update({ size: models.length });
    });
    addEventListener("afterprint", () => {
      if (!shownBefore) return;
      Object.assign(state, shownBefore);
      shownBefore = null;
      draw();
    });
    return { mark: (i) => {
      for (const row of body.children) row.classList.toggle("marked", i !== null && row.dataset.model === String(i));
    } };
  }

  function extent(...arrays) {
    let low = Infinity, high = -Infinity;
    for (const values of arrays) for (const value of values || []) {
      if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
    }
    if (low > high) return [0, 1];
    low = Math.floor(low * 20 + 1e-9) / 20;
    high = Math.ceil(high * 20 - 1e-9) / 20;
    return low < high ? [low, high] : [low - 0.05, high + 0.05];
  }

  function bar(estimate, lower, upper, low, high) {
    const x = (value) => 2 + (196 * (value - low)) / (high - low);
    const parts = [];
    if (lower <= upper) parts.push(s("line", { x1: x(lower), x2: x(upper), y1: 10, y2: 10, class: "range",
      "vector-effect": "non-scaling-stroke" }));
    if (!Number.isNaN(estimate)) parts.push(s("rect", { x: x(estimate) - 1.5, y: 3, width: 3, height: 14,
      class: "point" }));
    return s("svg", { viewBox: "0 0 200 20", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true",
      focusable: "false" }, ...parts);
  }

  // --- comparison of two models --------------------------------------------------------------------------------

  function comparison(host, section, models, { comparisons, why }) {
    const title = h("h3", {}, "Compare two models");
    if (!comparisons.length) {
      host.replaceChildren(title, h("p", { class: "note" }, why));
      return null;
    }
    const places = new Map(models.map((name, i) => [name, i]));
    const list = h("datalist", { id: `${section.id}-models` });
    // Thousands of options take time: they are created when a field is first used.
    const offer = () => list.childElementCount || list.append(...models.map((name) => h("option", { value: name })));
    const field = () => h("input", { list: list.id, autocomplete: "off", spellcheck: "false", onfocus: offer });
    const [first, second] = [field(), field()];
    const how = h("select", { onchange: run }, ...comparisons.map(({ sample }, i) => option(i,
      sample === "units" ? `other ${section.unit_names[1]} like these` : "other items")));
    const message = h("p", { role: "status", class: "small" });
    const answer = h("div", { class: "answer" });

    let waiting = null; // the button of the first model of a pair, while the second is not chosen
    async function choose(i, button) {
      if (waiting === null) {
        [first.value, second.value, waiting] = [models[i], "", button];
        answer.replaceChildren();
        button.textContent = "with …";
        message.textContent = `${models[i]} is chosen; choose a second model.`;
        return;
      }
      second.value = models[i];
      waiting.textContent = "Compare";
      waiting = null;
      await run();
      host.scrollIntoView({ block: "nearest" });
    }

    async function run() {
      answer.replaceChildren();
      const plan = comparisons[Number(how.value) || 0];
      const names = [first.value, second.value];
      const rows = [];
      for (const name of names) {
        if (!places.has(name)) { message.textContent = name ? `There is no model “${name}”.` : "Choose two models."; return; }
        const row = plan.models.indexOf(places.get(name));
        if (row < 0) {
          message.textContent = `${name} cannot be compared: ` + (plan.n_without
            ? "this page compares the best models only." : "it has no estimate.");
          return;
        }
        rows.push(row);
      }
      const found = await compare(plan, rows);
      message.textContent = `${names[0]} minus ${names[1]}: ${signed(found.difference)}, ${p_said(found.p)}.`;
      show(plan, names, found);
    }

    function show(plan, names, found) {
      const percent = `${+(100 * plan.level).toFixed(6)} %`;
      const facts = [["Difference", signed(found.difference)], ["Standard error", shown(found.error)],
        [`${percent} interval`, `${signed(found.lower)} to ${signed(found.upper)}`], ["p-value", p_shown(found.p)]];
      if (found.adjusted !== undefined) {
        facts.push([`p-value, adjusted for ${plural(plan.n_pairs, "pair", "pairs")}`, p_shown(found.adjusted)]);
      }
      const said = [`${plan.design[0].toUpperCase()}${plan.design.slice(1)}.`, `Interval: ${plan.kind}.`];
      if (!plan.possible) said.push("There are too few units for any interval at this level.");
      if (plan.left_out.length) said.push(`Left out, because a model has no estimate there: ${plan.left_out.join(", ")}.`);
      if (found.adjusted === undefined) {
        said.push(`The p-value is of this pair alone, one of ${plural(plan.n_pairs, "pair", "pairs")}.`);
      }
      const table = h("table", {}, h("caption", {}, `${names[0]} minus ${names[1]}`),
        h("tbody", {}, ...facts.map(([name, text]) => h("tr", {}, h("th", { scope: "row" }, name),
          h("td", { class: "number" }, text)))));
      Object.assign(table.dataset, { difference: found.difference, error: found.error, lower: found.lower,
        upper: found.upper, p: found.p, adjusted: found.adjusted });
      answer.replaceChildren(table, chart(plan, section, found), h("p", { class: "small" }, said.join(" ")));
    }

    const button = h("button", { type: "submit" }, "Compare");
    const swap = h("button", { type: "button", onclick: () => {
      [first.value, second.value] = [second.value, first.value];
      run();
    } }, "Swap");
    host.replaceChildren(title,
      h("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); run(); } },
        labelled("Model", first), labelled("minus model", second),
        comparisons.length > 1 ? labelled("What to expect of", how) : null, button, swap, list),
      message, answer);
    return choose;
  }

  async function compare(plan, [one, other]) {
    const [estimate, errors, p, lower] = await Promise.all(
      [plan.estimate, plan.errors, plan.p_values, plan.lower].map(numbers));
    const n = plan.models.length, at = one * n + other;
    const found = { difference: estimate[one] - estimate[other], error: errors[at], p: p[at], lower: lower[at],
      upper: 0 - lower[other * n + one] };
    if (plan.values) {
      const values = await numbers(plan.values), width = plan.values.shape[1];
      if (plan.units) {
        const [first, second] = [one, other].map((row) => plan.models[row] * width);
        found.units = Array.from(plan.units, (unit) => values[first + unit] - values[second + unit]);
      } else {
        const rows = [one, other].map((row) => values.slice(row * width, (row + 1) * width));
        found.replicates = rows[0].map((value, r) => value - rows[1][r]);
      }
    }
    if (plan.adjusted) found.adjusted = (await numbers(plan.adjusted))[one * plan.adjusted.shape[1] + other];
    return found;
  }

  const WIDTH = 640, HEIGHT = 180, LEFT = 76, BOTTOM = 22;

  function chart(plan, section, found) {
    if (found.units) return unitChart(plan, section, found.units);
    return found.replicates ? replicateChart(found.replicates) : "";
  }

  function unitChart(plan, section, differences) {
    const sorted = Array.from(differences, (value, i) => ({ value, name: section.units[plan.units[i]] }));
    sorted.sort((a, b) => b.value - a.value);
    const size = Math.max(...sorted.map(({ value }) => Math.abs(value))) || 1;
    const middle = (HEIGHT - BOTTOM) / 2, step = (WIDTH - LEFT) / sorted.length;
    const bars = sorted.map(({ value, name }, i) => {
      const height = (Math.abs(value) / size) * (middle - 4);
      return s("rect", { x: LEFT + i * step + step * 0.1, width: step * 0.8, height: Math.max(height, 0.5),
        y: value > 0 ? middle - height : middle, class: value > 0 ? "better" : "worse" },
      s("title", {}, `${name}: ${signed(value)}`));
    });
    const better = sorted.filter(({ value }) => value > 0).length, worse = sorted.filter(({ value }) => value < 0).length;
    const [one, many] = section.unit_names;
    const said = `Differences on ${plural(sorted.length, one, many)}: higher on ${better}, lower on ${worse}, equal on ` +
      `${sorted.length - better - worse}`;
    const end = Number(size.toPrecision(2));
    return figure(said, [`+${end}`, "0", `−${end}`], [4, middle, HEIGHT - BOTTOM - 4], middle, bars);
  }

  function replicateChart(differences) {
    const sorted = Float64Array.from(differences).sort();
    const low = Math.min(sorted[0], 0), high = Math.max(sorted[sorted.length - 1], 0), bins = 40;
    const counts = new Array(bins).fill(0);
    const bin = (value) => Math.min(bins - 1, Math.floor(((value - low) / (high - low || 1)) * bins));
    for (const value of sorted) counts[bin(value)] += 1;
    const top = Math.max(...counts), step = (WIDTH - LEFT) / bins, floor = HEIGHT - BOTTOM;
    const bars = counts.map((count, i) => s("rect", { x: LEFT + i * step, width: step * 0.92, y: floor -
      (count / top) * (floor - 6), height: (count / top) * (floor - 6),
    class: low + ((i + 0.5) / bins) * (high - low) > 0 ? "better" : "worse" }));
    const at = (value) => LEFT + ((value - low) / (high - low || 1)) * (WIDTH - LEFT);
    const marks = [[low, "start"], [0, "middle"], [high, "end"]]
      .filter(([value, anchor]) => anchor === "middle" || Math.abs(at(value) - at(0)) > 60)
      .map(([value, anchor]) => s("text", { x: at(value), y: HEIGHT - 6,
        "text-anchor": at(value) > WIDTH - 30 ? "end" : at(value) < LEFT + 30 ? "start" : anchor }, signed(value)));
    const zero = s("line", { x1: at(0), x2: at(0), y1: 0, y2: floor, class: "axis" });
    return figure(`Differences of ${plural(sorted.length, "resample", "resamples")}`, [], [], floor,
      [...bars, zero, ...marks]);
  }

  function figure(said, texts, heights, base, parts) {
    const labels = texts.map((text, i) => s("text", { x: LEFT - 6, y: heights[i] + 4, "text-anchor": "end" }, text));
    return h("figure", {}, s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "pair-chart", role: "img",
      "aria-label": said }, s("line", { x1: LEFT, x2: WIDTH, y1: base, y2: base, class: "axis" }), ...parts, ...labels),
    h("figcaption", { class: "small" }, `${said}.`));
  }

  // --- curves --------------------------------------------------------------------------------------------------

  const KINDS = { precision_recall: ["Precision-recall", "recall", "precision"],
    roc: ["ROC", "false positive rate", "recall (true positive rate)"] };
  const COLOURS = 6; // in the style sheet: --c0 to --c5
  const DASHES = [[], [7, 4], [2, 3], [9, 3, 2, 3]];
  const plots = [];

  async function curves(host, section, models, mark) {
    const { kinds, steps, prevalence, ties } = section.curves;
    const best = section.curves.models;
    const values = Object.fromEntries(await Promise.all(
      Object.entries(kinds).map(async ([kind, reference]) => [kind, await numbers(reference)])));
    const units = kinds.precision_recall.shape[1];
    const grid = Array.from({ length: steps + 1 }, (_, i) => i / steps);
    const kind = h("select", { onchange: draw }, ...Object.keys(kinds).map((name) => option(name, KINDS[name][0])));
    const unit = h("select", { onchange: draw }, ...section.units.map((name, i) => option(i, name)));
    const place = h("div", { class: "chart" });
    const legend = h("ul", { class: "legend" });
    const stroke = (line) => `--c${line % COLOURS}`;
    const dash = (line) => DASHES[Math.floor(line / COLOURS) % DASHES.length];
    const items = best.map((model, line) => {
      const sample = s("svg", { viewBox: "0 0 28 10", "aria-hidden": "true" }, s("line", { x1: 0, x2: 28, y1: 5, y2: 5,
        "stroke-width": 2.5, stroke: `var(${stroke(line)})`, "stroke-dasharray": dash(line).join(" ") || null }));
      const value = h("span", { class: "value" });
      const show = () => highlight(line), hide = () => highlight(pinned);
      const button = h("button", { type: "button", "aria-pressed": "false", onmouseenter: show, onmouseleave: hide,
        onfocus: show, onblur: hide, onclick: () => {
          pinned = pinned === line ? null : line;
          highlight(pinned);
        } }, sample, h("span", {}, models[model]), value);
      legend.append(h("li", {}, button));
      return { button, value };
    });
    let plot = null, pinned = null, busy = false;

    function highlight(line) {
      items.forEach(({ button }, i) => {
        button.classList.toggle("marked", i === line);
        button.setAttribute("aria-pressed", String(i === pinned));
      });
      mark(line === null ? null : best[line]);
      busy = true;
      plot.setSeries(line === null ? null : line + 1, { focus: line !== null });
      busy = false;
    }

    function draw() {
      const u = Number(unit.value) || 0;
      const lines = best.map((_, line) => {
        const start = (line * units + u) * (steps + 1);
        return Array.from(values[kind.value].subarray(start, start + steps + 1), (value) =>
          (Number.isNaN(value) ? null : value));
      });
      const [name, xName, yName] = KINDS[kind.value];
      const base = kind.value === "roc" ? grid : grid.map(() => prevalence[u]);
      const axis = (label) => ({ label, stroke: () => colour("--soft"), grid: { stroke: () => colour("--line"), width: 1 },
        ticks: { stroke: () => colour("--line"), width: 1 }, size: 52, labelSize: 22 });
      if (plot) { plots.splice(plots.indexOf(plot), 1); plot.destroy(); }
      plot = new uPlot({
        width: size(), height: Math.round(size() * 0.75), legend: { show: false }, focus: { alpha: 0.15 },
        cursor: { focus: { prox: 30 }, drag: { x: false, y: false } },
        scales: { x: { time: false, range: [0, 1] }, y: { range: [0, 1.02] } },
        axes: [axis(xName), axis(yName)],
        series: [{}, ...best.map((model, line) => ({ label: models[model], width: 2, spanGaps: false,
          stroke: () => colour(stroke(line)), dash: dash(line), points: { show: false } })),
        { label: "chance", width: 1, stroke: () => colour("--soft"), dash: [2, 4], points: { show: false } }],
        hooks: {
          setSeries: [(_, series) => {
            if (busy) return;
            const line = series === null || series < 1 || series > best.length ? null : series - 1;
            items.forEach(({ button }, i) => button.classList.toggle("marked", i === line));
            mark(line === null ? null : best[line]);
          }],
          setCursor: [(chart) => items.forEach(({ value }, line) => {
            value.textContent = chart.cursor.idx === null ? "" : shown(chart.data[line + 1][chart.cursor.idx] ?? NaN, 3);
          })],
        },
      }, [grid, ...lines, base], place);
      plots.push(plot);
      plot.root.setAttribute("role", "img");
      plot.root.setAttribute("aria-label", `${name} curves of ${plural(best.length, "model", "models")}` +
        (section.units.length ? `, ${section.unit_names[0]} ${section.units[u]}` : "") +
        `. The models are listed next to the chart.`);
    }
    const size = () => Math.max(240, Math.min(640, place.clientWidth || 480));

    const notes = ["Hover over a curve, or over a model here or in the table, to highlight it."];
    if (ties !== "group") notes.push("Equal scores are one step of a curve, regardless of how the estimates treat ties.");
    notes.push("Dotted: a random ranking. A curve ends where its ranking does.");
    host.replaceChildren(h("h3", {}, `Curves of the ${plural(best.length, "best model", "best models")}`),
      h("div", { class: "tools" }, labelled("Curve", kind),
        section.units.length ? labelled(`Of ${section.unit_names[0]}`, unit) : null),
      h("div", { class: "chart-row" }, place, legend), h("p", { class: "small" }, notes.join(" ")));
    draw();
    let width = size();
    new ResizeObserver(() => {
      if (size() !== width) { width = size(); plot.setSize({ width, height: Math.round(width * 0.75) }); }
    }).observe(place);
    return (i) => highlight(i === null || best.indexOf(i) < 0 ? pinned : best.indexOf(i));
  }

  // --- sections ------------------------------------------------------------------------------------------------

  async function build(section) {
    const element = document.getElementById(section.id);
    const part = (name) => element.querySelector(`.${name}`);
    const models = page.names[section.models];
    const masks = section.flags ? await numbers(section.flags) : null;
    const width = Math.max(1, section.n_units);
    const any = masks && Uint16Array.from(models, (_, i) => masks.subarray(i * width, (i + 1) * width)
      .reduce((all, one) => all | one, 0));
    const of = section.caption ? ` of ${section.caption}` : "";
    const boards = [];
    let highlight = () => {};
    const mark = (i) => boards.forEach((board) => board && board.mark(i));

    function warnings(i) {
      const row = masks.subarray(i * width, (i + 1) * width);
      return page.flags.map(({ name, bit }) => [name.replaceAll("_", " "), row.reduce((n, one) => n + !!(one & bit), 0)])
        .filter(([, n]) => n).map(([name, n]) => `${name} (${n} of ${width})`).join(", ");
    }

    async function draw(index, method = 0) {
      const estimator = section.estimators[index];
      const others = (section.unit_names ? estimator.single : estimator.mean)?.others ?? [];
      const other = others[method - 1];
      const data = { mask: any };
      for (const name of ["estimate", "lower", "upper", "count"]) {
        const source = section.unit_names ? estimator.mean : { ...estimator.mean, ...other };
        if (source[name]) data[name] = await numbers(source[name]);
      }
      const choose = choosers[section.id] = comparison(part("comparison"), section, models, estimator);
      const host = part("leaderboard");
      const table = h("div");
      boards[0] = leaderboard(table, { models, direction: estimator.direction,
        intervalName: section.unit_names ? section.intervals.mean : other?.header ?? section.intervals.mean,
        data, compare: choose, mark: (i) => highlight(i),
        countName: section.unit_names ? capital(section.unit_names[1]) : "", flagText: section.unit_names && any && warnings,
        caption: estimator.title + of + (section.unit_names ? `, mean over ${section.unit_names[1]}` : ""),
        file: `${section.name || "leaderboard"}_${estimator.name}` });
      const head = [];
      if (section.estimators.length > 1) {
        const select = h("select", { onchange: () => draw(Number(select.value)) },
          ...section.estimators.map(({ words }, i) => option(i, words)));
        select.value = String(index);
        head.push(labelled(section.kind, select));
      }
      if (others.length) {
        const select = h("select", { onchange: () => draw(index, Number(select.value)) },
          ...[section.method, ...others.map(({ name }) => name)].map((name, i) => option(i, name)));
        select.value = String(method);
        head.push(labelled(section.unit_names ? `Interval of each ${section.unit_names[0]}` : "Interval", select));
      }
      host.replaceChildren(...(head.length ? [h("div", { class: "tools" }, ...head)] : []), table);
      if (section.unit_names && estimator.single) {
        table.querySelector(".tools").append(h("button", { type: "button", onclick: async () => {
          const values = await numbers(estimator.single.estimate);
          download(`${section.name || "estimates"}_${estimator.name}_by_${section.unit_names[0]}`, [
            ["model", ...section.units],
            ...models.map((name, i) => [name, ...values.subarray(i * width, (i + 1) * width)])]);
        } }, `Download all ${section.unit_names[1]}`));
      }
      for (const unit of element.querySelectorAll("details.unit")) {
        unit.ontoggle = () => unit.open && drawUnit(unit, estimator, other);
        if (unit.open) drawUnit(unit, estimator, other);
      }
    }

    async function drawUnit(element, { name, title, single, direction }, other) {
      const source = { ...single, ...other, name };
      const unit = Number(element.dataset.unit), data = {};
      for (const key of ["estimate", "lower", "upper"]) {
        if (!source[key]) continue;
        const values = await numbers(source[key]);
        data[key] = Float64Array.from(models, (_, i) => values[i * width + unit]);
      }
      if (masks) data.mask = Uint16Array.from(models, (_, i) => masks[i * width + unit]);
      leaderboard(element.querySelector(".unit-board"), { models, data, direction, mark: (i) => highlight(i),
        intervalName: other?.header ?? section.intervals.single,
        caption: `${title}${of}, ${section.unit_names[0]} ${section.units[unit]}`,
        file: `${section.name || "leaderboard"}_${section.units[unit]}_${name}` });
    }

    await draw(0);
    if (section.curves) highlight = await curves(part("curves"), section, models, mark);
    findUnits(element, section.unit_names);
  }

  // A link that ends in #compare=A,B opens that comparison in the first section that has both models.
  const choosers = {};
  async function openPair() {
    if (!location.hash.startsWith("#compare=")) return;
    let names;
    try {
      names = location.hash.slice(9).split(",").map(decodeURIComponent);
    } catch {
      return; // the link is malformed
    }
    const section = page.sections.find(({ id, models }) => choosers[id]
      && names.every((name) => page.names[models].includes(name)));
    if (!section || names.length !== 2) return;
    const element = document.querySelector(`#${section.id} .comparison`);
    element.querySelectorAll("input").forEach((input, i) => { input.value = names[i]; });
    element.querySelector("form").requestSubmit();
    element.scrollIntoView();
  }
  addEventListener("hashchange", openPair);

  const capital = (text) => text[0].toUpperCase() + text.slice(1);

  function findUnits(element, names) {
    const tools = element.querySelector(".unit-tools");
    if (!tools) return;
    tools.hidden = false;
    const search = tools.querySelector("input"), count = tools.querySelector(".unit-count");
    const units = Array.from(element.querySelectorAll("details.unit"));
    search.addEventListener("input", () => {
      const word = search.value.toLowerCase();
      for (const unit of units) unit.hidden = !unit.querySelector("h4").textContent.toLowerCase().includes(word);
      count.textContent = plural(units.filter((unit) => !unit.hidden).length, ...names);
    });
  }

  // --- colours and print ---------------------------------------------------------------------------------------

  const theme = document.getElementById("theme");
  function paint(dark) {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    theme.textContent = dark ? "Light colours" : "Dark colours";
    for (const plot of plots) plot.redraw(false);
  }
  const system = matchMedia("(prefers-color-scheme: dark)");
  let chosen = false;
  paint(system.matches);
  system.addEventListener("change", () => chosen || paint(system.matches));
  theme.hidden = false;
  theme.addEventListener("click", () => {
    chosen = true;
    paint(document.documentElement.dataset.theme !== "dark");
  });
  let before = null;
  addEventListener("beforeprint", () => {
    before = document.documentElement.dataset.theme;
    paint(false);
    for (const words of document.querySelectorAll("details.words")) words.open = true;
  });
  addEventListener("afterprint", () => paint(before === "dark"));

  function openTarget() {
    const target = location.hash && document.getElementById(location.hash.slice(1));
    if (target && target.tagName === "DETAILS") target.open = true;
  }
  addEventListener("hashchange", openTarget);
  openTarget();

  // The first section at once, the others when the browser is idle.
  (async () => {
    for (const [place, section] of page.sections.entries()) {
      if (place) await new Promise((go) => setTimeout(go));
      await build(section);
    }
    await openPair();
    document.documentElement.dataset.ready = String(Math.round(performance.now()));
  })();
})();
