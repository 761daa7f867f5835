// The chat room: messages, answers token by token, and each token opened: what else the model
// considered, what it looked at, and from there every number of the page.

import { announce, fill, h, percent, seen, svg } from "./dom.js";
import { ask } from "./asking.js";
import { effect, signal } from "./signal.js";
import { choose, state } from "./state.js";
import { answer } from "./talking.js";
import { t } from "./messages.js";

/** @typedef {{ role: string, text: string, prompt: number[], tokens: import("./talking.js").Written[],
 * ended: string, dropped: number }} Line */

/** @type {import("./signal.js").Signal<Line[]>} */
const lines = signal([]);
/** @type {any} */
const open = signal(null);
/** @type {any} */
const looked = signal(null);
const problem = signal("");
const system = signal("");
const temperature = signal(0.7);
/** @type {any} */
const working = signal(null);
let whose = "";

const [logHome, problemHome, toolsHome] = [h("div"), h("div", { role: "alert" }), h("div", { class: "say-tools" })];
let started = false;

/** The room: it stays as it is while answers come, so that a message can be written meanwhile.
 * @param {Element} home @param {any} said the runs */
export function chat(home, said) {
  const talk = said.talks?.[state.run()];
  const isOpen = talk !== undefined && state.chat() === 1;
  home.toggleAttribute("hidden", !isOpen);
  if (!isOpen) return fill(home);
  if (whose !== talk.model) forget(talk.model);
  fill(
    home,
    h("h2", { id: "chat-head" }, t("chat-with"), " ", h("span", { said: talk.model })),
    h("p", { class: "soft", text: t(talk.is_chat ? "chat-hint" : "chat-base") }),
    logHome, problemHome, form(talk),
  );
  home.setAttribute("aria-labelledby", "chat-head");
  if (started) return;
  started = true;
  effect(() => fill(logHome, lines().length > 0 && h("ol", { class: "talk", "aria-label": t("chat-log") }, lines().map((line, n) => message(line, n)))));
  effect(() => fill(problemHome, problem() && h("p", { class: "said-of-it", said: problem() })));
  effect(() => fill(toolsHome, tools()));
}

/** @param {string} model */
function forget(model) {
  whose = model;
  working.peek()?.abort();
  lines.set([]);
  open.set(null);
  problem.set("");
}

/** @param {any} talk */
function form(talk) {
  const input = h("textarea", { id: "message", "data-key": "message", rows: 2, autocomplete: "off", translate: "no", onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    send(talk, input);
  } });
  const heat = h("input", { id: "heat", "data-key": "heat", type: "number", min: 0, max: 2, step: 0.1, value: temperature.peek(), onchange: () => temperature.set(Math.min(2, Math.max(0, Number(heat.value) || 0))) });
  const frame = h("input", { id: "system", "data-key": "system", type: "text", autocomplete: "off", translate: "no", value: system.peek(), onchange: () => system.set(frame.value) });
  return h(
    "form", { class: "say", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); send(talk, input); } },
    h("label", { for: "message", text: t(talk.is_chat ? "chat-message" : "chat-text") }),
    input, toolsHome,
    h(
      "div", { class: "say-tools" },
      h("span", { class: "picker" }, h("label", { for: "heat", text: t("temperature") }), heat),
      talk.is_chat && h("span", { class: "picker" }, h("label", { for: "system", text: t("chat-system") }), frame),
    ),
  );
}

function tools() {
  return [
    working()
      ? h("button", { type: "button", "data-key": "send", text: t("chat-stop"), onclick: () => working.peek()?.abort() })
      : h("button", { type: "submit", "data-key": "send", text: t("chat-send") }),
    lines().length > 0 && h("button", { type: "button", class: "quiet", "data-key": "new chat", text: t("chat-new"), onclick: () => forget(whose) }),
  ];
}

/** @param {Line} line @param {number} n */
function message(line, n) {
  const mine = line.role === "user";
  return h(
    "li", { class: mine ? "mine" : "theirs" },
    h("p", { class: "soft", text: t(mine ? "chat-you" : "chat-model") }),
    mine ? h("p", { class: "words", said: line.text }) : h("p", { class: "words", translate: "no" }, line.tokens.map((token, k) => written(token, n, k))),
    line.dropped > 0 && h("p", { class: "soft", text: t("chat-dropped", { n: line.dropped }) }),
    line.ended === "stop" && line.tokens.length === 0 && h("p", { class: "soft", text: t("chat-empty") }),
    line.ended === "length" && h("p", { class: "soft", text: t("chat-full") }),
    open()?.line === n && opened(line, open().token),
  );
}

/** A token that the model wrote. @param {import("./talking.js").Written} token
 * @param {number} n the line @param {number} k its place */
function written(token, n, k) {
  const isOpen = open()?.line === n && open()?.token === k;
  const made = h("button", {
    type: "button", class: "written", "aria-expanded": String(isOpen), "data-key": `written ${n} ${k}`,
    title: t("chat-token", { token: seen(token.piece), p: percent(token.p) }),
    "aria-label": t("chat-token", { token: seen(token.piece), p: percent(token.p) }),
    onclick: () => show(n, k),
    onkeydown: (/** @type {KeyboardEvent} */ event) => walk(event, n, k),
    tabindex: isOpen || (k === 0 && open()?.line !== n) ? 0 : -1,
    vars: { sure: Math.round(token.p * 100) / 100 },
  }, token.piece.replace(/\n/g, "↵"));
  return [made, token.piece.includes("\n") && h("br")];
}

