// The whole machine as one picture, to scale: stack, layer, attention, head, one multiplication. The
// sentence flows through it from top to bottom. Each part is the door to its chapter.

import { announce, digits, fill, h, seen, svg } from "./dom.js";
import { number } from "./expression.js";
import { question } from "./asking.js";
import { choose, state } from "./state.js";
import { signal } from "./signal.js";
import { t } from "./messages.js";

/** The parts of each stack, with their numbers at the chosen token. */
export const machines = signal(/** @type {Record<string, any>} */ ({}));
const WHOLE = "machine";
const PRODUCT = "product";
const [TALL, GAP, TOP, MOST_LANES, MOST_TERMS] = [52, 14, 22, 24, 12];

/** Asks for each stack at its token. @param {any} seenAs @param {any} get */
export function askMachine(seenAs, get) {
  for (const stack of new Set(seenAs.stacks.map((/** @type {any} */ each) => each.name))) {
    const encodes = stack === "encoder" && seenAs.spare.length > 0;
    const into = { set: (/** @type {any} */ said) => machines.set({ ...machines.peek(), [said.stack]: { ...said, of: seenAs.asked } }) };
    const token = at(encodes ? state.source() : state.token(), read(seenAs, /** @type {string} */ (stack)).length);
    get(question("machine", { place: { stack, token } }), `machine ${stack}`, into);
  }
}

/** @param {Element} home @param {any} seenAs the overview @param {Record<string, any>} known
 * @param {any} opened the chapter that is open */
export function machine(home, seenAs, known, opened) {
  const isOpen = state.zoom() !== "";
  const toggle = h("button", { type: "button", "data-key": "machine", "aria-expanded": String(isOpen), text: t("machine"), onclick: () => state.zoom.set(isOpen ? "" : WHOLE) });
  home.setAttribute("aria-label", t("machine"));
  const stacks = Object.values(known).filter((each) => each.of === seenAs.asked);
  if (!isOpen || !stacks.length) return fill(home, toggle);
  const path = find(tree(stacks), state.zoom());
  const product = state.zoom() === PRODUCT;
  const part = path[path.length - 1];
  fill(
    home,
    h("div", { class: "crumbs" }, toggle, path.map((each, n) => crumb(each.id, name(each), !product && n === path.length - 1)), crumb(PRODUCT, t("machine-product"), product)),
    product ? multiplication(opened) : [h("p", { class: "soft", text: t("machine-hint") }), part.parallel && h("p", { class: "soft", text: t("machine-parallel") }), picture(part, seenAs, Math.min(home.clientWidth || 720, 900), path[0].weights)],
  );
}

/** @param {string} id @param {string} text @param {boolean} here */
function crumb(id, text, here) {
  return h("button", { type: "button", class: "quiet", "data-key": `zoom ${id}`, "aria-current": here ? "true" : null, text, onclick: () => state.zoom.set(id) });
}

/** One tree of all stacks; the steps of a head are parts of it. @param {any[]} stacks */
function tree(stacks) {
  const several = stacks.length > 1;
  const parts = several ? stacks.map((each) => ({ id: each.stack, kind: each.stack, parts: each.parts, weights: sum(each.parts), stack: true })) : stacks[0].parts;
  for (const stack of stacks) mark(stack.parts, stack.stack);
  return { id: WHOLE, kind: WHOLE, parts, weights: sum(parts), several };
}

/** @param {any[]} parts */
function sum(parts) {
  return parts.reduce((all, each) => all + (each.weights ?? 0), 0);
}

/** Each part knows its stack. @param {any[]} parts @param {string} side */
function mark(parts, side) {
  for (const part of parts) {
    part.side = side;
    if (part.steps) part.parts = part.steps.map((/** @type {any[]} */ [step, chapter, value]) => ({ id: `${part.id}.${step}`, kind: step, chapter, value, weights: 0, parts: [] }));
    mark(part.parts, side);
  }
}

/** The parts from the whole to the one of an id, or the whole alone. @param {any} part
 * @param {string} id @returns {any[]} */
function find(part, id) {
  const within = (/** @type {any} */ each) => {
    if (each.id === id) return [each];
    for (const child of each.parts) {
      const found = /** @type {any[] | null} */ (within(child));
      if (found) return [each, ...found];
    }
    return null;
  };
  return within(part) ?? [part];
}

/** @param {any} part */
function name(part) {
  const found = /\d+(?=(?:\.cross)?$)/.exec(part.id);
  if (part.kind === WHOLE) return t("machine-whole");
  if (part.kind === "step") return t(`machine-${/\w+$/.exec(part.id)}`);
  return t(`machine-${part.kind}`, { n: found ? found[0] : "" });
}

/** Where a part is: its layer and head, from its name. @param {any} part */
function door(part) {
  const found = /^[LE](\d+)(?:\.H(\d+))?/.exec(part.id);
  const cross = Number(/\.cross(?!_attention_norm)/.test(part.id));
  return { chapter: part.chapter, stack: part.side, ...(found && { layer: Number(found[1]), cross }), ...(found?.[2] && { head: Number(found[2]) }) };
}

