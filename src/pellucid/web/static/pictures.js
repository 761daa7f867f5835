// The pictures of a chapter: tokens, bars, tables, curves; a matrix has a file of its own.

import { h, svg, digits, seen } from "./dom.js";
import { number } from "./expression.js";
import { css, isDark, shade } from "./colour.js";
import { film, frames } from "./film.js";
import { matrix } from "./matrix.js";
import { choose, state } from "./state.js";
import { long } from "./long.js";
import { local, t } from "./messages.js";

/** @param {any} said @param {any} seenAs the overview @returns {HTMLElement} */
function picture(said, seenAs) {
  switch (said.kind) {
    case "matrix": return withSelection(said, seenAs);
    case "tokens": return tokens(said);
    case "bars": return bars(said);
    case "lines": return lines(said);
    case "film": return film(said);
    case "frames": return frames(said);
    default: return table(said);
  }
}

/** Pictures one below the other; several matrices in a row, such as one for each head, side by side.
 * @param {any[]} all @param {any} seenAs */
export function pictures(all, seenAs) {
  /** @type {any[][]} */
  const groups = [];
  for (const each of all) {
    const last = groups[groups.length - 1];
    const alike = last && each.kind === "matrix" && last[0].kind === "matrix" && each.rows.length === last[0].rows.length && each.columns.length === last[0].columns.length;
    if (alike) last.push(each);
    else groups.push([each]);
  }
  return groups.map((group) => {
    const made = group.map((each) => picture(each, seenAs));
    return group.length > 2 ? h("div", { class: "several" }, made) : made;
  });
}

/** A matrix chooses what its rows and columns are: tokens, layers, heads, features. What is cut out
 * begins at `first`, and its arrow keys go on beyond it. A cell of a pooled map chooses the first
 * tokens of its patch.
 * @param {any} said @param {any} seenAs */
function withSelection(said, seenAs) {
  const pair = seenAs.spare.length > 0;
  const asks = pair && state.stack() === "encoder" ? "source" : "token";
  const answers = pair && (asks === "source" || state.cross() === 1) ? "source" : "token";
  const pieces = /** @type {Record<string, string[]>} */ ({ token: seenAs.pieces, source: seenAs.spare });
  const [down, across] = said.first;
  const { patch } = said;
  const rows = kindOf(said.rows, pieces[asks], down, patch) ?? asks;
  const columns = kindOf(said.columns, pieces[answers], across, patch) ?? answers;
  const both = rows === asks && columns === answers;
  const column = both && asks === answers ? "other" : columns;
  const token = (state.token() + seenAs.pieces.length) % seenAs.pieces.length;
  const places = /** @type {Record<string, number>} */ ({ token, source: state.source(), other: state.other(), layer: state.layer(), head: state.head(), feature: state.feature() });
  const fixed = said.pooled && !said.address && patch === 1;
  const cell = (/** @type {string} */ name, /** @type {number} */ first) => Math.floor((places[name] - first) / (name === "layer" || name === "head" || name === "feature" ? 1 : patch));
  const reach = both && said.address ? [[-down, pieces[asks].length - 1 - down], [-across, pieces[answers].length - 1 - across]] : undefined;
  return matrix(said, { row: cell(rows, down), column: cell(column, across) }, (r, c) => {
    if (fixed) return;
    const next = { [rows]: numberIn(said.rows[r], r * (rows === asks ? patch : 1) + down) };
    if (rows === "feature" && columns !== answers) delete next.feature;
    choose({ ...next, [column]: columns === answers ? c * patch + across : numberIn(said.columns[c], c) });
  }, reach);
}

/** What names are of; null where they are tokens. @param {string[]} names @param {string[]} pieces
 * @param {number} first @param {number} patch */
function kindOf(names, pieces, first, patch) {
  if (names.every((name, n) => name === pieces[n * patch + first])) return null;
  if (names.every((name) => /^(L|E|layer )\d+$/.test(name))) return "layer";
  return names.every((name) => /^(H|head )\d+$/.test(name)) ? "head" : "feature";
}

/** @param {string} name @param {number} place */
function numberIn(name, place) {
  return /^(?:[LEH]|layer |head )\d+$/.test(name) ? Number(/\d+/.exec(name)) : place;
}

/** @param {any} said @param {any} body */
function figure(said, body) {
  return h("figure", { class: said.kind }, h("figcaption", {}, h("span", { said: said.title }), said.unit && h("small", { said: said.unit })), body);
}

/** @param {any} said */
function tokens(said) {
  const values = said.values.map(number);
  const most = Math.max(...values.map(Math.abs), 0);
  const scale = values.some((/** @type {number} */ v) => v < 0) ? "diverging" : "sequential";
  const item = (/** @type {number} */ n) => {
    const value = values[n];
    const mark = value === undefined ? null : h("i", { class: "shade" });
    if (mark) mark.style.background = css(shade(value, most, scale, isDark()));
    return h(
      "li", { translate: "no" },
      h("span", { class: "piece", said: seen(said.pieces[n]) }), mark,
      value !== undefined && h("span", { class: "number", text: digits(value, 3) }),
      h("span", { class: "id", text: said.ids[n] }),
    );
  };
  const count = said.pieces.length;
  const list = h("ol", { class: "pieces" });
  const at = Math.min((state.token() + count) % count, count - 1);
  return figure(said, long({ count, at, list, item, values: values.length ? values : said.pieces.map(() => 0), scale, key: `all ${said.title}`, name: said.title }));
}

