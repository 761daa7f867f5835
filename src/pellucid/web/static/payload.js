// What a page that is one file holds: its answers and its languages, packed. A page of a server has
// none.

const home = document.getElementById("payload");

/** Whether the page is one file without a server. */
export const isFile = home !== null;

/** @type {Promise<any> | null} */
let held = null;

/** What the file holds, unpacked once. @returns {Promise<any>} */
export function payload() {
  held ??= unpacked(home?.textContent?.trim() ?? "");
  return held;
}

/** @param {string} text */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}
