// The sentence: written above, read below, token by token; what is chosen here is chosen everywhere.

import { fill, h, digits, seen } from "./dom.js";
import { css, isDark, shade } from "./colour.js";
import { isFile } from "./bridge.js";
import { choose, state } from "./state.js";
import { long } from "./long.js";
import { t } from "./messages.js";

/** How long the typing has to pause before the model reads. */
const PAUSE = 250;

/** Example sentences by key; docs/examples-that-teach.md explains them. */
const EXAMPLES = ["try-cat", "try-river", "try-road", "try-name"];

/** The field that is written in. */
export function field() {
  let timer = 0;
  const input = h("textarea", {
    id: "sentence", rows: 1, spellcheck: "false", autocomplete: "off", readonly: isFile,
    "aria-describedby": "sentence-hint", translate: "no",
    oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => choose({ sentence: input.value, ids: "" }), PAUSE);
    },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      clearTimeout(timer);
      choose({ sentence: input.value, ids: "" });
    },
  });
  input.value = state.sentence.peek();
  return h(
    "div", { class: "field" },
    h("label", { for: "sentence", text: t("sentence") }),
    input,
    h("p", { id: "sentence-hint", class: "soft", text: t(isFile ? "file-sentence" : "sentence-hint") }),
    !isFile && h("details", { class: "examples" }, h("summary", { text: t("try") }), EXAMPLES.map((key) => example(t(key)))),
  );
}

/** @param {string} text */
function example(text) {
  const write = () => {
    const input = /** @type {HTMLTextAreaElement} */ (document.getElementById("sentence"));
    input.value = text;
    choose({ sentence: text, ids: "" });
  };
  return h("button", { type: "button", class: "quiet", "data-key": `try ${text}`, said: text, onclick: write });
}

/** The tokens as they were read. @param {Element} home @param {any} seenAs the overview */
export function tokens(home, seenAs) {
  const { pieces, ids, surprisals, spare, notes } = seenAs;
  const chosen = (state.token() + pieces.length) % pieces.length;
  const most = Math.max(...surprisals.filter(Number.isFinite), 1);
  const dark = isDark();
  const item = (/** @type {number} */ n) => {
    const bits = surprisals[n];
    const bar = h("i", { class: "bits", vars: { share: bits === null ? 0 : bits / most } });
    bar.style.background = css(shade(bits ?? 0, most, "sequential", dark));
    const label = t("token-label", { n, piece: seen(pieces[n]), id: ids[n] });
    const told = bits === null ? label : `${label}, ${t("token-bits", { bits: digits(bits, 3) })}`;
    return h(
      "li", {},
      h(
        "button",
        {
          type: "button", class: "token", "aria-label": told, title: told, tabindex: n === chosen ? 0 : -1,
          "aria-pressed": n === chosen ? "true" : "false", "data-key": `token ${n}`, "data-token": n,
          onclick: () => state.token.set(n),
        },
        h("span", { said: seen(pieces[n]) }), bar,
      ),
    );
  };
  const row = (/** @type {string} */ key, /** @type {string} */ name, /** @type {string[]} */ all, /** @type {any} */ rest) =>
    long({ key: `all ${key}`, name, count: all.length, scale: "sequential", choose: (n) => state[key].set(n), ...rest });
  const name = t("tokens");
  const own = row("token", name, pieces, { at: chosen, item, values: surprisals, list: h("ol", { class: "tokens", "aria-label": name }) });
  const its = t("tokens-of-source");
  const read = spare.length > 0 && row("source", its, spare, {
    at: Math.min(Math.max(state.source(), 0), spare.length - 1), values: spare.map(() => 0), list: h("ol", { class: "tokens source", "aria-label": its }),
    item: (/** @type {number} */ n) => source(spare[n], n),
  });
  fill(
    home,
    state.ids() && h("p", { class: "said-of-it" }, t("chat-read"), " ", h("button", { type: "button", class: "quiet", "data-key": "chat leave", text: t("chat-leave"), onclick: () => choose({ ids: "", token: -1 }) })),
    own,
    read && [h("p", { class: "soft", text: its }), read],
    notes.map((/** @type {string} */ note) => h("p", { class: "said-of-it", said: note })),
  );
}

/** A token of the text that an encoder reads beside the decoder's. @param {string} piece
 * @param {number} n */
function source(piece, n) {
  const chosen = n === state.source();
  const said = t("source-label", { n, piece: seen(piece) });
  return h("li", {}, h(
    "button",
    {
      type: "button", class: "token", "aria-label": said, title: said, "aria-pressed": chosen ? "true" : "false",
      tabindex: chosen ? 0 : -1, "data-key": `source ${n}`, "data-source": n, onclick: () => state.source.set(n),
    },
    h("span", { said: seen(piece) }),
  ));
}
