// The filter, and the cases behind each cell. Text from the journal is only ever set as text, never as markup.
"use strict";
(() => {
  const STEP = 200;
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const facts = read("facts");
  const form = document.getElementById("filter");
  const facets = ["operation", "dtype", "verdict", "evidence", "subject"];
  const worstFirst = (a, b) => a.standing - b.standing;
  let wanted = {};

  const make = (tag, settings = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(settings)) element.setAttribute(name, value);
    element.append(...children);
    return element;
  };

  // The numbers in the page are places in the lists of names.
  const name = (operation, dtype, standing, evidence) => ({
    operation: facts.operations[operation],
    dtype: facts.dtypes[dtype],
    verdict: facts.standings[standing],
    evidence: facts.evidence[evidence],
  });
  // A sum of a cell.
  const spell = ([operation, dtype, standing, evidence, count, held, rank, short, full]) => ({
    ...name(operation, dtype, standing, evidence), standing, strength: evidence, count, held, rank, short, full,
  });
  // Made when a filter is first used: a page may have thousands of cells.
  let made = null;
  const cells = () => (made ||= facts.cells.map(([row, column, sums]) => ({
    row, column, sums: sums.map((each) => spell(each)),
    button: document.querySelector(`button[data-cell="${row}-${column}"]`),
  })));
  const matches = (each, subject) =>
    facets.every((facet) => !wanted[facet] || (facet === "subject" ? subject : each[facet]) === wanted[facet]);

  // The same words as in `Cell.text`, for the cases that are chosen.
  const describe = (sums) => {
    const counts = {};
    for (const each of sums) counts[each.verdict] = (counts[each.verdict] || 0) + each.count;
    const total = sums.reduce((all, each) => all + each.count, 0);
    const asked = total - (counts.unsupported || 0);
    const verdict = sums.reduce((a, b) => (worstFirst(a, b) <= 0 ? a : b)).verdict;
    if (facts.faults.includes(verdict)) {
      const faults = facts.faults.filter((name) => counts[name]);
      return [verdict, `${faults.map((name) => `${name.toUpperCase()} ${counts[name]}`).join(" ")}/${asked}`];
    }
    if (facts.open.includes(verdict) || verdict === "waived") return [verdict, `${verdict} ${counts[verdict]}/${asked}`];
    if (verdict === "measured") {
      const held = sums.reduce((all, each) => all + each.held, 0);
      return [verdict, held === asked ? `measured ${asked}` : `measured ${held}/${asked}`];
    }
    if (verdict === "unsupported") return [verdict, verdict];
    return [verdict, ["pass", "refused"].filter((name) => counts[name]).map((name) => `${name} ${counts[name]}`).join(" ")];
  };

  const weakest = (sums) =>
    sums.filter((each) => facts.telling.includes(each.verdict))
      .reduce((found, each) => (found === null || each.strength > found.strength ? each : found), null);

  const paint = (cell) => {
    const place = facts.columns[cell.column];
    const sums = cell.sums.filter((each) => matches(each, place.subject));
    const box = cell.button.parentElement;
    cell.button.hidden = !sums.length;
    if (!sums.length) {
      box.className = "empty";
      return 0;
    }
    const [verdict, text] = describe(sums);
    const kind = weakest(sums);
    const evidence = kind ? kind.evidence : "not run";
    const weaker = evidence !== place.evidence && evidence !== "not run";
    const worst = sums.filter((each) => each.short).reduce((a, b) => (a && a.rank >= b.rank ? a : b), null);
    box.className = `v-${verdict} e-${evidence.replaceAll(" ", "-")}`;
    cell.button.querySelector(".glyph").textContent = facts.glyphs[facts.standings.indexOf(verdict)];
    cell.button.querySelector(".text").textContent = weaker ? `${text} (${evidence})` : text;
    cell.button.querySelector(".worst").textContent = worst ? worst.short : "";
    cell.button.title = worst ? worst.full : "";
    return sums.reduce((all, each) => all + each.count, 0);
  };

  const total = facts.cells.reduce((all, [, , sums]) => sums.reduce((some, each) => some + each[4], all), 0);
  const numbers = new Intl.NumberFormat("en");

  const filter = () => {
    wanted = Object.fromEntries(new FormData(form));
    const shown = cells().reduce((all, cell) => all + paint(cell), 0);
    const rows = new Set(cells().filter((cell) => !cell.button.hidden).map((cell) => cell.row));
    facts.clauses.forEach((_, row) => { document.getElementById(`row-${row}`).hidden = !rows.has(row); });
    for (const group of document.querySelectorAll("[data-facets]")) {
      const has = JSON.parse(group.dataset.facets);
      group.hidden = !facets.every((name) => !wanted[name] || has[name].includes(wanted[name]));
    }
    for (const each of document.querySelectorAll(".plots")) {
      each.hidden = !!wanted.subject && each.dataset.subject !== wanted.subject;
      filterPlots(each);
    }
    hideColumns();
    close();
    say(shown);
  };

  const say = (shown) => {
    form.querySelector("output").textContent = `${numbers.format(shown)} of ${numbers.format(total)} cases`;
  };

  const filterPlots = (plots) => {
    for (const each of plots.querySelectorAll("figure")) each.hidden = !!wanted.operation && each.dataset.operation !== wanted.operation;
    for (const each of plots.querySelectorAll("[data-dtype]")) each.classList.toggle("dim", !!wanted.dtype && each.dataset.dtype !== wanted.dtype);
  };

  // The drawings are text until they are wanted. The templates escaped it, as they did the rest of the page.
  const draw = (plots) => {
    const text = plots.querySelector("script");
    if (!text) return;
    text.replaceWith(...new DOMParser().parseFromString(text.textContent, "text/html").body.children);
    filterPlots(plots);
  };

  const hideColumns = () => {
    facts.columns.forEach((column, number) => {
      const gone = !!wanted.subject && column.subject !== wanted.subject;
      for (const row of document.querySelectorAll(".matrix > thead > tr, .matrix > tbody > tr:not(.detail)")) {
        row.children[number + 1].hidden = gone;
      }
    });
  };

  // One cell is open at a time.
  let open = null;
  const close = () => {
    if (!open) return;
    open.panel.remove();
    open.button.setAttribute("aria-expanded", "false");
    open.button.removeAttribute("aria-controls");
    open = null;
  };

  const toggle = (button) => {
    const same = open && open.button === button;
    close();
    if (same) return;
    const [row, column] = button.dataset.cell.split("-").map(Number);
    const panel = make("tr", { class: "detail", id: "panel" }, make("td", { colspan: facts.columns.length + 1 }, show(row, column)));
    document.getElementById(`row-${row}`).after(panel);
    button.setAttribute("aria-expanded", "true");
    button.setAttribute("aria-controls", "panel");
    open = { button, panel };
  };

  const show = (row, column) => {
    const place = facts.columns[column];
    const title = `${facts.clauses[row]}: ${place.label}`;
    const body = make("tbody");
    const cases = read(`cases-${row}-${column}`)
      .map(([id, operation, dtype, standing, evidence, error, ulp, message, more = {}]) =>
        ({ id, ...name(operation, dtype, standing, evidence), error, ulp, message, more }))
      .filter((each) => matches(each, place.subject));
    const more = make("button", { type: "button", class: "more" });
    let next = 0;
    const extend = () => {
      for (const each of cases.slice(next, next + STEP)) body.append(line(facts.clauses[row], place, each));
      next = Math.min(next + STEP, cases.length);
      more.hidden = next === cases.length;
      more.textContent = `Show ${Math.min(STEP, cases.length - next)} more of ${numbers.format(cases.length - next)}`;
    };
    more.addEventListener("click", extend);
    extend();
    const heads = ["case", "verdict", "evidence", "× bound", "ulp", "says"].map((name) => make("th", { scope: "col" }, name));
    const table = make("table", {}, make("caption", {}, cases.length === 1 ? "1 case" : `${numbers.format(cases.length)} cases, the worst verdict first`),
      make("thead", {}, make("tr", {}, ...heads)), body);
    return make("div", { class: "panel", role: "region", "aria-label": title },
      make("h3", {}, title), make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Cases of ${title}` }, table), more);
  };

  const line = (clause, place, each) => {
    const says = make("td", {}, each.message);
    if (facts.faults.includes(each.verdict)) says.append(explain(clause, place, each));
    const glyph = make("span", { class: "glyph", "aria-hidden": "true" }, facts.glyphs[facts.standings.indexOf(each.verdict)]);
    return make("tr", { class: `v-${each.verdict}` }, make("th", { scope: "row" }, make("code", {}, each.id)), make("td", {}, glyph, ` ${each.verdict}`),
      make("td", {}, each.evidence), make("td", { class: "number" }, each.error), make("td", { class: "number" }, each.ulp), says);
  };

  const quote = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'"'"'`)}'`);
  const explain = (clause, place, each) => {
    const id = `${clause}/${each.id}`;
    const list = make("dl");
    const add = (name, ...content) => list.append(make("dt", {}, name), make("dd", {}, ...content));
    if (each.more.breaks) add("breaks", each.more.breaks);
    if (each.more.call) add("smallest call", make("code", {}, each.more.call));
    if (each.more.says && each.more.says !== each.message) add("seen there", each.more.says);
    if (each.more.worst) add(each.more.call ? "worst element of the case" : "worst element", each.more.worst);
    if (each.more.bugs) add("resembles", each.more.bugs.join(", "));
    add("again", command(each.more.command || `conformance show ${quote(id)} ${place.where}`));
    return make("details", {}, make("summary", {}, "more"), list);
  };

  const command = (text) =>
    make("p", { class: "command" }, make("code", {}, text), " ", make("button", { type: "button", class: "copy" }, "Copy"));

  const copy = async (button) => {
    const code = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      // Where a page may not write to the clipboard, the command is at least selected.
      button.textContent = document.execCommand("copy") ? "Copied" : "Selected";
    }
  };

  document.addEventListener("click", (event) => {
    const cell = event.target.closest("button[data-cell]");
    const copied = event.target.closest("button.copy");
    if (cell) toggle(cell);
    if (copied) copy(copied);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !open) return;
    const { button } = open;
    close();
    button.focus();
  });
  for (const each of document.querySelectorAll(".plots")) each.addEventListener("toggle", () => draw(each));
  form.addEventListener("change", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.hidden = false;
  // A browser may have kept what was chosen before the page was loaded again.
  if ([...new FormData(form).values()].some(Boolean)) filter();
  else say(total);
})();
