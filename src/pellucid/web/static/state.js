// What is chosen, once for every view, and the address that says all of it: a link is a view.

import { effect, signal } from "./signal.js";

/** @typedef {{ stack: string, cross: boolean, layer: number, head: number, by: number | "mean" }} Scale */

const START = {
  run: "", at: "", sentence: "", ids: "", chat: 0, list: 0, chapter: "", stack: "decoder",
  token: -1, other: 0, source: 0, layer: 0, head: 0, feature: 0, cross: 0,
  weight: "", row: 0, column: 0,
  temperature: 1, k: 0, p: 1, versus: "", scales: "", shot: -1, zoom: "",
};
/** How each is called in the address. @type {Record<string, string>} */
const CALLED = {
  run: "run", at: "at", sentence: "s", ids: "ids", chat: "chat", list: "list", chapter: "chapter", stack: "stack", token: "t", other: "o", source: "i",
  layer: "l", head: "h", feature: "f", cross: "e",
  weight: "w", row: "r", column: "c",
  temperature: "T", k: "k", p: "p", versus: "vs", scales: "x", shot: "m", zoom: "z",
};

/** @type {Record<string, import("./signal.js").Signal<any>>} */
export const state = Object.fromEntries(
  Object.entries(START).map(([name, value]) => [name, signal(value)]),
);

/** Several at once. @param {Record<string, any>} next */
export function choose(next) {
  for (const [name, value] of Object.entries(next)) state[name].set(value);
}

/** What the address says. */
export function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const [name, start] of Object.entries(START)) {
    const text = said.get(CALLED[name]);
    if (text === null) continue;
    if (typeof start === "string") state[name].set(text);
    else if (Number.isFinite(Number(text))) state[name].set(Number(text));
  }
}

/** Keeps the address in step with what is chosen, without a line in the history for each. */
export function keepAddress() {
  effect(() => {
    const said = new URLSearchParams();
    for (const [name, start] of Object.entries(START)) {
      const value = state[name]();
      if (value !== start) said.set(CALLED[name], String(value));
    }
    try {
      history.replaceState(null, "", `#${said}`);
    } catch {
      // a frame of a notebook has no address of its own
    }
  });
  addEventListener("hashchange", readAddress);
}

/** The heads that do not count fully, from "L2.H1=0 E0.H3=1.5". @returns {Scale[]} */
export function scales() {
  return [...state.scales().matchAll(/([LE])(\d+)\.H(\d+)(\.cross)?=(mean|[\d.]+)/g)].map((found) => ({
    stack: found[1] === "L" ? "decoder" : "encoder",
    cross: found[4] !== undefined,
    layer: Number(found[2]),
    head: Number(found[3]),
    by: found[5] === "mean" ? "mean" : Number(found[5]),
  }));
}

/** How much one head counts. @param {string} name */
export function scaleOf(name) {
  return scales().find((s) => headName(s.stack, s.layer, s.head, s.cross) === name)?.by ?? 1;
}

/** Lets a head count by so much. @param {string} name @param {number | "mean"} by */
export function setScale(name, by) {
  const all = scales().map((s) => [headName(s.stack, s.layer, s.head, s.cross), s.by]);
  const now = all.filter(([other]) => other !== name);
  if (by !== 1) now.push([name, by]);
  state.scales.set(now.map(([head, each]) => `${head}=${each}`).join(" "));
}

/** A head as addresses call it. @param {string} stack @param {number} layer @param {number} head
 * @param {boolean} cross */
export function headName(stack, layer, head, cross) {
  return `${stack === "encoder" ? "E" : "L"}${layer}.H${head}${cross ? ".cross" : ""}`;
}

/** The head that is chosen, as addresses call it. */
export function chosenHead() {
  return headName(state.stack(), state.layer(), state.head(), state.cross() === 1);
}

/** The attention that is chosen, among those of the overview; null where it has none such.
 * @param {any} seenAs */
export function attention(seenAs) {
  return seenAs.stacks.find((/** @type {any} */ s) => s.name === state.stack() && s.cross === (state.cross() === 1)) ?? null;
}

/** What is read: the sentence, or the tokens of a chat. @param {string} [other] a sentence in its place
 * @returns {{ sentence: string, ids?: number[] }} */
export function read(other) {
  if (other || !state.ids()) return { sentence: other || state.sentence() };
  return { sentence: "", ids: state.ids().split(".").map(Number) };
}

/** The run and the sentence, as the address of the course has them. */
export function ownPlace() {
  return new URLSearchParams({ run: state.run(), s: state.sentence() });
}

/** What is compared with, from "run1@step-4" and perhaps a sentence behind a blank. */
export function versus() {
  const found = /^(\w+)@([\w.-]*)(?: (.*))?$/s.exec(state.versus());
  if (!found) return null;
  return { run: found[1], checkpoint: found[2], ...read(found[3]) };
}
