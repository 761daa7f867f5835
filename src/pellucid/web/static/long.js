// A long row of tokens: a strip of all of them, and a part of it in detail. The strip is a slider,
// so a mouse, a finger and the arrow keys move the part.

import { fill, h } from "./dom.js";
import { css, isDark, shade } from "./colour.js";
import { t } from "./messages.js";

/** How many tokens are shown in detail. */
const PART = 64;

/**
 * The strip, where the row is longer than a part, and the list.
 * @param {{ count: number, at: number, list: Element, item: (n: number) => Element,
 *   values: (number | null)[], scale: string, key: string, name: string,
 *   choose?: (n: number) => void }} row `at` is in the part; `choose` is called where the slider rests
 */
export function long({ count, at, list, item, values, scale, key, name, choose }) {
  const start = (/** @type {number} */ n) => Math.max(0, Math.min(n - PART / 2, count - PART));
  const show = (/** @type {number} */ n) => fill(list, Array.from({ length: Math.min(PART, count) }, (_, i) => item(start(n) + i)));
  show(at);
  if (count <= PART) return [list];
  const window = h("i", { class: "part-shown" });
  const told = h("p", { class: "soft", translate: "no" });
  const input = h("input", {
    type: "range", min: 0, max: count - 1, "data-key": key, "aria-label": t("all-tokens", { name, n: count }),
    oninput: () => move(Number(input.value)), onchange: () => choose?.(Number(input.value)),
  });
  const move = (/** @type {number} */ n) => {
    show(n);
    window.style.setProperty("left", `${(start(n) / count) * 100}%`);
    const part = t("tokens-part", { first: start(n), last: start(n) + PART - 1, n: count });
    told.textContent = part;
    input.setAttribute("aria-valuetext", part);
  };
  input.value = String(at);
  window.style.setProperty("width", `${(PART / count) * 100}%`);
  move(at);
  return [h("div", { class: "strip" }, shades(values, scale), window, input), told, list];
}

/** One line for each token. @param {(number | null)[]} values @param {string} scale */
function shades(values, scale) {
  const canvas = h("canvas", { width: values.length, height: 1, "aria-hidden": "true" });
  const pen = canvas.getContext("2d");
  const most = Math.max(...values.map((value) => Math.abs(value ?? 0)));
  values.forEach((value, n) => {
    pen.fillStyle = css(shade(value ?? 0, most, scale, isDark()));
    pen.fillRect(n, 0, 1, 1);
  });
  return canvas;
}
