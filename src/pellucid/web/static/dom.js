// Elements, made without markup in strings: text from a model is text and never HTML.

import { local, t } from "./messages.js";

/** @typedef {Node | string | number | null | undefined | false | any[]} Child */

/**
 * An element. `on*` are listeners, `text` its text, `said` text that a model or Python said and that
 * is not translated; all else is set as an attribute.
 * @param {string} tag @param {Record<string, any>} [has] @param {...(Child | Child[])} children
 * @returns {any}
 */
export function h(tag, has = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(has)) put(made, name, value);
  made.append(...nodes(children));
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Record<string, any>} [has] @param {...(Child | Child[])} children
 * @returns {any} */
export function svg(tag, has = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(has)) put(made, name, value);
  made.append(...nodes(children));
  return made;
}

/** @param {Element} made @param {string} name @param {any} value */
function put(made, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
  else if (name === "text") made.textContent = value;
  else if (name === "said") {
    made.textContent = value;
    made.setAttribute("translate", "no");
  } else if (name === "vars") {
    for (const [key, each] of Object.entries(value)) made.style.setProperty(`--${key}`, each);
  } else made.setAttribute(name, value === true ? "" : String(value));
}

/** @param {(Child | Child[])[]} children @returns {(Node | string)[]} */
function nodes(children) {
  const flat = /** @type {Child[]} */ (children.flat(Infinity));
  return flat
    .filter((each) => each !== null && each !== undefined && each !== false && each !== "")
    .map((each) => (each instanceof Node ? each : String(each)));
}

/** Puts new children in place of the old, and keeps the focus where an element of the same
 * `data-key` is there again. @param {Element} home @param {...(Child | Child[])} children */
export function fill(home, ...children) {
  const active = document.activeElement;
  const key = active && home.contains(active) ? active.getAttribute("data-key") : null;
  home.replaceChildren(...nodes(children));
  if (key === null) return;
  const again = home.querySelector(`[data-key="${CSS.escape(key)}"]`);
  if (again instanceof HTMLElement || again instanceof SVGElement) again.focus({ preventScroll: true });
}

/** What is said to a screen reader without moving the focus. @param {string} text */
export function announce(text) {
  const live = document.getElementById("live");
  if (live) live.textContent = text;
}

/** A token as it can be seen: blanks at its ends and control characters have a sign.
 * @param {string} piece */
export function seen(piece) {
  if (piece === "") return "∅";
  return piece
    .replace(/^ +| +$/g, (blanks) => "\u00b7".repeat(blanks.length))
    .replace(/\n/g, "↵")
    .replace(/\t/g, "⇥")
    .replace(/[\u0000-\u001f\u007f]/g, "�");
}

/** A number in few digits, its minus sign as in print. @param {number | null | undefined} value
 * @param {number} [digits] */
export function digits(value, digits = 4) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  const size = Math.abs(value);
  if (size === 0) return "0";
  let text;
  if (size !== 0 && (size >= 1e6 || size < 1e-4)) text = value.toExponential(Math.max(0, digits - 2));
  else if (size >= 10 ** digits) text = value.toFixed(0);
  else text = value.toFixed(Math.max(0, size >= 1 ? digits - String(Math.trunc(size)).length + 1 : digits));
  return local(text).replace(/-/g, "−");
}

/** A number in so many significant digits, or in all of them where they are fewer.
 * @param {number} value @param {number} digits */
export function significant(value, digits) {
  if (!Number.isFinite(value)) return Number.isNaN(value) ? "–" : value > 0 ? "∞" : "−∞";
  return local(String(Number(value.toPrecision(digits)))).replace(/-/g, "−");
}

/** A number that ends at a power of ten. @param {number | null} value @param {number} places */
export function ended(value, places) {
  if (value === null || !value || !Number.isFinite(value)) return value === null ? "–" : significant(value, 1);
  const digits = Math.floor(Math.log10(Math.abs(value))) - places + 1;
  return digits > 0 ? significant(value, digits) : "0";
}

/** @param {number} share */
export function percent(share) {
  if (share >= 0.9995 && share < 1) return `> ${t("percent", { p: local("99.9") })}`;
  if (share > 0 && share < 0.0005) return `< ${t("percent", { p: local("0.1") })}`;
  return t("percent", { p: local((share * 100).toFixed(share >= 0.0995 ? 1 : 2)) });
}
