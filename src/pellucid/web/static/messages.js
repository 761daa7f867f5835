// Words of the page by their key. Another language is another file like `messages.en.js`.

import { messages } from "./messages.en.js";

/** A message with its places filled in: {name} is what `put` says.
 * @param {string} key @param {Record<string, string | number>} [put] */
export function t(key, put = {}) {
  const found = /** @type {Record<string, string>} */ (messages)[key];
  if (found === undefined) throw new Error(`there is no message ${key}`);
  return found.replace(/\{(\w+)\}/g, (_, name) => String(put[name]));
}
