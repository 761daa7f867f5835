// The page: asks when something is chosen, shows what comes. It computes nothing of a model.

import { announce, fill, h } from "./dom.js";
import { effect, signal } from "./signal.js";
import { isDark } from "./colour.js";
import { attention, choose, keepAddress, readAddress, state } from "./state.js";
import { ask, cancelAll, place, question } from "./asking.js";
import { isFile } from "./bridge.js";
import { busy, header } from "./header.js";
import { chat } from "./chat.js";
import { runsRoom } from "./runs.js";
import { field, tokens } from "./sentence.js";
import { rail } from "./rail.js";
import { chapter, kept, strip } from "./chapters.js";
import { back, isBack, isKept, settleBack } from "./backward.js";
import { forgetDrawn, glance, prediction } from "./prediction.js";
import { askMachine, machine, machines } from "./machine.js";
import { listen } from "./keys.js";
import { language, preferred, speak, t } from "./messages.js";

/** @type {any} */
const runs = signal(null);
/** @type {any} */
const overview = signal(null);
/** @type {any} */
const opened = signal(null);
/** @type {any} */
const predicted = signal(null);
/** The chapter that is chosen: the one that is shown may be of another place still. */
const wanted = signal("");
const problem = signal("");

const home = (/** @type {string} */ id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** Asks, and shows the answer or why there is none. @param {any} asked @param {string} topic
 * @param {any} into */
async function get(asked, topic, into) {
  try {
    const answer = await ask(asked, topic);
    if (answer === null) return;
    problem.set("");
    into.set({ ...answer, asked: JSON.stringify(asked) });
  } catch (error) {
    problem.set(/** @type {Error} */ (error).message);
  }
}

/** Which sentence the rest of the page is about; asked anew when it changes. */
function read() {
  language();
  const asked = question("overview");
  if (!asked.reading.run) return;
  if (!asked.reading.ids && !asked.reading.sentence.trim()) {
    problem.set(t("empty"));
    return;
  }
  get(asked, "overview", overview);
}

function look() {
  const seenAs = overview();
  const asked = JSON.stringify(question("overview"));
  if (!seenAs || seenAs.asked !== asked) return;
  settle(seenAs);
  const at = place(seenAs);
  get(question("prediction", { place: { token: state.token() } }), "prediction", predicted);
  if (state.chapter() && !isKept(seenAs, state.chapter())) {
    const chosen = question("chapter", { chapter: state.chapter(), place: at });
    wanted.set(JSON.stringify(chosen));
    get(chosen, "chapter", opened);
  }
  settleBack(seenAs);
}

/** What was chosen for another sentence or model may not be there in this one. @param {any} seenAs */
function settle(seenAs) {
  const count = seenAs.pieces.length;
  const stack = attention(seenAs) ?? seenAs.stacks.findLast((/** @type {any} */ s) => !s.cross);
  const keys = stack.name === "encoder" && seenAs.spare.length ? seenAs.spare.length : count;
  const layer = Math.min(state.layer(), stack.layers.length - 1);
  const ids = seenAs.contents.map((/** @type {any} */ each) => each.id);
  choose({
    stack: stack.name,
    cross: Number(stack.cross),
    layer,
    head: Math.min(state.head(), Math.max(1, stack.layers[layer].heads) - 1),
    token: state.token() < -count || state.token() >= count ? count - 1 : (state.token() + count) % count,
    other: Math.min(state.other(), keys - 1),
    source: seenAs.spare.length ? Math.min(state.source() < 0 ? state.source() + seenAs.spare.length : state.source(), seenAs.spare.length - 1) : 0,
    chapter: ids.includes(state.chapter()) ? state.chapter() : ids[0],
  });
}

function problems() {
  const said = problem();
  fill(home("problem"), said && h("p", { said }), said && h("button", { type: "button", class: "quiet", text: t(isFile ? "to-held" : "again"), onclick: again }));
}

function again() {
  problem.set("");
  if (isFile) choose({ ...runs.peek().place, cross: Number(runs.peek().place.cross) });
  read();
  look();
}

function stopAll() {
  cancelAll();
  announce(t("cancelled"));
  problem.set(t("cancelled"));
}

async function start() {
  readAddress();
  await speak(preferred());
  effect(() => {
    home("skip").textContent = t("skip");
    home("reader").setAttribute("aria-label", t("sentence"));
    home("glance").setAttribute("aria-label", t("glance"));
    home("prediction").setAttribute("aria-label", t("prediction"));
    home("rail").setAttribute("aria-label", t("layers"));
  });
  effect(problems);
  effect(() => busy(home("busy"), stopAll));
  await get({ kind: "runs" }, "runs", runs);
  const said = runs.peek();
  if (!said) return;
  if (!said.runs.some((/** @type {any} */ run) => run.key === state.run.peek())) choose({ run: said.runs[0].key, at: said.runs[0].chosen });
  if (isFile || !state.sentence.peek()) state.sentence.set(said.sentence);
  if (isFile) state.versus.set(said.versus);
  if (!isFile && !location.hash && said.ids.length) choose({ ids: said.ids.join("."), token: said.token });
  if (isFile && !location.hash) choose({ ...said.place, cross: Number(said.place.cross) });
  keepAddress();
  const row = h("div", { id: "tokens" }, h("p", { class: "soft", text: t("loading") }));
  effect(() => fill(home("reader"), field(), row));
  effect(() => header(home("top"), runs(), overview()));
  if (!isFile) effect(() => (language(), runsRoom(home("runs"))));
  if (!isFile) effect(() => chat(home("chat"), runs()));
  effect(read);
  effect(look);
  effect(() => overview() && (isDark(), tokens(row, overview())));
  effect(() => overview() && (isDark(), rail(home("rail"), overview(), isBack() ? back() : null)));
  effect(() => overview() && strip(home("chapters"), overview()));
  effect(() => overview() && state.zoom() && askMachine(overview(), get));
  effect(() => overview() && (isDark(), machine(home("machine"), overview(), machines(), opened())));
  effect(() => predicted() && (forgetDrawn(), state.temperature(), state.k(), state.p()));
  effect(() => predicted() && overview.peek() && prediction(home("prediction"), predicted(), overview.peek()));
  effect(() => predicted() && overview.peek() && glance(home("glance"), predicted(), overview.peek()));
  effect(() => {
    const seenAs = overview();
    if (seenAs && isKept(seenAs, state.chapter())) home("focus").removeAttribute("aria-busy"), kept(home("focus"), seenAs);
    else if (opened() && seenAs) {
      const isStale = opened().asked !== wanted();
      home("focus").setAttribute("aria-busy", String(isStale));
      if (!isStale) isDark(), chapter(home("focus"), opened(), overview.peek());
    }
  });
  listen(() => overview.peek());
}

start();
