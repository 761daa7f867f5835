// The head of the page: whose model this is, at which checkpoint, and what it is compared with.

import { announce, fill, h } from "./dom.js";
import { theme } from "./colour.js";
import { waiting } from "./asking.js";
import { isFile } from "./bridge.js";
import { help } from "./keys.js";
import { choose, ownPlace, state, versus } from "./state.js";
import { keepLanguage, language, LANGUAGES, t } from "./messages.js";

const NEXT = /** @type {Record<string, string>} */ ({ auto: "light", light: "dark", dark: "auto" });

/** @param {Element} home @param {any} said the runs @param {any} seenAs the overview, or null */
export function header(home, said, seenAs) {
  const here = said.runs.find((/** @type {any} */ run) => run.key === state.run()) ?? said.runs[0];
  document.title = t("title", { run: here.name });
  fill(
    home,
    h("p", { class: "brand" }, h("b", { said: "pellucid" }), h("span", { class: "soft", text: t(isFile ? "file-of" : "tagline") })),
    h(
      "div", { class: "pickers" },
      isFile
        ? [h("p", { class: "run-name", said: `${here.name} ${here.chosen}` }), against(said)]
        : [
            picker("model", said.runs.map((/** @type {any} */ run) => [run.key, run.name]), here.key, (key) => choose({ run: key, at: "", scales: "" })),
            here.checkpoints.length > 0 && picker("checkpoint", [["", t("latest")], ...here.checkpoints.map((/** @type {string} */ name) => [name, name])], state.at(), (name) => state.at.set(name)),
            comparing(said),
          ],
    ),
    seenAs && h("p", { class: "about soft", said: seenAs.about }),
    h(
      "div", { class: "tools" },
      !isFile && h("button", { type: "button", class: "quiet", "data-key": "list", id: "to-runs", "aria-expanded": String(state.list() === 1), "aria-controls": "runs", text: t("runs-to"), onclick: () => state.list.set(1 - state.list.peek()) }),
      said.talks?.[here.key] && h("button", { type: "button", class: "quiet", "data-key": "chat", id: "to-chat", "aria-expanded": String(state.chat() === 1), "aria-controls": "chat", text: t("chat"), onclick: () => state.chat.set(1 - state.chat.peek()) }),
      said.course && h("a", { class: "quiet", id: "to-course", "data-key": "course", href: `./learn#${ownPlace()}`, text: t("course") }),
      languages(),
      themes(),
      h("button", { type: "button", class: "quiet", "data-key": "help", id: "help", text: t("help"), onclick: help }),
    ),
  );
}

/** The schemes of colour, one after the other. */
export function themes() {
  return h("button", { type: "button", class: "quiet", "data-key": "theme", id: "theme", text: t("theme", { now: t(`theme-${theme()}`) }), onclick: () => theme.set(NEXT[theme.peek()]) });
}

/** The languages, each by its own name. */
export function languages() {
  const made = h(
    "select", { id: "language", "data-key": "language", "aria-label": t("language"), onchange: () => keepLanguage(made.value).catch(() => announce(t("server-gone"))) },
    LANGUAGES.map((tag) => h("option", { value: tag, lang: tag, selected: tag === language(), said: new Intl.DisplayNames([tag], { type: "language" }).of(tag) })),
  );
  return made;
}

/** What a file is compared with. @param {any} said */
function against(said) {
  const other = versus();
  if (!other) return null;
  const there = said.runs.find((/** @type {any} */ run) => run.key === other.run);
  const text = other.sentence === state.sentence() ? "" : other.sentence;
  return h("p", { class: "run-name", translate: "no", text: t("compared", { with: `${there.name} ${other.checkpoint || there.chosen} ${text}` }) });
}

/** @param {any} said */
function comparing(said) {
  const options = [["", t("nothing")]];
  for (const run of said.runs) {
    for (const at of ["", ...run.checkpoints]) options.push([`${run.key}@${at}`, at ? `${run.name}, ${at}` : run.name]);
  }
  const other = versus();
  const chosen = other ? `${other.run}@${other.checkpoint}` : "";
  const made = picker("compare-with", options, chosen, (value) => state.versus.set(value), "versus");
  if (!other) return made;
  const input = h("input", {
    type: "text", id: "versus-sentence", value: other.sentence, "data-key": "versus sentence", "aria-label": t("other-sentence"), translate: "no",
    onchange: () => state.versus.set(`${chosen} ${input.value}`.trim()),
  });
  return [made, input];
}

/** @param {string} key @param {string[][]} options @param {string} chosen
 * @param {(value: string) => void} choose @param {string} [id] */
function picker(key, options, chosen, choose, id = key) {
  const made = h(
    "select", { id, "data-key": id, onchange: () => choose(made.value) },
    options.map(([value, name]) => h("option", { value, selected: value === chosen, said: name })),
  );
  return h("span", { class: "picker" }, h("label", { for: id, text: t(key) }), made);
}

let patience = 0;
/** That work goes on, once it takes a while, with a button that ends it. @param {Element} home
 * @param {() => void} cancel */
export function busy(home, cancel) {
  clearTimeout(patience);
  const working = waiting() > 0;
  document.body.toggleAttribute("aria-busy", working);
  if (!working) fill(home);
  else patience = setTimeout(() => fill(home, h("span", { text: t("working") }), h("button", { type: "button", text: t("cancel"), onclick: cancel })), 500);
}
