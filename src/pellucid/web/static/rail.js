// The rail: every layer with a small map of every head, and how long the residual stream is there.

import { fill, h, svg, digits } from "./dom.js";
import { css, isDark, shade } from "./colour.js";
import { ask, bytes, question } from "./asking.js";
import { attention, choose, headName, scaleOf, state } from "./state.js";
import { t } from "./messages.js";

/** @param {Element} home @param {any} seenAs the overview @param {any} back what came back, or null */
export function rail(home, seenAs, back) {
  const many = seenAs.stacks.length > 1;
  const long = Math.max(seenAs.pieces.length, seenAs.spare.length) > seenAs.side;
  const name = (/** @type {any} */ stack) => t(stack.cross ? "cross" : stack.name);
  fill(
    home,
    h("h2", { text: t("layers") }),
    h("p", { class: "soft", text: t(back ? "layers-hint-back" : "layers-hint") }),
    long && h("p", { class: "soft", text: t("layers-pooled", { side: seenAs.side }) }),
    seenAs.stacks.map((/** @type {any} */ stack) => [
      many && h("h3", { text: name(stack) }),
      h(
        "div", { role: "grid", class: "layers", "aria-label": many ? name(stack) : t("layers"), onkeydown: (/** @type {KeyboardEvent} */ event) => walk(event, seenAs) },
        // the stream of the decoder is one, however it looks at the encoder: its gradients stand once
        stack.layers.map((/** @type {any} */ layer, /** @type {number} */ n) => row(stack, layer, n, stack.cross ? undefined : back?.stacks[stack.name])),
      ),
    ]),
  );
}

/** @param {any} stack @param {any} layer @param {number} n
 * @param {number[] | undefined} grads how long the gradients are before each layer and at last */
function row(stack, layer, n, grads) {
  const here = isHere(stack) && state.layer() === n;
  const most = Math.max(...stack.norms);
  const heads = Array.from({ length: Math.max(1, layer.heads) }, (_, head) => thumbnail(stack, layer, n, head));
  const norm = stack.norms[n + 1];
  const bar = svg("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", class: "norm", "aria-hidden": "true" }, svg("rect", { width: (norm / most) * 100, height: 4 }));
  const told = [t("norm", { norm: digits(norm, 3) })];
  if (grads) told.push(t("gradient", { norm: digits(grads[n + 1], 3) }));
  return h(
    "div", { role: "row", class: `layer${here ? " chosen" : ""}` },
    h("span", { role: "rowheader", class: "name", title: told.join(", "), "aria-label": [t("layer", { n }), ...told].join(", ") }, h("b", { said: `${stack.name === "encoder" ? "E" : "L"}${n}` }), bar, grads && backwards(grads[n + 1], Math.max(...grads))),
    h("span", { class: `heads${layer.heads > 8 ? " many" : ""}`, role: "presentation" }, heads),
  );
}

/** A bar from the right to the left, as the gradient comes. @param {number} norm @param {number} most */
function backwards(norm, most) {
  const width = most > 0 ? (norm / most) * 100 : 0;
  return svg("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", class: "norm gradient", "aria-hidden": "true", "data-gradient": norm }, svg("rect", { x: 100 - width, width, height: 4 }));
}

/** @param {any} stack */
const isHere = (stack) => state.stack() === stack.name && (state.cross() === 1) === stack.cross;

/** @param {any} stack @param {any} layer @param {number} n @param {number} head */
function thumbnail(stack, layer, n, head) {
  const chosen = isHere(stack) && state.layer() === n && state.head() === head;
  const name = headName(stack.name, n, head, stack.cross);
  const by = scaleOf(name);
  const plain = t(layer.heads ? "head-label" : "head-without-map", { layer: n, head });
  const now = by === 0 ? t("head-gone") : by === "mean" ? t("head-mean") : t("head-scaled", { by });
  const said = by === 1 ? plain : `${plain}, ${now}`;
  const canvas = h("canvas", { "aria-hidden": "true" });
  if (layer.thumbnails) paint(canvas, layer.thumbnails, head);
  else if (layer.heads) later(canvas, stack, layer, n, head);
  return h(
    "span", { role: "gridcell" },
    h(
      "button",
      {
        type: "button", class: `head${by === 0 ? " gone" : by === 1 ? "" : " scaled"}`, "aria-label": said, title: said,
        "aria-pressed": chosen ? "true" : "false", tabindex: chosen ? 0 : -1,
        "data-key": `head ${name}`, "data-head": name,
        onclick: () => choose({ stack: stack.name, cross: Number(stack.cross), layer: n, head }),
      },
      layer.heads ? canvas : h("span", { class: "soft", text: t("no-heads") }),
    ),
  );
}

/** @param {HTMLCanvasElement} canvas @param {any} maps @param {number} head */
function paint(canvas, maps, head) {
  const [, tall, wide] = maps.shape;
  const values = bytes(maps.data).subarray(head * tall * wide, (head + 1) * tall * wide);
  canvas.width = wide;
  canvas.height = tall;
  const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  const image = pen.createImageData(wide, tall);
  const dark = isDark();
  values.forEach((value, n) => image.data.set([...shade(value, 255, "sequential", dark), 255], n * 4));
  pen.putImageData(image, 0, 0);
}

/** Maps that are asked for when they come into view. @param {HTMLCanvasElement} canvas
 * @param {any} stack @param {any} layer @param {number} n @param {number} head */
function later(canvas, stack, layer, n, head) {
  const watch = new IntersectionObserver(async (found) => {
    if (!found.some((each) => each.isIntersecting)) return;
    watch.disconnect();
    const asked = question("thumbnails", { place: { stack: stack.name, cross: stack.cross, layer: n } });
    layer.asked ??= ask(asked, `thumbnails ${stack.name} ${stack.cross} ${n}`).catch(() => null);
    const answer = await layer.asked;
    if (answer?.thumbnails) paint(canvas, (layer.thumbnails = answer.thumbnails), head);
  });
  watch.observe(canvas);
}

/** Arrow keys within the grid. @param {KeyboardEvent} event @param {any} seenAs */
function walk(event, seenAs) {
  const steps = /** @type {Record<string, [number, number]>} */ ({ ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] });
  if (!(event.key in steps)) return;
  event.preventDefault();
  event.stopPropagation();
  move(seenAs, ...steps[event.key]);
  requestAnimationFrame(() => /** @type {HTMLElement | null} */ (document.querySelector('.head[aria-pressed="true"]'))?.focus());
}

/** Chooses a layer or a head beside the one that is chosen. @param {any} seenAs
 * @param {number} layers @param {number} heads */
export function move(seenAs, layers, heads) {
  const stack = attention(seenAs) ?? seenAs.stacks[0];
  const layer = Math.min(Math.max(state.layer() + layers, 0), stack.layers.length - 1);
  const count = Math.max(1, stack.layers[layer].heads);
  const head = Math.min(Math.max(state.head() + heads, 0), count - 1);
  choose({ stack: stack.name, cross: Number(stack.cross), layer, head });
}
