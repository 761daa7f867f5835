// One lesson: its idea, its picture, and exercises that are answered here.

import { announce, fill, h } from "../dom.js";
import { ask } from "../asking.js";
import { t } from "../messages.js";
import { pictures } from "../pictures.js";
import { signal } from "../signal.js";
import { links, prose } from "./book.js";
import { link } from "./place.js";

/** The picture that is shown, and where: it follows the theme. @type {any} */
const drawn = signal(null);
/** What was typed, by lesson and exercise: another view or language loses none of it.
 * @type {Map<string, string>} */
const drafts = new Map();

/** Draws the picture, in the colours of now. */
export function picture() {
  const shown = drawn();
  if (!shown || !shown.home.isConnected) return;
  fill(shown.home, pictures([shown.said], { pieces: shown.pieces, spare: [] }));
}

/** @param {HTMLElement} home @param {any} said the lesson @param {any} asked its question
 * @param {any} runs the runs of the server */
export function lesson(home, said, asked, runs) {
  const place = h("div", { class: "pictured", lang: "en" });
  const count = h("p", { class: "soft", id: "count" });
  const counted = (/** @type {any} */ row) => (count.textContent = t("learn.solved-of", { solved: row.n_solved, all: row.n_exercises }));
  counted(said);
  fill(
    home,
    h(
      "header", {},
      h("p", { class: "eyebrow" }, h("span", { text: t("learn.lesson-of", { number: said.number, all: said.of }) })),
      h("h1", { lang: "en", said: said.title }),
      prose(said.idea, { class: "lead" }),
      prose(said.text, { class: "told" }),
    ),
    reading(said.name, asked, runs),
    said.picture.refused === undefined ? place : h("p", { class: "soft", translate: "no", text: t("learn.no-picture", { why: said.picture.refused }) }),
    said.notes.map((/** @type {string} */ note) => h("p", { class: "soft", said: note })),
    h("section", {}, h("h2", { text: t("learn.try") }), h("pre", { said: said.try })),
    h(
      "section", { class: "exercises" },
      h("h2", { text: t("learn.exercises") }), h("p", { class: "soft", text: t("learn.computed-from") }), count,
      said.exercises.map((/** @type {any} */ exercise, /** @type {number} */ n) => card(exercise, n + 1, said, asked, counted)),
    ),
    links(said.links),
    h("p", { class: "turning" }, beside(said.previous, "previous"), beside(said.next, "next")),
  );
  drawn.set(said.picture.refused === undefined ? { home: place, said: said.picture, pieces: said.pieces } : null);
}

/** @param {string | null} name @param {string} key */
function beside(name, key) {
  return name ? h("a", { href: link("lesson", name), class: key, text: t(key) }) : h("span", {});
}

/** A lesson that this run or sentence cannot have: the reader chooses others.
 * @param {HTMLElement} home @param {string} name @param {any} asked @param {any} runs */
export function refused(home, name, asked, runs) {
  fill(home, h("h1", { lang: "en", said: name }), reading(name, asked, runs));
}

/** The run and the sentence from which the exercises are computed.
 * @param {string} name @param {any} asked @param {any} runs */