/** Whether the chosen place is in a part: its layer and head, and among leaves its chapter.
 * @param {any} part @param {any} seenAs */
function isHere(part, seenAs) {
  if (part.stack) return state.stack() === part.id;
  if (part.kind === "adds") return false;
  const { axes } = seenAs.contents.find((/** @type {any} */ each) => each.id === state.chapter()) ?? { axes: [] };
  const to = door(part);
  if (to.stack !== state.stack()) return false;
  if (to.layer === undefined) return part.chapter === state.chapter();
  if (to.layer !== state.layer() || !axes.includes("layer")) return false;
  if (part.kind === "layer") return true;
  if (to.cross !== state.cross() && /attention|\.H/.test(part.id)) return false;
  if (part.kind === "head") return axes.includes("head") && to.head === state.head();
  if (to.head !== undefined) return to.head === state.head() && part.chapter === state.chapter();
  return part.chapter === state.chapter() || part.parts.some((/** @type {any} */ each) => isHere(each, seenAs));
}

/** The parts of one part, below each other, and the lines of the tokens through them.
 * @param {any} part @param {any} seenAs @param {number} wide @param {number} all weights of the model */
function picture(part, seenAs, wide, all) {
  const columns = part.several ? part.parts : [part];
  const each = wide / columns.length;
  const tall = Math.max(...columns.map((/** @type {any} */ one) => one.parts.length)) * (TALL + GAP) + GAP + TOP;
  return svg(
    "svg", { class: "machine", viewBox: `0 0 ${wide} ${tall}`, role: "group", "aria-label": name(part), onkeydown: (/** @type {KeyboardEvent} */ event) => walk(event, part) },
    columns.map((/** @type {any} */ one, /** @type {number} */ n) => column(one, seenAs, n * each, each - (columns.length > 1 ? 12 : 0), tall, all)),
  );
}

/** @param {any} one @param {any} seenAs @param {number} left @param {number} wide @param {number} tall
 * @param {number} all */
function column(one, seenAs, left, wide, tall, all) {
  const side = one.parts[0]?.side ?? state.stack();
  const pieces = read(seenAs, side);
  const chosen = at(side === "encoder" && seenAs.spare.length ? state.source() : state.token(), pieces.length);
  const first = Math.max(0, Math.min(chosen - MOST_LANES / 2, pieces.length - MOST_LANES));
  const count = Math.min(pieces.length, MOST_LANES);
  const lanes = Math.min(wide * 0.4, count * 14 + 16);
  const x = (/** @type {number} */ token) => left + 10 + ((token - first) * (lanes - 20)) / Math.max(1, count - 1);
  const through = Array.from({ length: count }, (_, n) => first + n).map((token) =>
    svg("line", { x1: x(token), x2: x(token), y1: TOP, y2: tall, class: token === chosen ? "lane chosen" : "lane" }, svg("title", { text: seen(pieces[token]) })));
  const boxes = one.parts.map((/** @type {any} */ part, /** @type {number} */ n) => {
    const y = TOP + GAP + n * (TALL + GAP);
    const from = (part.reads ?? (part.kind === "layer" ? part.parts.flatMap((/** @type {any} */ p) => p.reads ?? []) : []))
      .filter(([token]) => token !== chosen && token >= first && token < first + count && !part.id.includes("cross"))
      .map(([token, share]) => svg("path", { class: "reads", d: `M${x(token)} ${y - GAP} C${x(token)} ${y + TALL / 2} ${x(chosen)} ${y} ${x(chosen)} ${y + TALL / 2}`, "stroke-opacity": Math.max(0.15, Math.min(1, share)) }));
    return [from, box(part, seenAs, left + lanes + 10, y, wide - lanes - 12, x(chosen), all)];
  });
  const label = svg("text", { x: Math.max(x(chosen), left + 4), y: 15, "text-anchor": x(chosen) - left < 40 ? "start" : "middle", class: "value", translate: "no", text: seen(pieces[chosen]) });
  return [label, through, boxes];
}

/** @param {any} part @param {any} seenAs @param {number} x @param {number} y @param {number} wide
 * @param {number} lane where the chosen token flows @param {number} all */
