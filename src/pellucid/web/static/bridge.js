// Where the page has no server. In a notebook it lives in a frame without an address: the cell around
// it brings questions to the kernel, and answers back. A file holds its answers, packed.

/** Whether the page is such a frame. */
export const isFrame = document.getElementById("bridge") !== null;

// two views of one cell hear each other's answers: each knows its own by its name
const own = Math.random().toString(36).slice(2);
let count = 0;
/** @type {Map<string, (answer: any) => void>} */
const expected = new Map();

if (isFrame) {
  addEventListener("message", ({ source, data }) => {
    if (source !== parent || !expected.has(data.id)) return;
    expected.get(data.id)?.(JSON.parse(data.answer));
    expected.delete(data.id);
  });
}

/** The answer from the kernel. @param {string} asked @param {AbortSignal} signal
 * @returns {Promise<any>} */
export function brought(asked, signal) {
  const id = `${own} ${(count += 1)}`;
  return new Promise((resolve, reject) => {
    expected.set(id, resolve);
    signal.addEventListener("abort", () => {
      expected.delete(id);
      reject(new Error("taken back"));
    });
    parent.postMessage({ id, asked }, "*");
  });
}

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
