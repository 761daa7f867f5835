// The way back from the loss: at once for a small model; for a large one when that is asked for, with
// how far it is, and a way to stop it. And which weight is looked at.

import { announce, fill, h } from "./dom.js";
import { ask, cancel, question } from "./asking.js";
import { isFile } from "./bridge.js";
import { signal } from "./signal.js";
import { choose, state } from "./state.js";
import { t } from "./messages.js";

const EVERY = 300;

/** What came back, or null. @type {any} */
export const back = signal(null);
/** How far the way back is, or null while none is gone. @type {any} */
const going = signal(null);
const failed = signal("");

const wanted = () => JSON.stringify(question("backward"));

/** Whether what came back is that of the sentence that is read now. */
export const isBack = () => back()?.asked === wanted();

/** Goes back at once where that takes but a moment, or was done already. @param {any} seenAs */
export function settleBack(seenAs) {
  if (isBack()) return;
  failed.set("");
  if (!seenAs.backward.there) cancel("backward");
  else if (isFile || !seenAs.backward.large || seenAs.backward.done) go();
  else if (going.peek()?.asked !== wanted()) cancel("backward");
}

/** Whether a chapter waits for someone to ask for it. @param {any} seenAs @param {string} id */
export function isKept(seenAs, id) {
  const heading = seenAs.contents.find((/** @type {any} */ each) => each.id === id);
  return heading?.walks && seenAs.backward.there && seenAs.backward.large && !isFile && !isBack();
}

async function go() {
  const asked = question("backward");
  const key = JSON.stringify(asked);
  if (going.peek()?.asked === key) return;
  going.set({ asked: key, done: 0, of: 0 });
  failed.set("");
  const timer = setInterval(() => follow(asked, key), EVERY);
  try {
    const answer = await ask(asked, "backward");
    if (answer !== null) {
      back.set({ ...answer, asked: key });
      fit(answer);
    }
  } catch (error) {
    failed.set(/** @type {Error} */ (error).message);
  } finally {
    clearInterval(timer);
    if (going.peek()?.asked === key) going.set(null);
  }
}

/** @param {any} asked @param {string} key */
async function follow(asked, key) {
  const answer = await ask({ ...asked, kind: "progress" }, "progress").catch(() => null);
  if (answer && going.peek()?.asked === key) going.set({ asked: key, ...answer });
}

/** A weight that was chosen in another model may not be in this one. @param {any} answer */
function fit(answer) {
  const found = weightsHere(answer).find(([name]) => name === state.weight.peek());
  if (state.weight.peek() && !found) choose({ weight: "", row: 0, column: 0 });
}

/** The button, or how far it is. @param {Element} home */
export function gate(home) {
  const now = going();
  const why = failed();
  fill(
    home,
    h("p", { text: t("back-large") }),
    now
      ? h(
          "p", { class: "buttons" },
          h("progress", { max: now.of || 1, value: now.done, "aria-label": t("back-how-far") }),
          h("span", { class: "soft", text: now.of ? t("back-layers", { done: now.done, of: now.of }) : t("working") }),
          h("button", { type: "button", "data-key": "back", text: t("cancel"), onclick: () => { cancel("backward"); announce(t("cancelled")); } }),
        )
      : h("p", { class: "buttons" }, h("button", { type: "button", "data-key": "back", text: t("back-go"), onclick: go })),
    why && h("p", { class: "soft", said: why }),
  );
}

/** The weights of the chosen layer by their short names, then those outside of all layers.
 * @param {any} answer @returns {[string, number, number][]} */
function weightsHere(answer) {
  const inside = `${state.stack.peek()}.blocks.${state.layer.peek()}.`;
  const all = answer.weights.map((/** @type {any} */ [name, rows, columns]) => [name, rows, columns ?? 1]);
  const own = all.filter((/** @type {any} */ [name]) => name.startsWith(inside));
  const ends = all.filter((/** @type {any} */ [name]) => !name.includes(".blocks."));
  return [...own.map((/** @type {any} */ [name, ...shape]) => [name.slice(inside.length), ...shape]), ...ends];
}

/** Chooses one number of one matrix, where a chapter is about one. @param {any} seenAs
 * @param {string} id the chapter */
export function weightPicker(seenAs, id) {
  const heading = seenAs.contents.find((/** @type {any} */ each) => each.id === id);
  const answer = back();
  if (isFile || !heading?.axes.includes("weight") || !answer) return null;
  const all = weightsHere(answer);
  const chosen = all.find(([name]) => name === state.weight()) ?? all.find(([, , columns]) => columns > 1) ?? all[0];
  if (!chosen) return null;
  const list = h(
    "select", { id: "weight", "data-key": "weight", onchange: () => choose({ weight: list.value, row: 0, column: 0 }) },
    all.map(([name]) => h("option", { value: name, selected: name === chosen[0], said: name })),
  );
  return h(
    "p", { class: "pickers weight" },
    h("span", { class: "picker" }, h("label", { for: "weight", text: t("weight") }), list),
    index("row", chosen[1]),
    chosen[2] > 1 && index("column", chosen[2]),
  );
}

/** @param {string} name @param {number} count */
function index(name, count) {
  const input = h("input", {
    type: "number", id: name, min: 0, max: count - 1, step: 1, value: state[name](), "data-key": name,
    onchange: () => state[name].set(Math.min(Math.max(Math.trunc(Number(input.value)) || 0, 0), count - 1)),
  });
  return h("span", { class: "picker" }, h("label", { for: name, text: t(`weight-${name}`) }), input);
}
