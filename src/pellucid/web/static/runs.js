// The room of all runs: a table to sort and to filter, and curves of some runs over each other.

import { announce, digits, fill, h } from "./dom.js";
import { ask } from "./asking.js";
import { lines } from "./pictures.js";
import { effect, signal } from "./signal.js";
import { choose, state } from "./state.js";
import { t } from "./messages.js";

/** The most curves in one picture: so many can be told apart. */
const MOST = 4;
/** The columns: what a row calls it, and its title. Those of the second list hold numbers. */
const WORDS = ["name", "objective", "data", "word", "state"];
const TITLES = {
  name: "runs-name", objective: "runs-objective", parameters: "runs-size", data: "runs-data", step: "runs-updates",
  best_loss: "runs-loss", bits_per_byte: "bits-per-byte", word: "runs-signs", state: "runs-state",
};
/** The words of a row that have a translation. */
const STATES = { finished: "runs-finished", unfinished: "runs-unfinished", training: "runs-training", "not finite": "runs-not-finite", damaged: "runs-damaged" };
const SIGNS = { calm: "runs-calm", watch: "runs-watch", sick: "runs-sick" };

/** @type {any} */
const rows = signal(null);
/** @type {any} */
const curves = signal(null);
const problem = signal("");
const sought = signal("");
const sorting = signal({ column: "name", down: false });
/** @type {import("./signal.js").Signal<string[]>} */
const drawn = signal([]);
const [tableHome, pictureHome, problemHome] = [h("div"), h("div"), h("div", { role: "alert" })];
let started = false;

/** The room, while it is open. @param {Element} home */
export function runsRoom(home) {
  const isOpen = state.list() === 1;
  home.toggleAttribute("hidden", !isOpen);
  if (!isOpen) return fill(home);
  const input = h("input", { id: "sought", type: "text", "data-key": "sought", autocomplete: "off", translate: "no", value: sought.peek(), "aria-describedby": "sought-hint", oninput: () => sought.set(input.value) });
  fill(
    home,
    h("h2", { id: "runs-head", text: t("runs-all") }),
    h("div", { class: "picker" }, h("label", { for: "sought", text: t("runs-filter") }), input),
    h("p", { class: "soft", id: "sought-hint", text: t("runs-filter-hint", { example: "state=finished best_loss<2.5" }) }),
    problemHome, tableHome, pictureHome,
  );
  home.setAttribute("aria-labelledby", "runs-head");
  read();
  if (started) return;
  started = true;
  effect(() => fill(problemHome, problem() && h("p", { class: "said-of-it", said: problem() })));
  effect(() => rows() && fill(tableHome, table()));
  effect(() => drawn().length ? readCurves(drawn()) : curves.set(null));
  effect(() => fill(pictureHome, curves() && picture(curves())));
}

async function read() {
  try {
    const said = await ask({ kind: "table" }, "table");
    if (said === null) return;
    const isFirst = rows.peek() === null;
    rows.set(said.rows);
    const names = said.rows.map((/** @type {any} */ row) => row.name);
    if (isFirst) drawn.set(sorted(said.rows).filter((/** @type {any} */ row) => row.best_loss !== null).slice(0, MOST).map((/** @type {any} */ row) => row.name));
    else drawn.set(drawn.peek().filter((name) => names.includes(name)));
    problem.set("");
  } catch (error) {
    problem.set(/** @type {Error} */ (error).message);
  }
}

/** @param {string[]} names */
async function readCurves(names) {
  try {
    const said = await ask({ kind: "curves", names }, "curves");
    if (said !== null) curves.set(said);
  } catch (error) {
    problem.set(/** @type {Error} */ (error).message);
  }
}

function table() {
  const shown = sorted(rows().filter((/** @type {any} */ row) => sought().split(/\s+/).every((word) => holds(row, word))));
  announce(t("runs-shown", { n: shown.length, all: rows().length }));
  const head = h("tr", {}, h("th", { scope: "col", text: t("runs-draw") }), Object.entries(TITLES).map(([column, title]) => heading(column, title)));
  return [
    h("p", { class: "soft", text: t("runs-shown", { n: shown.length, all: rows().length }) }),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-labelledby": "runs-head" }, h("table", { class: "runs" }, h("thead", {}, head), h("tbody", {}, shown.map(line)))),
  ];
}

