// A matrix: shades on a canvas, and a grid that keyboards and screen readers walk through, one cell
// of it at a time; the chosen row is a table too.

import { fill, h, announce, digits, seen } from "./dom.js";
import { css, isDark, isPale, shade } from "./colour.js";
import { floats } from "./asking.js";
import { local, t } from "./messages.js";

/** @typedef {{ title: string, rows: string[], columns: string[], first: number[], data: string, scale: any,
 *   address: string, pooled: string }} Matrix */

let count = 0;

/**
 * @param {Matrix} said @param {{ row: number, column: number }} at where the cursor starts
 * @param {(row: number, column: number) => void} choose
 * @param {number[][]} [reach] the first and the last row, and column, that can be chosen, where
 * they lie outside the map @returns {HTMLElement}
 */
export function matrix(said, at, choose, reach) {
  const values = floats(said.data);
  const [nRows, nColumns] = [said.rows.length, said.columns.length];
  const most = values.reduce((max, v) => (Number.isNaN(v) ? max : Math.max(max, Math.abs(v))), 0);
  let row = Math.min(Math.max(at.row, 0), nRows - 1);
  let column = Math.min(Math.max(at.column, 0), nColumns - 1);
  const id = `m${(count += 1)}`;

  const canvas = h("canvas", { "aria-hidden": "true" });
  const cell = h("div", { role: "gridcell", id: `${id}c`, class: "unseen" });
  const line = h("div", { role: "row", class: "unseen" }, cell);
  const grid = h(
    "div",
    {
      class: "grid", role: "grid", tabindex: 0, "aria-rowcount": nRows, "aria-colcount": nColumns,
      "aria-label": t("matrix-label", { title: said.title, rows: ["count-rows", { n: nRows }], columns: ["count-columns", { n: nColumns }] }),
      "aria-activedescendant": `${id}c`, "aria-describedby": `${id}h`, translate: "no",
      "data-key": `matrix ${said.title}`,
    },
    canvas, line,
  );
  const readout = h("p", { class: "readout", "aria-hidden": "true", translate: "no" });
  const details = h("details", { class: "as-table" }, h("summary", {}), h("div", { class: "scroll" }));

  const at_ = (/** @type {number} */ r, /** @type {number} */ c) => values[r * nColumns + c];
  const told = (/** @type {number} */ r, /** @type {number} */ c, key = "cell") => {
    const value = at_(r, c);
    return t(key, {
      row: seen(said.rows[r]),
      column: seen(said.columns[c]),
      value: Number.isNaN(value) ? t("cell-hidden") : digits(value),
    });
  };
  const show = () => {
    cell.textContent = told(row, column);
    line.setAttribute("aria-rowindex", row + 1);
    cell.setAttribute("aria-colindex", column + 1);
    const address = said.address ? `${said.address}[${row + said.first[0]}, ${column + said.first[1]}]` : "";
    fill(readout, h("span", { text: told(row, column, "cell-shown") }), address && h("code", { text: address }));
    const [summary, home] = details.children;
    summary.textContent = t("row-table", { row: seen(said.rows[row]) });
    if (details.open) fill(home, table(said, row, at_));
    draw(canvas, said, at_, most, row, column);
  };
  details.addEventListener("toggle", show);

  const pointed = (/** @type {MouseEvent} */ event) => {
    const box = canvas.getBoundingClientRect();
    const { left, top, size } = canvas.laid;
    const c = Math.floor((event.clientX - box.left - left) / size);
    const r = Math.floor((event.clientY - box.top - top) / size);
    return r >= 0 && c >= 0 && r < nRows && c < nColumns ? { r, c } : null;
  };
  canvas.addEventListener("mousemove", (/** @type {MouseEvent} */ event) => {
    const over = pointed(event);
    if (!over || (over.r === row && over.c === column)) return;
    [row, column] = [over.r, over.c];
    show();
  });
  canvas.addEventListener("mouseleave", () => {
    [row, column] = [Math.min(Math.max(at.row, 0), nRows - 1), Math.min(Math.max(at.column, 0), nColumns - 1)];
    show();
  });
  canvas.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const over = pointed(event);
    if (over) choose(over.r, over.c);
  });
  grid.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const moves = /** @type {Record<string, number[]>} */ ({
      ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0],
      Home: [0, -nColumns], End: [0, nColumns], PageUp: [-8, 0], PageDown: [8, 0],
    });
    if (event.key === "Enter" || event.key === " ") choose(row, column);
    else if (event.key in moves) {
      const [down, right] = moves[event.key];
      const [rows, columns] = reach ?? [[0, nRows - 1], [0, nColumns - 1]];
      const next = [within(row + down, rows), within(column + right, columns)];
      if (next[0] in said.rows && next[1] in said.columns) {
        [row, column] = next;
        show();
        announce(told(row, column));
      } else choose(next[0], next[1]); // the map moves there
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  new ResizeObserver(show).observe(grid);
  requestAnimationFrame(show);
  return h(
    "figure",
    { class: "matrix" },
    h("figcaption", {}, h("span", { said: said.title }), said.pooled && h("small", { said: said.pooled }), key(said, most)),
    grid,
    h("p", { id: `${id}h`, class: "unseen", text: t("matrix-hint") }),
    readout,
    details,
  );
}

/** @param {number} place @param {number[]} ends */
const within = (place, [low, high]) => Math.min(Math.max(place, low), high);

