// Temperature, top-k and top-p over the whole vocabulary, here and now: the likeliest logits one by
// one, the others as bins of like logits with their counts.

import { floats } from "./asking.js";

/** @typedef {{ id: number, text: string, logit: number, p: number, kept: number }} Token */

/**
 * @param {any} said what the server says of a token @param {number} temperature
 * @param {number} k 0 for no limit @param {number} top how much mass is kept, 1 for all
 * @returns {{ tokens: Token[], cut: number, keptCount: number, inBins: boolean }}
 */
export function distribution(said, temperature, k, top) {
  const means = said.tail ? floats(said.tail.means) : new Float32Array();
  const counts = said.tail ? floats(said.tail.counts) : new Float32Array();
  const largest = said.likely[0][2];
  const raw = said.likely.map((/** @type {any} */ each) => weight(each[2], largest, temperature));
  const binned = [...means]
    .map((mean, n) => ({ each: weight(mean, largest, temperature), count: counts[n] }))
    .sort((a, b) => b.each - a.each);
  const total =
    raw.reduce((/** @type {number} */ a, /** @type {number} */ b) => a + b, 0) +
    binned.reduce((sum, bin) => sum + bin.each * bin.count, 0);

  // down the ranks until k tokens are in, or of their mass the share `top`, the last one whole: in
  // the order of generation/sampling.py. Both may be off, and temperature 0 takes the first.
  const limit = temperature === 0 ? 1 : k > 0 ? k : Infinity;
  const enough = top < 1 ? top * massOf(raw, binned, limit) / total - 1e-12 : Infinity;
  let mass = 0;
  let count = 0;
  const full = () => count >= limit || mass >= enough;
  /** @type {Token[]} */
  const tokens = said.likely.map((/** @type {any} */ [id, text, logit], /** @type {number} */ n) => {
    const p = raw[n] / total;
    const isKept = !full();
    if (isKept) [mass, count] = [mass + p, count + 1];
    return { id, text, logit, p, kept: isKept ? p : 0 };
  });
  const inBins = binned.length > 0 && !full();
  for (const bin of binned) {
    if (full()) break;
    const p = bin.each / total;
    const wanted = Math.ceil(Math.min(limit - count, (enough - mass) / Math.max(p, 1e-300), bin.count));
    const taken = Math.min(bin.count, Math.max(1, wanted));
    [mass, count] = [mass + p * taken, count + taken];
  }
  for (const token of tokens) token.kept /= mass || 1;
  return { tokens, cut: Math.max(0, 1 - mass), keptCount: count, inBins };
}

/** The weight of the first tokens, down the ranks. @param {number[]} raw
 * @param {{ each: number, count: number }[]} binned @param {number} limit */
function massOf(raw, binned, limit) {
  let [mass, left] = [raw.slice(0, limit).reduce((a, b) => a + b, 0), limit - raw.length];
  for (const bin of binned) {
    if (left <= 0) break;
    mass += bin.each * Math.min(bin.count, left);
    left -= bin.count;
  }
  return mass;
}

/** @param {number} logit @param {number} largest @param {number} temperature */
function weight(logit, largest, temperature) {
  if (temperature === 0) return logit === largest ? 1 : 0;
  return Math.exp((logit - largest) / temperature);
}

/** The token that a random number between 0 and 1 falls on; null where it is among the bins.
 * @param {Token[]} tokens @param {number} drawn */
export function drawnFrom(tokens, drawn) {
  let reached = 0;
  for (const token of tokens) {
    reached += token.kept;
    if (drawn < reached) return token;
  }
  return null;
}
