// A film: what was kept of a sentence while a model was trained, played from memory. What is shown
// is one snapshot; the slider, the play button and the space bar choose which.

import { fill, h, svg, digits, percent, seen } from "./dom.js";
import { css, isDark, shade } from "./colour.js";
import { bytes, floats } from "./asking.js";
import { effect } from "./signal.js";
import { state } from "./state.js";
import { language, t } from "./messages.js";

/** How long a snapshot stays, in milliseconds. */
const PACE = 160;
/** The address is kept once the film rests: browsers refuse to do it for every frame. */
const REST = 250;

/** The film on the page: its snapshots, and those who show one. */
let steps = /** @type {number[]} */ ([]);
let at = 0;
let playing = 0;
let resting = 0;
/** @type {((at: number) => boolean)[]} */
let screens = [];

// a link, or the browser's way back, names a snapshot by its update
effect(() => {
  const shot = state.shot();
  if (steps.length && steps[at] !== shot) show(nearest(shot));
});

/** @param {number} shot */
function nearest(shot) {
  if (shot < 0) return steps.length - 1;
  const found = steps.findIndex((step) => step >= shot);
  return found < 0 ? steps.length - 1 : found;
}

/** @param {number} next */
function show(next) {
  at = next;
  screens = screens.filter((screen) => screen(at));
}

/** What is chosen by hand or played; kept in the address once it rests. @param {number} next */
function turn(next) {
  show(next);
  clearTimeout(resting);
  resting = setTimeout(() => state.shot.set(at === steps.length - 1 ? -1 : steps[at]), REST);
}

function stop() {
  clearInterval(playing);
  playing = 0;
}

/** One thing that shows the snapshot that is chosen, as long as it is on the page.
 * @param {Element} home @param {(at: number) => void} draw */
function screen(home, draw) {
  draw(at);
  let begun = false;
  screens.push((n) => {
    if (begun && !home.isConnected) return false;
    begun ||= home.isConnected;
    draw(n);
    return true;
  });
}

/** @param {any} said @returns {HTMLElement} */
export function film(said) {
  stop();
  screens = [];
  steps = said.steps;
  at = nearest(state.shot.peek());
  const [curves, losses, rungs] = [said.curves, said.losses, said.rungs].map(floats);
  const count = steps.length;
  const curve = (/** @type {number} */ n) => curves.subarray(n * count, (n + 1) * count);
  const body = [controls()];
  if (said.chosen !== null) {
    body.push(
      curved(t("p-of", { token: seen(said.names[said.chosen]) }), curve(said.chosen), 0),
      curved(t("loss"), losses, 1),
      sentence(said.names, curve),
    );
  }
  body.push(ladder(said, rungs));
  return h("figure", { class: "film" }, h("figcaption", {}, h("span", { said: said.title })), body);
}

/** Slider and button. */
function controls() {
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const button = h("button", { type: "button", id: "play", "data-key": "play", onclick: () => (still ? turn((at + 1) % steps.length) : play()) });
  const slider = h("input", {
    type: "range", id: "shot", min: 0, max: steps.length - 1, step: 1, "data-key": "shot", "aria-label": t("shot"),
    oninput: () => { stop(); turn(Number(slider.value)); },
    onkeydown: (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      button.click();
    },
  });
  const out = h("output", { for: "shot", id: "shot-at" });
  const home = h("div", { class: "reel" }, button, h("label", { for: "shot", text: t("shot") }), slider, out);
  screen(home, (n) => {
    slider.value = String(n);
    const told = t("shot-at", { step: steps[n].toLocaleString(language()) });
    slider.setAttribute("aria-valuetext", told);
    fill(out, h("span", { text: told }), h("small", { class: "soft", text: t("shot-of", { n: n + 1, count: steps.length }) }));
    button.textContent = t(still ? "next-shot" : playing ? "stop" : "play");
  });
  return home;
}

/** From the first snapshot where the last one is shown. */
function play() {
  if (playing) {
    stop();
    show(at);
    return;
  }
  playing = setInterval(() => {
    if (!document.getElementById("play")) return stop();
    if (at >= steps.length - 1) stop();
    turn(Math.min(at + 1, steps.length - 1));
  }, PACE);
  turn(at >= steps.length - 1 ? 0 : at);
}

/** A curve over the snapshots, and where the film stands. @param {string} name
 * @param {Float32Array} values @param {number} kind */
