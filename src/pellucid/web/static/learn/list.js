// The list of the lessons: who reads, how far they are, and what comes next.

import { fill, h } from "../dom.js";
import { ask } from "../asking.js";
import { t } from "../messages.js";
import { link } from "./place.js";

const READERS = ["new", "pytorch", "interview"];

/** @param {HTMLElement} home @param {any} said @param {() => void} again asks for the list again */
export function list(home, said, again) {
  const isDone = (/** @type {any} */ row) => row.n_solved === row.n_exercises;
  const following = said.lessons.find((/** @type {any} */ row) => row.name === said.next);
  const made = h(
    "select", {
      id: "whom", "data-key": "reader",
      onchange: async () => {
        await ask({ kind: "lessons", reader: made.value }, "reader");
        again();
      },
    },
    READERS.map((reader) => h("option", { value: reader, selected: reader === said.reader, text: t(`learn.reader-${reader}`) })),
  );
  fill(
    home,
    h(
      "header", {},
      h("h1", { text: t("learn.lessons") }),
      h("p", { class: "soft", text: t("learn.english") }),
      h("p", { class: "reader" }, h("label", { for: "whom", text: t("learn.reader") }), made),
      h("p", { text: t("learn.done-of", { done: said.lessons.filter(isDone).length, all: said.lessons.length }) }),
      following && h("p", {}, h("a", { class: "button", href: link("lesson", following.name), lang: "en", translate: "no", "data-key": "next lesson", text: t("learn.next-lesson", { title: following.title }) })),
    ),
    h("ol", { class: "lessons" }, said.lessons.map((/** @type {any} */ row) => h(
      "li", { class: isDone(row) ? "done" : null },
      h("span", { class: "number", said: row.number }),
      h("a", { href: link("lesson", row.name), lang: "en", said: row.title }),
      h("span", { class: "soft", text: `${isDone(row) ? "✓ " : ""}${t("learn.solved-of", { solved: row.n_solved, all: row.n_exercises })}` }),
    ))),
  );
}
