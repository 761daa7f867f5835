// In a notebook the page lives in a frame without an address. The cell around it brings questions to
// the kernel, and answers back.

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