/** @param {string} column @param {string} title */
function heading(column, title) {
  const { column: by, down } = sorting();
  const order = by !== column ? null : down ? "descending" : "ascending";
  const press = () => sorting.set({ column, down: by === column && !down });
  return h(
    "th", { scope: "col", "aria-sort": order, class: WORDS.includes(column) ? null : "number" },
    h("button", { type: "button", class: "quiet", "data-key": `sort ${column}`, onclick: press }, t(title), order && h("span", { "aria-hidden": "true" }, down ? " ▼" : " ▲")),
  );
}

/** @param {any} row */
function line(row) {
  const isDrawn = drawn().includes(row.name);
  const box = h("input", { type: "checkbox", checked: isDrawn, disabled: row.best_loss === null || (!isDrawn && drawn().length >= MOST), "data-key": `draw ${row.name}`, "aria-label": t("runs-draw-one", { run: row.name }), onchange: () => drawn.set(isDrawn ? drawn.peek().filter((name) => name !== row.name) : [...drawn.peek(), row.name]) });
  const open = () => choose({ run: row.key, at: "", scales: "", list: 0 });
  return h(
    "tr", {},
    h("td", {}, box),
    h("th", { scope: "row" }, row.key ? h("button", { type: "button", class: "quiet", "data-key": `open ${row.name}`, said: row.name, onclick: open }) : h("span", { said: row.name })),
    h("td", { said: row.objective ?? "–" }),
    h("td", { class: "number", said: row.size || "–" }),
    h("td", { said: row.data ?? "–" }),
    h("td", { class: "number", said: row.step === null ? "–" : row.total_steps === null ? digits(row.step, 9) : `${row.step} / ${row.total_steps}` }),
    h("td", { class: "number", said: digits(row.best_loss) }),
    h("td", { class: "number", said: digits(row.bits_per_byte) }),
    h("td", { text: word(SIGNS, row.word) }),
    h("td", { text: word(STATES, row.state), title: row.problem || null }),
  );
}

/** @param {Record<string, string>} keys @param {string} value */
function word(keys, value) {
  return value in keys ? t(keys[value]) : value || "–";
}

/** The rows by the chosen column; those without a value come last. @param {any[]} all */
function sorted(all) {
  const { column, down } = sorting();
  const order = new Intl.Collator(undefined, { numeric: true }).compare;
  return all.toSorted((a, b) => {
    const [left, right] = [a[column] ?? "", b[column] ?? ""];
    if (left === "" || right === "") return Number(left === "") - Number(right === "");
    const less = typeof left === "number" ? left - right : order(left, right);
    return down ? -less : less;
  });
}

/** Whether a row has a word of the filter: a part of its texts, or a column with a value.
 * @param {any} row @param {string} word */
function holds(row, word) {
  const found = /^(\w+)(<=|>=|!=|=|~|<|>)(.+)$/.exec(word);
  if (!found || !(found[1] in row)) return WORDS.some((column) => String(row[column] ?? "").toLowerCase().includes(word.toLowerCase()));
  const [, column, sign, text] = found;
  const cell = row[column];
  if (cell === null) return false;
  const value = typeof cell === "number" ? Number(text) : text;
  switch (sign) {
    case "=": return cell === value;
    case "!=": return cell !== value;
    case "<": return cell < value;
    case ">": return cell > value;
    case "<=": return cell <= value;
    case ">=": return cell >= value;
    default: return String(cell).toLowerCase().includes(text.toLowerCase());
  }
}

/** Held-out curves over each other. @param {any} said */
function picture(said) {
  const steps = [...new Set(said.curves.flatMap((/** @type {any} */ [, points]) => points.map((/** @type {number[]} */ point) => point[0])))].toSorted((a, b) => a - b);
  const series = said.curves.map((/** @type {any} */ [, points]) => {
    const at = new Map(points);
    return steps.map((step) => at.get(step) ?? NaN);
  });
  if (steps.length === 0) return h("p", { class: "soft", text: t("runs-no-curve") });
  const title = t(said.measure === "bits_per_byte" ? "runs-curves-bits" : "runs-curves");
  return lines({ kind: "lines", title, x: steps, x_unit: t("runs-updates"), names: said.curves.map((/** @type {any} */ [name]) => name), series, close: true });
}
