// A value that tells those who read it when it changes. Effects run once for many changes, in the
// order in which they were made.

/** @template T @typedef {{ (): T, set(value: T): void, peek(): T }} Signal */

/** @type {(() => void) | null} */
let running = null;
/** @type {Set<() => void>} */
const due = new Set();
let order = 0;
/** @type {WeakMap<() => void, number>} */
const born = new WeakMap();

/** @template T @param {T} value @returns {Signal<T>} */
export function signal(value) {
  /** @type {Set<() => void>} */
  const readers = new Set();
  const read = () => {
    if (running) readers.add(running);
    return value;
  };
  return Object.assign(read, {
    peek: () => value,
    /** @param {T} next */
    set(next) {
      if (Object.is(next, value)) return;
      value = next;
      if (!due.size) queueMicrotask(settle);
      for (const reader of readers) due.add(reader);
    },
  });
}

/** Runs now, and again whenever a signal changes that it read. @param {() => void} work */
export function effect(work) {
  const run = () => {
    const outer = running;
    running = run;
    try {
      work();
    } finally {
      running = outer;
    }
  };
  born.set(run, order++);
  run();
}

function settle() {
  const now = [...due].sort((a, b) => (born.get(a) ?? 0) - (born.get(b) ?? 0));
  due.clear();
  for (const run of now) run();
}
