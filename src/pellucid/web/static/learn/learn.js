// The page of the course: its head, and the view that the address names.

import { announce, fill, h } from "../dom.js";
import { ask, cancelAll } from "../asking.js";
import { isDark } from "../colour.js";
import { busy, languages, themes } from "../header.js";
import { preferred, speak, t } from "../messages.js";
import { effect, signal } from "../signal.js";
import { contents, page } from "./book.js";
import { lesson, picture, refused } from "./lesson.js";
import { link, readView, view } from "./place.js";
import { list } from "./list.js";

/** The answer that is shown, with its kind. @type {import("../signal.js").Signal<any>} */
const answer = signal(null);
const problem = signal("");
/** The runs of the server. @type {any} */
let runs = null;

const home = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Asks for the view of the address. */
async function look() {
  const { kind, name, run, sentence } = view();
  /** @type {any} */
  const asked = { kind, name };
  if (kind === "lesson") {
    asked.reading = { run: run || runs.runs[0].key, checkpoint: "", sentence: sentence || runs.sentence };
  }
  try {
    const found = await ask(asked, "view");
    if (found === null) return;
    problem.set("");
    answer.set({ kind, name, asked, found });
  } catch (error) {
    problem.set(/** @type {Error} */ (error).message);
    // another sentence, or another run, may do
    if (kind === "lesson") refused(home("focus"), name, asked, runs);
  }
}

function show() {
  const shown = answer();
  if (!shown) return;
  const { kind, asked, found } = shown;
  const main = home("focus");
  if (kind === "lessons") list(main, found, look);
  else if (kind === "lesson") lesson(main, found, asked, runs);
  else if (kind === "concepts") contents(main, found);
  else page(main, found);
  const title = main.querySelector("h1")?.textContent ?? "";
  document.title = `${title} · pellucid`;
}

function head() {
  const { kind } = view();
  const inLessons = kind === "lessons" || kind === "lesson";
  const input = h("input", { type: "text", id: "find", "aria-label": t("learn.find"), placeholder: t("learn.find"), maxlength: 300, value: kind === "find" ? view.peek().name : "" });
  const find = (/** @type {Event} */ event) => {
    event.preventDefault();
    if (input.value.trim()) location.hash = link("find", input.value.trim()).replace(/^[^#]*/, "");
  };
  fill(
    home("top"),
    h("p", { class: "brand" }, h("b", { said: "pellucid" })),
    h(
      "nav", { class: "places", "aria-label": t("learn.places") },
      h("a", { href: link("lessons"), "aria-current": inLessons ? "page" : null, text: t("learn.lessons") }),
      h("a", { href: link("concepts"), "aria-current": inLessons ? null : "page", text: t("learn.concepts") }),
      h("a", { href: link("chapter"), text: t("learn.numbers") }),
    ),
    h("form", { class: "find", role: "search", onsubmit: find }, input, h("button", { type: "submit", text: t("learn.find-go") })),
    h("div", { class: "tools" }, languages(), themes()),
  );
  home("skip").textContent = t("learn.skip");
}

function problems() {
  const said = problem();
  fill(home("problem"), said && h("p", { said }), said && h("button", { type: "button", class: "quiet", text: t("again"), onclick: look }));
}

async function start() {
  readView();
  await speak(preferred());
  addEventListener("hashchange", readView);
  home("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address names the view
    home("focus").focus();
  });
  effect(problems);
  effect(() => busy(home("busy"), cancelAll));
  try {
    runs = await ask({ kind: "runs" }, "runs");
  } catch (error) {
    problem.set(/** @type {Error} */ (error).message);
    return;
  }
  effect(head);
  effect(() => void (view(), look()));
  effect(show);
  effect(() => (isDark(), picture()));
  let before = view.peek();
  effect(() => {
    const shown = answer();
    if (!shown || view.peek() === before) return;
    before = view.peek();
    scrollTo(0, 0);
    announce(home("focus").querySelector("h1")?.textContent ?? "");
  });
}

start();