/** Arrow keys within an answer. @param {KeyboardEvent} event @param {number} n @param {number} k */
function walk(event, n, k) {
  const next = k + ({ ArrowLeft: -1, ArrowRight: 1 }[event.key] ?? 0);
  if (next === k || !lines.peek()[n].tokens[next]) return;
  event.preventDefault();
  event.stopPropagation();
  show(n, next);
  requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector(`[data-key="written ${n} ${next}"]`))?.focus());
}

/** Opens a token: the whole page is about it from now on. @param {number} n @param {number} k */
async function show(n, k) {
  const line = lines.peek()[n];
  const ids = [...line.prompt, ...line.tokens.map((token) => token.id)];
  const token = line.prompt.length + k - 1;
  open.set({ line: n, token: k });
  looked.set(null);
  choose({ ids: ids.join("."), token, stack: "decoder", cross: 0 });
  try {
    const reading = { run: state.run.peek(), checkpoint: state.at.peek(), sentence: "", ids };
    const said = await ask({ kind: "looked", reading, place: { token } }, "looked");
    if (said !== null) looked.set(said);
  } catch (error) {
    problem.set(/** @type {Error} */ (error).message);
  }
}

/** What is known of a token that is open. @param {Line} line @param {number} k */
function opened(line, k) {
  const token = line.tokens[k];
  announce(t("chat-token", { token: seen(token.piece), p: percent(token.p) }));
  const attention = looked();
  return h(
    "div", { class: "opened" },
    h("div", {}, h("h3", { text: t("chat-considered", { token: seen(token.piece) }) }), shares(token.others, t("chat-considered-hint"), token.piece)),
    attention && h("div", {}, h("h3", { text: t("chat-looked") }), attention.rows.length ? shares(attention.rows.map((/** @type {any} */ [at, piece, share]) => [t("chat-place", { token: seen(piece), at }), share]), t("chat-looked-hint", { n: attention.heads })) : h("p", { class: "soft", text: t("chat-no-attention") })),
    h("button", { type: "button", "data-key": "all numbers", text: t("chat-all"), onclick: () => document.getElementById("chapters")?.scrollIntoView() }),
  );
}

/** @param {[string, number][]} rows @param {string} hint @param {string} [came] the token that came */
function shares(rows, hint, came) {
  const most = Math.max(...rows.map(([, share]) => share), 1e-12);
  return [
    h("p", { class: "soft", text: hint }),
    h("table", { class: "bars" }, h("tbody", {}, rows.map(([piece, share]) => h(
      "tr", { class: piece === came ? "target" : null }, h("th", { scope: "row", said: seen(piece) }),
      h("td", { class: "drawn" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" }, svg("rect", { class: "above", width: (share / most) * 100, y: 1, height: 8 }))),
      h("td", { class: "number", said: percent(share), "data-share": share }),
    )))),
  ];
}

/** @param {any} talk @param {HTMLTextAreaElement} input */
async function send(talk, input) {
  const text = input.value;
  if (!text.trim() || working.peek()) return;
  input.value = "";
  problem.set("");
  open.set(null);
  const before = lines.peek();
  /** @type {Line} */
  const mine = { role: "user", text, prompt: [], tokens: [], ended: "", dropped: 0 };
  /** @type {Line} */
  const theirs = { ...mine, role: "assistant", text: "" };
  const show = () => lines.set([...before, mine, { ...theirs }]);
  show();
  const stop = new AbortController();
  working.set(stop);
  try {
    await hear(talk, before, mine, theirs, stop.signal, show);
    announce(theirs.text);
  } catch (error) {
    problem.set(/** @type {Error} */ (error).message);
    lines.set(theirs.tokens.length ? [...before, mine, { ...theirs }] : before);
    if (!theirs.tokens.length) input.value = text;
  } finally {
    working.set(null);
  }
}

/** Hears an answer; where the conversation is too long for the model, without its oldest turns.
 * @param {any} talk @param {Line[]} before @param {Line} mine @param {Line} theirs
 * @param {AbortSignal} signal @param {() => void} show */
async function hear(talk, before, mine, theirs, signal, show) {
  const head = system.peek() ? [{ role: "system", content: system.peek() }] : [];
  for (theirs.dropped = 0; ; theirs.dropped += 2) {
    const turns = [...before.slice(theirs.dropped), mine].map(({ role, text }) => ({ role, content: text }));
    try {
      theirs.ended = await answer(talk, { messages: [...head, ...turns], prompt: mine.text, temperature: temperature.peek() }, signal, (tokens, text, prompt) => {
        if (prompt.length) theirs.prompt = prompt;
        theirs.tokens = [...theirs.tokens, ...tokens];
        theirs.text += text;
        show();
      });
      return show();
    } catch (error) {
      const tooLong = /** @type {any} */ (error).code === "context_length_exceeded";
      if (!tooLong || turns.length === 1 || !talk.is_chat) throw error;
    }
  }
}