function curved(name, values, kind) {
  const most = Math.max(...values, 1e-12);
  const x = (/** @type {number} */ n) => (n / Math.max(1, values.length - 1)) * 100;
  const y = (/** @type {number} */ v) => 29 - (v / most) * 28;
  const cursor = svg("line", { class: "cursor", y1: 0, y2: 30 });
  const line = svg("polyline", { class: `curve curve-${kind}`, points: [...values].map((v, n) => `${x(n).toFixed(2)},${y(v).toFixed(2)}`).join(" ") });
  const drawn = svg("svg", { viewBox: "0 0 100 30", preserveAspectRatio: "none", class: "curves", role: "img", "aria-label": name, translate: "no" }, line, cursor);
  const value = h("b", { class: "number", translate: "no" });
  const home = h("div", { class: "curved" }, h("p", {}, h("span", { translate: "no", text: name }), value), drawn);
  drawn.addEventListener("click", (/** @type {MouseEvent} */ event) => {
    const box = drawn.getBoundingClientRect();
    stop();
    turn(Math.round(((event.clientX - box.left) / box.width) * (values.length - 1)));
  });
  screen(home, (n) => {
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, x(n));
    value.textContent = digits(values[n]);
    value.dataset.value = String(values[n]);
  });
  return home;
}

/** The sentence as the model read it then: the better a token was expected, the darker.
 * @param {string[]} names @param {(n: number) => Float32Array} curve */
function sentence(names, curve) {
  const marks = names.map(() => h("i", { class: "shade" }));
  const numbers = names.map(() => h("span", { class: "number", translate: "no" }));
  const items = names.map((name, n) => h("li", { translate: "no" }, h("span", { class: "piece", said: seen(name) }), marks[n], numbers[n]));
  const home = h("div", {}, h("p", { class: "soft", text: t("sentence-then") }), h("ol", { class: "pieces" }, items));
  const dark = isDark();
  screen(home, (shot) => {
    names.forEach((_, n) => {
      const p = curve(n)[shot];
      marks[n].style.background = css(shade(p, 1, "sequential", dark));
      numbers[n].textContent = digits(p, 2);
    });
  });
  return home;
}

/** What each layer would have said. @param {any} said @param {Float32Array} rungs */
function ladder(said, rungs) {
  const says = rungs.some((_, n) => n % 3 === 0 && !Number.isNaN(rungs[n]));
  const head = h("tr", {}, ["rung", ...(says ? ["rung-says", "rung-p", "rung-came"] : []), "rung-norm"].map((key, n) => h("th", { scope: "col", class: n > 1 || !says ? "number" : null, text: t(key) })));
  const rows = h("tbody", {});
  const home = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": said.title, translate: "no" }, h("table", { class: "rungs" }, h("thead", {}, head), rows));
  const layers = said.layers.length;
  screen(home, (shot) => {
    fill(rows, said.layers.map((/** @type {string} */ layer, /** @type {number} */ n) => {
      const place = shot * layers + n;
      const [p, came, norm] = rungs.subarray(place * 3, place * 3 + 3);
      const cells = says ? [
        h("td", { class: "piece", said: said.words[said.says[place]] }),
        h("td", { class: "number", said: percent(p) }),
        h("td", { class: "number soft", said: Number.isNaN(came) ? "–" : percent(came) }),
      ] : [];
      return h("tr", {}, h("th", { scope: "row", class: "soft", said: layer }), cells, h("td", { class: "number", said: digits(norm, 3) }));
    }));
  });
  return home;
}

/** One head's map, snapshot by snapshot. @param {any} said @returns {HTMLElement} */
export function frames(said) {
  const all = bytes(said.frames);
  const [tall, wide] = [said.rows.length, said.columns.length];
  const canvas = h("canvas", { role: "img", width: wide, height: tall });
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const row = Math.min(Math.floor(state.token.peek() < 0 ? tall - 1 : state.token.peek() / said.patch), tall - 1);
  const rows = h("tbody", {});
  const title = h("p", { class: "soft", translate: "no", text: t("frames-row", { row: seen(said.rows[row]) }) });
  const home = h(
    "figure", { class: "frames" },
    h("figcaption", {}, h("span", { said: said.title }), said.pooled && h("small", { said: said.pooled })),
    h("div", { class: "side-by-side" }, canvas, h("div", {}, title, h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": t("frames-row", { row: seen(said.rows[row]) }), translate: "no" }, h("table", { class: "bars" }, rows)))),
  );
  const dark = isDark();
  screen(home, (shot) => {
    const map = all.subarray(shot * tall * wide, (shot + 1) * tall * wide);
    const image = pen.createImageData(wide, tall);
    map.forEach((value, n) => image.data.set([...shade(value, 255, "sequential", dark), 255], n * 4));
    pen.putImageData(image, 0, 0);
    canvas.setAttribute("aria-label", t("frames-label", { title: said.title, step: t("shot-at", { step: said.steps[shot] }) }));
    fill(rows, said.columns.map((/** @type {string} */ name, /** @type {number} */ c) => {
      const share = map[row * wide + c] / 255;
      return h("tr", {}, h("th", { scope: "row", said: seen(name) }), h("td", { class: "number", said: digits(share, 2) }), h("td", { class: "drawn" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" }, svg("rect", { class: "above", width: share * 100, y: 1, height: 8 }))));
    }));
  });
  return home;
}