function reading(name, asked, runs) {
  const model = h("select", { id: "run", "data-key": "run" }, runs.runs.map((/** @type {any} */ run) => h("option", { value: run.key, selected: run.key === asked.reading.run, said: run.name })));
  const sentence = h("input", { type: "text", id: "sentence", "data-key": "sentence", translate: "no", value: asked.reading.sentence });
  const change = () => (location.hash = link("lesson", name, { run: model.value, s: sentence.value }).replace(/^[^#]*/, ""));
  model.addEventListener("change", change);
  sentence.addEventListener("change", change);
  return h(
    "div", { class: "reading" },
    h("span", { class: "picker" }, h("label", { for: "run", text: t("model") }), model),
    h("span", { class: "picker wide" }, h("label", { for: "sentence", text: t("sentence") }), sentence),
  );
}

/** An exercise: its question, its operands, a field for the answer, and the verdict.
 * @param {any} exercise @param {number} number @param {any} said @param {any} asked
 * @param {(row: any) => void} counted */
function card(exercise, number, said, asked, counted) {
  const id = `exercise-${number}`;
  const draft = `${said.name} ${exercise.id}`;
  const mark = h("span", { class: "mark", text: exercise.solved ? `✓ ${t("learn.solved")}` : "" });
  const verdict = h("div", { class: "judged", role: "status" });
  const operands = exercise.operands.map(([name, value]) => h("div", { "data-operand": name }, h("dt", { said: name }), h("dd", { said: value })));
  const [field, value] = exercise.kind === "choice" ? choices(exercise, id) : typed(exercise, id, drafts.get(draft) ?? "", said.code);
  const form = h(
    "form", {
      oninput: () => drafts.set(draft, value()),
      onsubmit: async (/** @type {Event} */ event) => {
        event.preventDefault();
        if (!value().trim()) return;
        fill(verdict);
        try {
          const answer = await ask({ kind: "grade", name: said.name, reading: asked.reading, answers: { [exercise.id]: value() } }, `grade ${exercise.id}`);
          if (answer === null) return;
          counted(answer);
          const { accepted, explanation, operand } = answer.verdicts[exercise.id];
          judged(verdict, accepted, explanation);
          if (accepted) mark.textContent = `✓ ${t("learn.solved")}`;
          for (const each of operands) each.classList.toggle("here", each.dataset.operand === operand);
        } catch (error) {
          judged(verdict, false, /** @type {Error} */ (error).message);
        }
      },
    },
    field,
    h("button", { type: "submit", "data-key": `check ${exercise.id}`, text: t("learn.check") }),
  );
  return h(
    "article", { class: "exercise", id, "data-exercise": exercise.id, "aria-labelledby": `${id}-head` },
    h("h3", { id: `${id}-head` }, h("span", { text: t("learn.exercise", { number }) }), mark),
    prose(exercise.question),
    exercise.operands.length > 0 && h("dl", { class: "operands" }, operands),
    exercise.kind === "code" && !said.code ? h("p", { class: "soft", text: t("learn.no-code", { lesson: said.name }) }) : form,
    verdict,
  );
}

/** @param {HTMLElement} home @param {boolean} accepted @param {string} explanation */
function judged(home, accepted, explanation) {
  const word = t(accepted ? "learn.accepted" : "learn.not-accepted");
  home.className = accepted ? "judged agrees" : "judged differs";
  fill(home, h("p", { class: "verdict" }, h("b", { text: `${accepted ? "✓" : "≠"} ${word}` })), prose(explanation));
  announce(word);
}

/** @param {any} exercise @param {string} id @returns {[any, () => string]} */
function choices(exercise, id) {
  const inputs = exercise.choices.map((/** @type {string} */ choice, /** @type {number} */ n) => h("input", { type: "radio", name: id, id: `${id}-${n}`, value: choice }));
  const rows = exercise.choices.map((/** @type {string} */ choice, /** @type {number} */ n) => h("label", { for: `${id}-${n}` }, inputs[n], h("span", { lang: "en", said: choice })));
  const value = () => inputs.find((/** @type {any} */ input) => input.checked)?.value ?? "";
  return [h("fieldset", {}, h("legend", { text: t("learn.answer") }), rows), value];
}

/** A field for numbers or for code. @param {any} exercise @param {string} id @param {string} draft
 * @param {boolean} takesCode @returns {[any, () => string]} */
function typed(exercise, id, draft, takesCode) {
  const isCode = exercise.kind === "code";
  const hint = t(isCode ? "learn.answer-code" : "learn.answer-number");
  const has = { id: `${id}-answer`, "aria-describedby": `${id}-hint`, autocomplete: "off", spellcheck: "false", translate: "no" };
  const input = isCode || takesCode
    ? h("textarea", { ...has, rows: isCode ? 5 : 1 })
    : h("input", { type: "text", ...has });
  input.value = draft;
  return [h("div", { class: "typed" }, h("label", { for: `${id}-answer`, text: t("learn.answer") }), input, h("p", { class: "soft", id: `${id}-hint`, text: hint })), () => input.value];
}
