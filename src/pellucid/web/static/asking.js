// Where answers come from: the server that sent the page, or the file that the page is. A question
// that nobody waits for any more is taken back.

import { read, state, scales, versus } from "./state.js";
import { signal } from "./signal.js";
import { t, translated } from "./messages.js";
import { brought, isFile, isFrame, payload } from "./bridge.js";

/** How many questions are open. */
export const waiting = signal(0);

/** Kinds whose answers are other ones the next time. */
const PASSING = new Set(["runs", "progress", "table", "curves", "lessons", "lesson", "grade"]);

/** @type {Map<string, any>} */
const known = new Map();
/** @type {Map<string, AbortController>} */
const open = new Map();
/** What is chosen, as a question has it: of a pair, the encoder asks with a token of the source, and
 * the decoder's look at the encoder asks for one. @param {any} seenAs the overview */
export function place(seenAs) {
  const pair = seenAs.spare.length > 0;
  const [encodes, crosses] = [pair && state.stack() === "encoder", state.cross() === 1];
  return {
    token: encodes ? state.source() : state.token(), other: crosses ? state.source() : state.other(),
    layer: state.layer(), head: state.head(), feature: state.feature(), stack: state.stack(), cross: crosses,
    weight: state.weight(), row: state.row(), column: state.column(),
  };
}

/** A question about the sentence that is chosen. @param {string} kind @param {any} [more] */
export function question(kind, more = {}) {
  const reading = { run: state.run(), checkpoint: state.at(), ...read() };
  return { kind, reading, scales: scales(), versus: versus(), ...more };
}

/**
 * The answer; null where the question was taken back by another one of the same `topic`.
 * @param {any} asked @param {string} topic @returns {Promise<any>}
 */
export async function ask(asked, topic) {
  open.get(topic)?.abort();
  open.delete(topic);
  const key = JSON.stringify(asked);
  if (known.has(key)) return translated(known.get(key));
  if (isFile) return fromFile(asked);
  const stop = new AbortController();
  open.set(topic, stop);
  waiting.set(waiting.peek() + 1);
  try {
    const answer = translated(await (isFrame ? brought : fetched)(key, stop.signal));
    if ("error" in answer) throw new Error(answer.error);
    if (!PASSING.has(asked.kind)) remember(key, answer);
    return answer;
  } catch (error) {
    if (stop.signal.aborted) return null;
    if (error instanceof TypeError) throw new Error(t("server-gone"));
    throw error;
  } finally {
    waiting.set(waiting.peek() - 1);
    if (open.get(topic) === stop) open.delete(topic);
  }
}

/** @param {string} body @param {AbortSignal} signal */
async function fetched(body, signal) {
  const headers = { "content-type": "application/json" };
  return (await fetch("./ask", { method: "POST", body, headers, signal })).json();
}

/** Takes back the open question of a topic. @param {string} topic */
export function cancel(topic) {
  open.get(topic)?.abort();
}

/** Takes back every open question. */
export function cancelAll() {
  for (const stop of open.values()) stop.abort();
}

/** @param {string} key @param {any} answer */
function remember(key, answer) {
  known.set(key, answer);
  if (known.size > 200) known.delete(known.keys().next().value ?? "");
}

/** @param {any} asked */
async function fromFile(asked) {
  const { answers, bodies, pictures, axes } = await payload();
  const found = answers[keyOf(asked, axes)];
  if (found === undefined) throw new Error(t("not-in-file"));
  const body = translated(bodies[found]);
  if (body.error) throw new Error(body.error);
  if (asked.kind !== "chapter") return body;
  return { ...body, pictures: body.pictures.map((/** @type {number} */ at) => translated(pictures[at])) };
}

/** How a file calls a question: by what matters to its answer, as `file_answers.py` has it.
 * @param {any} asked @param {Record<string, string[]>} axes */
function keyOf({ kind, chapter, place: at }, axes) {
  if (kind === "runs" || kind === "overview" || kind === "backward") return kind;
  if (kind === "prediction") return `prediction ${at.token}`;
  if (kind === "machine") return `machine ${at.stack} ${at.token}`;
  if (kind === "thumbnails") return `thumbnails ${at.stack} ${at.cross} ${at.layer}`;
  return [chapter, ...axes[chapter].map((axis) => `${axis}=${at[axis]}`)].join(" ");
}

/** Bytes that came as text. @param {string} text */
export function bytes(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

/** @param {string} text */
export const floats = (text) => new Float32Array(bytes(text).buffer);
