// The textbook: the list of all concepts, and one page of a concept, an equation or an experiment.

import { fill, h } from "../dom.js";
import { t } from "../messages.js";
import { link } from "./place.js";

/** Words of the textbook: they are English in every language. @param {string} tag @param {string} said
 * @param {any} [has] */
const english = (tag, said, has = {}) => h(tag, { lang: "en", said, ...has });

/** A paragraph in English, with code between backquotes. @param {string} text @param {any} [has] */
export function prose(text, has = {}) {
  const parts = text.split("`").map((part, n) => (n % 2 ? h("code", { text: part }) : part));
  return h("p", { lang: "en", translate: "no", ...has }, parts);
}

/** @param {HTMLElement} home @param {any} said */
export function contents(home, said) {
  fill(
    home,
    h("header", {}, h("h1", { text: t("learn.concepts") }), h("p", { class: "soft", text: t("learn.english") })),
    h("div", { class: "topics" }, said.topics.map((/** @type {any} */ topic) => h(
      "section", {}, english("h2", topic.title), h("ul", {}, topic.items.map((/** @type {any} */ item) => h("li", {}, entry(item)))),
    ))),
  );
}

/** @param {HTMLElement} home @param {any} said */
export function page(home, said) {
  const names = Object.keys(said.formulas);
  fill(
    home,
    h("header", {}, said.topic && english("p", said.topic, { class: "eyebrow" }), english("h1", said.title, { class: said.kind })),
    h("div", { class: "texts" }, said.texts.map((/** @type {string} */ text) => prose(text, { class: "lead" }))),
    names.length > 0 && h("section", {}, h("h2", { text: t("learn.formulas") }), names.map((name) => h(
      "div", { class: "written-formula" },
      said.kind !== "equation" && h("a", { href: link("equation", name), said: name }), h("pre", { said: said.formulas[name] }),
    ))),
    Object.entries(said.sections).map(([part, text]) => h(
      "section", {}, h("h2", { text: t(`learn.part-${part}`) }),
      part === "command" ? h("pre", { said: text }) : prose(text, { class: "section" }),
    )),
    said.examples.length > 0 && h("section", {}, h("h2", { text: t("learn.examples") }), h("pre", { said: said.examples.map(([asked, value]) => `>>> ${asked}\n${value}`).join("\n\n") })),
    links(said.links),
  );
}

/** What belongs to a page, by its kind. @param {any[]} fields */
export function links(fields) {
  return fields.length > 0 && h(
    "section", { class: "links" }, h("h2", { text: t("learn.links") }),
    h("dl", {}, fields.map(({ field, items }) => h(
      "div", {}, h("dt", { text: t(`learn.field-${field}`) }), h("dd", {}, h("ul", {}, items.map((/** @type {any} */ item) => h("li", {}, entry(item))))),
    ))),
  );
}

/** A link, or text where the page has nothing to open. @param {any} item */
function entry({ kind, name, title }) {
  // the title of a chapter is in the language of the page
  const has = kind === "chapter" ? { text: title, translate: "no" } : { lang: "en", said: title };
  return kind ? h("a", { href: link(kind, name), "data-kind": kind, ...has }) : h("span", has);
}
