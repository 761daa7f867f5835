// What single keys do, and the list of them; they can be switched off, for those who speak or type
// otherwise.

import { fill, h } from "./dom.js";
import { signal } from "./signal.js";
import { chosenHead, scaleOf, setScale, state } from "./state.js";
import { isFile } from "./bridge.js";
import { move } from "./rail.js";
import { turn } from "./chapters.js";
import { t } from "./messages.js";

const on = signal(true);
const LIST = [
  ["← →", "key-token"], ["↑ ↓", "key-layer"], ["[ ]", "key-head"], ["n p", "key-chapter"],
  ["b", "key-backward"], ["x", "key-ablate"], ["c", "key-compare"], ["Space", "key-play"], ["/", "key-sentence"],
  ["?", "key-help"],
];

/** Listens; `overview` gives what is read now, or null. @param {() => any} overview */
export function listen(overview) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    const target = /** @type {HTMLElement} */ (event.target);
    // a dialog that was just closed may hold the focus for a moment more
    const gone = target.closest("dialog:not([open])");
    if (!gone && target.closest("input, select, textarea, dialog[open], summary, .scroll")) return;
    if (!on.peek() && event.key !== "?") return;
    if (event.key === " " && target.closest("button, a, [role=grid]")) return;
    const seenAs = overview();
    if (event.key === "?") help();
    else if (seenAs === null || !done(event.key, seenAs)) return;
    event.preventDefault();
  });
}

/** @param {string} key @param {any} seenAs */
function done(key, seenAs) {
  const count = seenAs.pieces.length;
  const token = (state.token() + count) % count;
  switch (key) {
    case "ArrowLeft": step(Math.max(0, token - 1)); break;
    case "ArrowRight": step(Math.min(count - 1, token + 1)); break;
    case "ArrowUp": move(seenAs, -1, 0); break;
    case "ArrowDown": move(seenAs, 1, 0); break;
    case "[": move(seenAs, 0, -1); break;
    case "]": move(seenAs, 0, 1); break;
    case "n": turn(seenAs, 1); break;
    case "p": turn(seenAs, -1); break;
    case "b": {
      const found = seenAs.contents.find((/** @type {any} */ each) => each.part === "backward");
      if (found) state.chapter.set(found.id);
      break;
    }
    case "x": {
      if (isFile) return false;
      setScale(chosenHead(), scaleOf(chosenHead()) === 0 ? 1 : 0);
      break;
    }
    case "c": compare(seenAs); break;
    case " ": {
      const film = document.getElementById("play");
      if (film === null) return false;
      film.click();
      break;
    }
    case "/": document.getElementById("sentence")?.focus(); break;
    default: return false;
  }
  return true;
}

/** Opens the comparison; where nothing is chosen to compare with, the picker first. @param {any} seenAs */
function compare(seenAs) {
  const found = seenAs.contents.find((/** @type {any} */ each) => each.part === "compare");
  if (found) state.chapter.set(found.id);
  if (!state.versus()) document.getElementById("versus")?.focus();
}

/** Chooses a token; the focus goes with it where it is on one. @param {number} token */
function step(token) {
  const onToken = document.activeElement?.classList.contains("token");
  state.token.set(token);
  if (onToken) requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(`[data-token="${token}"]`))?.focus());
}

/** Opens the list. */
export function help() {
  const home = /** @type {HTMLDialogElement} */ (document.getElementById("keys"));
  const check = h("input", { type: "checkbox", id: "keys-on", checked: on.peek(), onchange: () => on.set(check.checked) });
  fill(
    home,
    h("h2", { id: "keys-title", text: t("keys-title") }),
    h("dl", {}, LIST.map(([keys, what]) => h("div", {}, h("dt", {}, keys.split(" ").map((key) => h("kbd", { said: key }))), h("dd", { text: t(what) })))),
    h("p", {}, check, h("label", { for: "keys-on", text: t("keys-on") })),
    h("button", { type: "button", text: t("close"), onclick: () => home.close() }),
  );
  home.setAttribute("aria-labelledby", "keys-title");
  if (!home.open) home.showModal();
}
