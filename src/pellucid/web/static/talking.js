// What is said between the page and the API beside it: a message goes, tokens come one by one.

import { t } from "./messages.js";

/** @typedef {{ piece: string, p: number, others: [string, number][], id: number }} Written */
/** @typedef {{ model: string, is_chat: boolean }} Talk */

/**
 * Asks for an answer; `heard` is called with each new token and the text that it made certain.
 * @param {Talk} talk @param {{ messages: any[], prompt: string, temperature: number }} asked
 * @param {AbortSignal} signal @param {(tokens: Written[], text: string, prompt: number[]) => void} heard
 * @returns {Promise<string>} why the answer ended
 */
export async function answer(talk, { messages, prompt, temperature }, signal, heard) {
  const shared = { model: talk.model, temperature, stream: true, return_token_ids: true };
  const [path, body] = talk.is_chat
    ? ["./v1/chat/completions", { ...shared, messages, logprobs: true, top_logprobs: 8 }]
    : ["./v1/completions", { ...shared, prompt, logprobs: 8, max_tokens: 64 }];
  let response;
  try {
    response = await fetch(path, { method: "POST", body: JSON.stringify(body), headers: { "content-type": "application/json" }, signal });
  } catch (error) {
    if (signal.aborted) return "you";
    throw new Error(t("server-gone"));
  }
  let ended = "";
  try {
    for await (const said of events(response)) {
      if (said.error) throw Object.assign(new Error(said.error.message), { code: said.error.code });
      for (const choice of said.choices ?? []) {
        const start = said.prompt_token_ids ?? choice.prompt_token_ids ?? [];
        heard(talk.is_chat ? ofChat(choice) : ofCompletion(choice), choice.delta?.content ?? choice.text ?? "", start);
        ended = choice.finish_reason ?? ended;
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
    return "you";
  }
  return ended;
}

/** @param {any} choice @returns {Written[]} */
function ofChat(choice) {
  return (choice.logprobs?.content ?? []).map((/** @type {any} */ token, /** @type {number} */ n) => ({
    piece: token.token, p: Math.exp(token.logprob), id: choice.token_ids[n],
    others: token.top_logprobs.map((/** @type {any} */ other) => [other.token, Math.exp(other.logprob)]),
  }));
}

/** @param {any} choice @returns {Written[]} */
function ofCompletion(choice) {
  const said = choice.logprobs;
  return (said?.tokens ?? []).map((/** @type {string} */ piece, /** @type {number} */ n) => ({
    piece, p: Math.exp(said.token_logprobs[n]), id: choice.token_ids[n],
    others: Object.entries(said.top_logprobs[n]).map(([other, log]) => [other, Math.exp(/** @type {number} */ (log))]).sort((a, b) => Number(b[1]) - Number(a[1])),
  }));
}

/** The objects of a stream of events. @param {Response} response */
async function* events(response) {
  const reader = /** @type {ReadableStream<Uint8Array>} */ (response.body).pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (true) {
    const { done, value } = await reader.read();
    if (done) break;
    text += value;
    const parts = text.split("\n\n");
    text = parts.pop() ?? "";
    for (const part of parts) if (part.startsWith("data: {")) yield JSON.parse(part.slice(6));
  }
  if (text.trim().startsWith("{")) yield JSON.parse(text);
}