/** @param {Matrix} said @param {number} row @param {(r: number, c: number) => number} at */
function table(said, row, at) {
  const cells = said.columns.map((name, c) =>
    h("tr", {}, h("th", { scope: "row", said: seen(name) }), h("td", { class: "number", said: digits(at(row, c), 6) })),
  );
  const head = h("tr", {}, h("th", { scope: "col", text: t("column") }), h("th", { scope: "col", class: "number", text: t("value") }));
  return h("table", {}, h("thead", {}, head), h("tbody", {}, cells));
}

/** A number within a cell: what rounds to nothing is nothing. @param {number} value */
function plain(value) {
  const size = Math.abs(value);
  if (size < 0.005) return "0";
  return local(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2)).replace("-", "−");
}

/** What the shades mean. @param {Matrix} said @param {number} most */
function key(said, most) {
  const low = said.scale === "sequential" ? 0 : -most;
  const canvas = h("canvas", { width: 96, height: 8, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  for (let x = 0; x < 96; x += 1) {
    pen.fillStyle = css(shade(low + ((most - low) * x) / 95, most, said.scale, isDark()));
    pen.fillRect(x, 0, 1, 8);
  }
  return h(
    "span",
    { class: "colour-key", translate: "no" },
    digits(low, 2), canvas, digits(most, 2),
    h("span", { class: "unseen", text: t("colour-key", { low: digits(low, 2), high: digits(most, 2) }) }),
  );
}

/** @param {any} canvas @param {Matrix} said @param {(r: number, c: number) => number} at
 * @param {number} most @param {number} row @param {number} column */
function draw(canvas, said, at, most, row, column) {
  const style = getComputedStyle(canvas);
  const width = canvas.parentElement.clientWidth;
  if (!width) return;
  const [nRows, nColumns] = [said.rows.length, said.columns.length];
  const pen = canvas.getContext("2d");
  const font = (/** @type {number} */ size) => `${size}px ${style.fontFamily}`;
  pen.font = font(12);
  const longest = Math.max(...said.rows.map((name) => pen.measureText(seen(name)).width));
  const left = Math.min(Math.ceil(longest) + 10, Math.min(110, width * 0.28));
  const size = Math.max(1, Math.min((width - left - 4) / nColumns, nRows * nColumns > 400 ? 26 : 44));
  const names = size >= 11;
  const above = Math.max(...said.columns.map((name) => pen.measureText(seen(name)).width));
  const level = above <= size - 6;
  const top = !names ? 4 : level ? 20 : Math.min(Math.ceil(above) + 10, 84);
  const scale = devicePixelRatio || 1;
  const [wide, tall] = [left + nColumns * size + 4, top + nRows * size + 4];
  canvas.laid = { left, top, size };
  canvas.width = Math.round(wide * scale);
  canvas.height = Math.round(tall * scale);
  canvas.style.width = `${wide}px`;
  canvas.style.height = `${tall}px`;
  canvas.closest("figure")?.style.setProperty("--wide", `${Math.max(wide, 300)}px`);
  pen.scale(scale, scale);
  const dark = isDark();
  const gap = size >= 12 ? 1 : 0;
  const numbered = size >= 34;
  const [ink, soft, accent] = ["--ink", "--soft", "--accent"].map((name) => resolved(canvas, name));
  for (let r = 0; r < nRows; r += 1) {
    for (let c = 0; c < nColumns; c += 1) {
      const value = at(r, c);
      const colour = shade(value, most, said.scale, dark);
      pen.fillStyle = css(colour);
      pen.fillRect(left + c * size, top + r * size, size - gap, size - gap);
      if (!numbered || Number.isNaN(value)) continue;
      pen.fillStyle = isPale(colour) ? "#14161c" : "#fff";
      pen.font = font(11);
      pen.textAlign = "center";
      pen.textBaseline = "middle";
      pen.fillText(most >= 0.1 ? plain(value) : digits(value, 2), left + c * size + size / 2, top + r * size + size / 2, size - 3);
    }
  }
  pen.textBaseline = "middle";
  for (let r = 0; names && r < nRows; r += 1) {
    pen.fillStyle = r === row ? ink : soft;
    pen.font = (r === row ? "600 " : "") + font(12);
    pen.textAlign = "right";
    pen.fillText(seen(said.rows[r]), left - 6, top + r * size + size / 2, left - 8);
  }
  for (let c = 0; names && c < nColumns; c += 1) {
    pen.fillStyle = c === column ? ink : soft;
    pen.font = (c === column ? "600 " : "") + font(12);
    pen.save();
    pen.translate(left + c * size + size / 2, top - 6);
    if (level) {
      pen.textAlign = "center";
      pen.textBaseline = "bottom";
    } else {
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "left";
    }
    pen.fillText(seen(said.columns[c]), 0, 0, level ? size : top - 10);
    pen.restore();
  }
  pen.lineWidth = 2;
  pen.strokeStyle = accent;
  pen.strokeRect(left + column * size - 0.5, top + row * size - 0.5, size, size);
}

/** A colour of the theme as a canvas takes it. @param {Element} element @param {string} name */
function resolved(element, name) {
  const probe = /** @type {HTMLElement} */ (element.parentElement);
  probe.style.setProperty("outline-color", `var(${name})`);
  return getComputedStyle(probe).outlineColor;
}