/** @param {any} said */
function bars(said) {
  const values = said.values.map(number);
  const rest = said.rest === null || said.rest === undefined ? [] : [number(said.rest)];
  const all = [...values, ...rest].filter(Number.isFinite);
  const high = Math.max(0, ...all);
  const low = Math.min(0, ...all);
  const rows = values.map((/** @type {number} */ value, /** @type {number} */ n) => bar(seen(said.names[n]), value, low, high, false));
  if (rest.length) rows.push(bar(t("rest"), rest[0], low, high, true));
  const head = h("tr", { class: "unseen" }, ["name", "value"].map((key) => h("th", { scope: "col", text: t(key) })), h("td", {}));
  return figure(said, h("table", { class: "bars" }, h("thead", {}, head), h("tbody", {}, rows)));
}

/** @param {string} name @param {number} value @param {number} low @param {number} high
 * @param {boolean} isRest */
function bar(name, value, low, high, isRest) {
  const span = high - low || 1;
  const [zero, end] = [(-low / span) * 100, ((value - low) / span) * 100];
  const drawn = svg(
    "svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true", class: "bar" },
    svg("rect", {
      x: Math.min(zero, end), width: value === 0 ? 0 : Math.max(Math.abs(end - zero), 0.4), y: 1, height: 8,
      class: value < 0 ? "below" : "above",
    }),
    low < 0 && svg("line", { x1: zero, x2: zero, y1: 0, y2: 10, class: "zero" }),
  );
  const label = isRest ? { text: name } : { said: name };
  return h(
    "tr", { class: isRest ? "rest" : null }, h("th", { scope: "row", ...label }),
    h("td", { class: "number", said: digits(value) }), h("td", { class: "drawn" }, drawn),
  );
}

/** @param {any} said */
function table(said) {
  const isNumber = said.columns.map((/** @type {string} */ _, /** @type {number} */ c) =>
    said.rows.length > 0 && said.rows.every((/** @type {any[]} */ row) => typeof row[c] === "number"));
  const cell = (/** @type {any} */ value, /** @type {number} */ c) => {
    const text = typeof value === "number" ? short(value, 5) : String(value);
    return c === 0
      ? h("th", { scope: "row", class: isNumber[c] ? "number" : null, said: text })
      : h("td", { class: isNumber[c] ? "number" : null, said: text });
  };
  const head = h("tr", {}, said.columns.map((/** @type {string} */ name, /** @type {number} */ c) => h("th", { scope: "col", class: isNumber[c] ? "number" : null, said: name })));
  const rows = said.rows.map((/** @type {any[]} */ row) => h("tr", {}, row.map(cell)));
  return figure(said, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": said.title, translate: "no" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows))));
}

/** A number without the noughts that say nothing. @param {number} value @param {number} most */
function short(value, most) {
  const cents = value * 100;
  return Math.abs(cents - Math.round(cents)) < 1e-9 && Math.abs(value) < 1e9 ? local(String(value)).replace("-", "−") : digits(value, most);
}

const WIDE = 640;
const TALL = 220;

/** Curves; `close`: the axis need not hold zero. @param {any} said */
export function lines(said) {
  const series = said.series.map((/** @type {any[]} */ each) => each.map(number));
  const ys = series.flat().filter(Number.isFinite);
  const [low, high] = [Math.min(...ys, ...(said.close ? [] : [0])), Math.max(...ys)];
  const [first, last] = [said.x[0], said.x[said.x.length - 1]];
  const x = (/** @type {number} */ v) => 48 + ((v - first) / (last - first || 1)) * (WIDE - 60);
  const y = (/** @type {number} */ v) => TALL - 28 - ((v - low) / (high - low || 1)) * (TALL - 44);
  const curves = series.map((/** @type {number[]} */ each, /** @type {number} */ n) =>
    svg("polyline", { class: `curve curve-${n % 4}`, points: each.map((v, i) => (Number.isFinite(v) ? `${x(said.x[i]).toFixed(1)},${y(v).toFixed(1)}` : "")).join(" ") }));
  const marks = [low, (low + high) / 2, high].map((v) => [
    svg("line", { class: "rule", x1: 48, x2: WIDE - 12, y1: y(v), y2: y(v) }),
    svg("text", { x: 42, y: y(v) + 4, "text-anchor": "end", text: digits(v, 3) }),
  ]);
  const ends = [first, last].map((v, n) => svg("text", { x: x(v), y: TALL - 8, "text-anchor": n ? "end" : "start", text: short(v, 3) }));
  const drawn = svg("svg", { viewBox: `0 0 ${WIDE} ${TALL}`, class: "curves", role: "img", "aria-label": said.title, translate: "no" }, marks, curves, ends, svg("text", { x: WIDE / 2, y: TALL - 8, "text-anchor": "middle", text: said.x_unit }));
  const keys = h("ul", { class: "curve-key" }, said.names.map((/** @type {string} */ name, /** @type {number} */ n) => h("li", { class: `key-${n % 4}`, said: name })));
  const head = h("tr", {}, h("th", { scope: "col", said: said.x_unit }), said.names.map((/** @type {string} */ name) => h("th", { scope: "col", class: "number", said: name })));
  const rows = said.x.map((/** @type {number} */ v, /** @type {number} */ i) => h("tr", {}, h("th", { scope: "row", said: digits(v) }), series.map((/** @type {number[]} */ each) => h("td", { class: "number", said: digits(each[i]) }))));
  const asTable = h("details", { class: "as-table" }, h("summary", { text: t("lines-table") }), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows))));
  return figure(said, [drawn, keys, asTable]);
}
