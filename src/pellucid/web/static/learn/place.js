// Where the reader is: the address names the view, its run and its sentence. Every link is a view.

import { signal } from "../signal.js";

/** @typedef {{ kind: string, name: string, run: string, sentence: string }} View */

/** The kinds of views that have a name. */
const NAMED = ["lesson", "concept", "equation", "experiment", "find"];

/** @type {import("../signal.js").Signal<View>} */
export const view = signal({ kind: "", name: "", run: "", sentence: "" });

/** The view that the address names; without a name the list of the lessons, or of the concepts. */
export function readView() {
  const said = new URLSearchParams(location.hash.slice(1));
  const kind = NAMED.find((each) => said.get(each));
  const start = location.pathname.endsWith("/concept") ? "concepts" : "lessons";
  view.set({
    kind: kind ?? said.get("view") ?? start,
    name: kind ? (said.get(kind) ?? "") : "",
    run: said.get("run") ?? "",
    sentence: said.get("s") ?? "",
  });
}

/** The address of a view; the run and the sentence stay. @param {string} kind @param {string} [name]
 * @param {Record<string, string>} [more] */
export function link(kind, name = "", more = {}) {
  const { run, sentence } = view.peek();
  const said = new URLSearchParams();
  if (name) said.set(kind, name);
  for (const [key, value] of Object.entries({ run, s: sentence, ...more })) if (value) said.set(key, value);
  const page = kind === "chapter" ? "./" : kind === "lesson" || kind === "lessons" ? "./learn" : "./concept";
  return `${page}#${said}`;
}
