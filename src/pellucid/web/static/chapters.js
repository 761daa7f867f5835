// The story: the strip of chapters, and the one that is open, at three altitudes.

import { announce, fill, h, seen } from "./dom.js";
import { gate, weightPicker } from "./backward.js";
import { pictures } from "./pictures.js";
import { place } from "./asking.js";
import { receipt } from "./receipt.js";
import { chosenHead, ownPlace, state } from "./state.js";
import { t } from "./messages.js";

/** @param {Element} home @param {any} seenAs the overview */
export function strip(home, seenAs) {
  const parts = [...new Set(seenAs.contents.map((/** @type {any} */ each) => each.part))];
  const left = home.querySelector(".parts")?.scrollLeft ?? 0;
  fill(
    home,
    h(
      "ol", { class: "parts" },
      parts.map((part) =>
        h(
          "li", {}, h("span", { class: "part", text: t(`part-${part}`) }),
          h("ol", {}, seenAs.contents.filter((/** @type {any} */ each) => each.part === part).map((/** @type {any} */ each) => step(each))),
        ),
      ),
    ),
  );
  home.setAttribute("aria-label", t("chapters"));
  const strip = /** @type {HTMLElement} */ (home.querySelector(".parts"));
  strip.scrollLeft = left;
  const chosen = /** @type {HTMLElement | null} */ (strip.querySelector("[aria-current]"));
  if (!chosen) return;
  const [a, b] = [chosen.getBoundingClientRect(), strip.getBoundingClientRect()];
  if (a.left < b.left || a.right > b.right) strip.scrollLeft += a.left - b.left - 40;
}

/** @param {any} heading */
function step(heading) {
  const here = heading.id === state.chapter();
  return h(
    "li", {},
    h(
      "button",
      {
        type: "button", "aria-current": here ? "step" : null, "data-key": `chapter ${heading.id}`, "data-chapter": heading.id,
        onclick: () => state.chapter.set(heading.id),
      },
      h("span", { class: "number", said: heading.number }), h("span", { said: heading.title }),
    ),
  );
}

/** @param {Element} home @param {any} said the chapter @param {any} seenAs the overview */
export function chapter(home, said, seenAs) {
  const read = state.stack() === "encoder" && seenAs.spare.length ? seenAs.spare : seenAs.pieces;
  const token = (place(seenAs).token + read.length) % read.length;
  const where = t("where", { head: chosenHead(), token: `${seen(read[token])} (${token})` });
  fill(
    home,
    h(
      "header", {},
      h("p", { class: "eyebrow" }, h("span", { text: t(`part-${said.part}`) }), h("span", { translate: "no", text: where }), crossing(seenAs)),
      h("h1", {}, h("span", { class: "number", said: said.number }), h("span", { said: said.title })),
      h("p", { class: "lead", said: said.sentence }),
      said.doors?.map(door),
      weightPicker(seenAs, said.id),
    ),
    pictures(said.pictures, seenAs),
    said.receipts.length > 0 &&
      h(
        "section", { class: "receipts", "aria-labelledby": "receipts-head" },
        h("h2", { id: "receipts-head", text: t("receipt") }),
        h("p", { class: "soft", text: t("receipt-hint") }),
        said.receipts.map(receipt),
      ),
    said.notes.length > 0 && h("section", { class: "notes" }, h("h2", { text: t("notes") }), h("ul", {}, said.notes.map((/** @type {string} */ note) => h("li", { said: note })))),
    turning(seenAs),
  );
  if (shown !== said.id) announce(`${said.number} ${said.title}. ${said.sentence}`);
  shown = said.id;
}

/** The lessons, or the concepts, of a chapter. @param {any} said */
function door({ field, items }) {
  const page = field === "lessons" ? "learn" : "concept";
  const links = items.map((/** @type {any} */ { kind, name, title }) => h("a", { href: `./${page}#${kind}=${name}&${ownPlace()}`, lang: "en", said: title }));
  return h("p", { class: "doors" }, h("span", { text: t(`door-${field}`) }), links);
}

/** A chapter that nobody has asked for yet: it would take the way back through a large model.
 * @param {Element} home @param {any} seenAs the overview */
export function kept(home, seenAs) {
  const heading = seenAs.contents.find((/** @type {any} */ each) => each.id === state.chapter());
  const asked = h("section", { class: "gate" });
  fill(
    home,
    h("header", {}, h("p", { class: "eyebrow", text: t(`part-${heading.part}`) }), h("h1", {}, h("span", { class: "number", said: heading.number }), h("span", { said: heading.title }))),
    asked,
    turning(seenAs),
  );
  gate(asked);
  shown = "";
}

/** In a decoder that looks at an encoder: at which text a head looks. @param {any} seenAs */
function crossing(seenAs) {
  if (!seenAs.spare.length || state.stack() !== "decoder") return null;
  const crosses = state.cross() === 1;
  return h("button", { type: "button", class: "quiet", "data-key": "cross", "aria-pressed": String(crosses), text: t(crosses ? "looks-across" : "looks-at-own"), onclick: () => state.cross.set(crosses ? 0 : 1) });
}

let shown = "";

/** To the chapter before and behind. @param {any} seenAs */
function turning(seenAs) {
  const beside = (/** @type {number} */ by, /** @type {string} */ key) => {
    const found = neighbour(seenAs, by);
    return found
      ? h("button", { type: "button", class: key, "data-key": key, onclick: () => turn(seenAs, by) }, h("small", { text: t(key) }), h("span", { said: found.title }))
      : h("span", {});
  };
  return h("div", { class: "turning" }, beside(-1, "previous"), beside(1, "next"));
}

/** @param {any} seenAs @param {number} by */
function neighbour(seenAs, by) {
  const at = seenAs.contents.findIndex((/** @type {any} */ each) => each.id === state.chapter());
  return seenAs.contents[at + by];
}

/** Opens the chapter so many further. @param {any} seenAs @param {number} by */
export function turn(seenAs, by) {
  const found = neighbour(seenAs, by);
  if (!found) return;
  state.chapter.set(found.id);
  const home = document.getElementById("focus");
  if (home && home.getBoundingClientRect().top < 0) home.scrollIntoView({ block: "start" });
}