function box(part, seenAs, x, y, wide, lane, all) {
  const middle = y + TALL / 2;
  if (part.kind === "adds") return [svg("circle", { cx: lane, cy: middle, r: 9, class: "adds" }), svg("text", { x: lane, y: middle + 5, "text-anchor": "middle", class: "plus", text: "+" }), svg("text", { x: x + 4, y: middle + 4, class: "what", text: t("machine-adds") })];
  const here = isHere(part, seenAs);
  const value = part.value === null || part.value === undefined ? "" : digits(part.value, 3);
  const label = t("machine-part", { name: name(part), value: value || "–", weights: (part.weights ?? 0).toLocaleString() });
  const share = all > 0 ? (part.weights ?? 0) / all : 0;
  const inner = Math.min(part.parts.length, 24);
  return svg(
    "g", {
      role: "button", tabindex: 0, class: `part${here ? " here" : ""}`, "data-key": `part ${part.id}`, "data-part": part.id, "data-value": part.value,
      "aria-label": here ? `${label}, ${t("machine-here")}` : label, "aria-current": here ? "location" : null,
      onclick: () => enter(part), onkeydown: (/** @type {KeyboardEvent} */ event) => press(event, part),
    },
    svg("path", { class: "joint", d: `M${lane} ${middle} H${x}` }),
    svg("rect", { x, y, width: wide, height: TALL, rx: 6 }),
    svg("text", { x: x + 10, y: y + 20, class: "name", text: name(part) }),
    svg("text", { x: x + wide - 10, y: y + 20, "text-anchor": "end", class: "value", text: value }),
    part.weights > 0 && [["all", 1], ["share", share]].map(([kind, length]) => svg("rect", { x: x + 10, y: y + TALL - 12, width: (wide - 20) * Number(length), height: 4, class: kind })),
    Array.from({ length: inner }, (_, n) => svg("rect", { x: x + 10 + n * 11, y: y + 27, width: 8, height: 8, rx: 1.5, class: "inner" })),
  );
}

/** Opens the chapter of a part, and the part itself if there is something in it. @param {any} part */
function enter(part) {
  const zoom = part.parts.length ? part.id : part.kind === "scores" ? PRODUCT : state.zoom();
  choose({ ...(part.stack ? { stack: part.id } : door(part)), zoom });
  announce(name(part));
}

/** @param {KeyboardEvent} event @param {any} part */
function press(event, part) {
  if (event.key !== "Enter" && event.key !== " ") return;
  event.preventDefault();
  enter(part);
}

/** Up and down among the parts, Escape out of the part that is open. @param {KeyboardEvent} event
 * @param {any} part */
function walk(event, part) {
  const all = /** @type {SVGElement[]} */ ([...(/** @type {Element} */ (event.currentTarget)).querySelectorAll("[data-part]")]);
  const place = all.indexOf(/** @type {SVGElement} */ (document.activeElement));
  const by = /** @type {Record<string, number>} */ ({ ArrowDown: 1, ArrowUp: -1 })[event.key];
  if (by && all[place + by]) all[place + by].focus();
  else if (event.key === "Escape" && part.id !== WHOLE) state.zoom.set(outer(part.id));
  else return;
  event.preventDefault();
}

/** The part around a part. @param {string} id */
function outer(id) {
  const path = find(tree(Object.values(machines.peek())), id);
  return path.length > 1 ? path[path.length - 2].id : WHOLE;
}

/** The first two vectors that a receipt of the open chapter multiplies, number by number.
 * @param {any} opened */
function multiplication(opened) {
  const found = (opened?.receipts ?? []).map((/** @type {any} */ each) => [each, dot(each.expression)]).find((/** @type {any[]} */ each) => each[1]);
  if (!found) return h("p", { class: "soft", text: t("machine-no-product") });
  const [receipt, [a, b]] = found;
  const terms = a.values.map((/** @type {any} */ left, /** @type {number} */ n) => ({ n, left: number(left), right: number(b.values[n]), term: number(left) * number(b.values[n]) }));
  const order = [...terms].sort((one, other) => Math.abs(other.term) - Math.abs(one.term)).slice(0, MOST_TERMS);
  const most = Math.max(...order.map((each) => Math.abs(each.term)), 1e-12);
  const total = terms.reduce((/** @type {number} */ all, /** @type {any} */ each) => all + each.term, 0);
  const head = h("tr", {}, h("th", { scope: "col", text: t("machine-place") }), h("th", { scope: "col", class: "number", said: a.name || a.at }), h("th", { scope: "col", class: "number", said: `× ${b.name || b.at}` }), h("th", { scope: "col", class: "number", text: t("machine-term") }), h("td", {}));
  const rows = order.map((each) => h(
    "tr", {}, h("th", { scope: "row", said: each.n }), h("td", { class: "number", said: digits(each.left) }), h("td", { class: "number", said: digits(each.right) }),
    h("td", { class: "number", said: digits(each.term), "data-term": each.term }),
    h("td", { class: "drawn" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" }, svg("rect", { y: 1, height: 8, width: (Math.abs(each.term) / most) * 100, class: each.term < 0 ? "below" : "above" })))));
  return [
    h("h3", { said: receipt.title }),
    h("table", { class: "bars" }, h("thead", {}, head), h("tbody", {}, rows)),
    h("p", { class: "soft", "data-total": total, text: t("machine-terms", { shown: order.length, n: terms.length, total: digits(total) }) }),
  ];
}

/** @param {any} tree @returns {any[] | null} */
function dot(tree) {
  if (!("op" in tree)) return null;
  if (tree.op === "dot") return tree.of;
  return tree.of.map(dot).find((/** @type {any} */ each) => each) ?? null;
}

/** The text that a stack reads. @param {any} seenAs @param {string} side @returns {string[]} */
function read(seenAs, side) {
  return side === "encoder" && seenAs.spare.length ? seenAs.spare : seenAs.pieces;
}

/** @param {number} token @param {number} count */
function at(token, count) {
  return Math.max(0, Math.min(token < 0 ? token + count : token, count - 1));
}
