// The column that is always there: what comes next, what each layer would say, what a head changes.

import { announce, fill, h, svg, digits, percent, seen } from "./dom.js";
import { distribution, drawnFrom } from "./sampling.js";
import { attention, chosenHead, headName, scaleOf, scales, setScale, state } from "./state.js";
import { isFile } from "./bridge.js";
import { local, t } from "./messages.js";

const SHOWN = 10;
/** @type {any} */
let last = null;

/** @param {Element} home @param {any} said what the server says @param {any} seenAs the overview */
export function prediction(home, said, seenAs) {
  const piece = seen(seenAs.pieces[said.token]);
  if (!said.likely.length) {
    fill(home, h("h2", { text: t("prediction") }), h("p", { class: "soft", text: t("no-prediction") }), head(seenAs));
    return;
  }
  const found = distribution(said, state.temperature(), state.k(), state.p());
  fill(
    home,
    h("h2", {}, t("prediction"), " ", h("span", { class: "after", translate: "no", text: t("after", { token: piece }) })),
    list(found.tokens, said.target?.id),
    said.target && h("p", { class: "came", translate: "no", text: t("came", { token: seen(said.target.text), p: percent(said.target.p), rank: said.target.rank }) }),
    h("p", { class: "soft", text: t("entropy", { bits: digits(said.entropy / Math.LN2, 3), most: digits(Math.log2(said.vocabulary), 3) }) }),
    sliders(said),
    h("p", { class: "soft cut", text: cut(found, said) }),
    draw(found.tokens),
    head(seenAs),
    said.changed && changed(said.changed),
    ladder(said),
  );
}

/** The likeliest few in a line, where the column has no room beside the chapter.
 * @param {Element} home @param {any} said @param {any} seenAs */
export function glance(home, said, seenAs) {
  if (!said.likely.length) return fill(home);
  const { tokens } = distribution(said, state.temperature(), state.k(), state.p());
  const first = tokens.slice(0, 3).map((token) => h("span", { translate: "no" }, h("b", { text: seen(token.text) }), " ", percent(token.kept)));
  const label = t("glance");
  fill(home, h("a", { href: "#prediction", "aria-label": label, onclick: (/** @type {Event} */ event) => {
    event.preventDefault();
    document.getElementById("prediction")?.scrollIntoView();
  } }, h("span", { class: "soft", translate: "no", text: t("after", { token: seen(seenAs.pieces[said.token]) }) }), first));
}

/** @param {import("./sampling.js").Token[]} tokens @param {number | undefined} target */
function list(tokens, target) {
  const most = Math.max(tokens[0].kept, tokens[0].p, 1e-12);
  const rows = tokens.slice(0, SHOWN).map((token) =>
    h(
      "tr", { class: `${token.kept === 0 ? "cut-off" : ""}${token.id === target ? " target" : ""}` },
      h("th", { scope: "row", said: seen(token.text), "data-id": token.id }),
      h("td", { class: "drawn" }, svg("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", class: "bar", "aria-hidden": "true" }, svg("rect", { class: "ghost", width: (token.p / most) * 100, y: 1, height: 8 }), svg("rect", { class: "above", width: (token.kept / most) * 100, y: 1, height: 8 }))),
      h("td", { class: "number", said: percent(token.kept), "data-p": token.kept }),
    ),
  );
  const titles = h("tr", { class: "unseen" }, h("th", { scope: "col", text: t("token") }), h("td", {}), h("th", { scope: "col", text: t("probability") }));
  return h("table", { class: "bars likely" }, h("thead", {}, titles), h("tbody", {}, rows));
}

/** @param {any} said */
function sliders(said) {
  const most = Math.min(100, said.vocabulary);
  return h(
    "div", { class: "sliders" },
    slider("temperature", "temperature", { min: 0, max: 2, step: 0.05 }, (v) => digits(v, 2)),
    slider("k", "top-k", { min: 0, max: most, step: 1 }, (v) => (v === 0 ? t("off") : String(v))),
    slider("p", "top-p", { min: 0.05, max: 1, step: 0.01 }, (v) => (v === 1 ? t("off") : digits(v, 2))),
  );
}

/** @param {string} name @param {string} key @param {any} range @param {(v: number) => string} told */
function slider(name, key, range, told) {
  const value = state[name]();
  const input = h("input", {
    type: "range", id: `slider-${name}`, ...range, "data-key": `slider ${name}`, "aria-valuetext": told(value),
    oninput: () => state[name].set(Number(input.value)),
  });
  input.value = String(value);
  return [h("label", { for: `slider-${name}`, text: t(key) }), input, h("output", { for: `slider-${name}`, said: told(value) })];
}

/** @param {ReturnType<typeof distribution>} found @param {any} said */
function cut(found, said) {
  if (state.temperature() === 0) return t("cut-greedy");
  if (found.keptCount >= said.vocabulary) return t("cut-none", { n: said.vocabulary });
  return t("cut", { mass: percent(found.cut), n: found.keptCount });
}

/** @param {import("./sampling.js").Token[]} tokens */
function draw(tokens) {
  const out = h("output", { class: "drawn-token", translate: "no", text: last ?? "" });
  const button = h("button", {
    type: "button", text: t("draw"), "data-key": "draw",
    onclick: () => {
      const u = crypto.getRandomValues(new Uint32Array(1))[0] / 2 ** 32;
      const token = drawnFrom(tokens, u);
      last = token ? t("drawn", { u: local(u.toFixed(4)), token: seen(token.text) }) : t("drawn-bins", { u: local(u.toFixed(4)), n: tokens.length });
      out.textContent = last;
      announce(last);
    },
  });
  return h("p", { class: "draw" }, button, out);
}

/** Forget what was drawn: it was drawn from another distribution. */
export function forgetDrawn() {
  last = null;
}

/** @param {any} said */
function ladder(said) {
  if (!said.lens.length) return null;
  const target = said.target;
  const rows = said.lens.map((/** @type {any} */ each, /** @type {number} */ n) =>
    h(
      "tr", { class: n === state.layer() + 1 ? "chosen" : null },
      h("th", { scope: "row", class: "soft", translate: "no", text: n === 0 ? t("ladder-start") : t("ladder-after", { n: n - 1 }) }),
      h("td", { class: "piece", said: seen(each.text) }),
      h("td", { class: "number", said: percent(each.p) }),
      target && h("td", { class: "number soft", said: percent(each.target.p) }),
    ),
  );
  const titles = h("tr", {}, h("th", { scope: "col", text: t("layer", { n: "" }).trim() }), h("th", { scope: "col", text: t("ladder-says") }), h("th", { scope: "col", class: "number", text: t("probability") }), target && h("th", { scope: "col", class: "number", translate: "no", text: t("ladder-target", { token: seen(target.text) }) }));
  return h("section", { class: "ladder" }, h("h3", { text: t("ladder") }), h("p", { class: "soft", text: t("ladder-hint") }), h("table", {}, h("thead", {}, titles), h("tbody", {}, rows)));
}

/** The chosen head, and how much it counts. @param {any} seenAs */
function head(seenAs) {
  if (isFile || !attention(seenAs)?.layers[state.layer()]?.heads) return null;
  const name = chosenHead();
  const by = scaleOf(name);
  const input = h("input", {
    type: "range", id: "slider-scale", min: 0, max: 2, step: 0.1, "data-key": "slider scale", "aria-valuetext": String(by),
    onchange: () => setScale(name, Number(input.value)),
    oninput: () => (input.nextElementSibling.textContent = `×${input.value}`),
  });
  input.value = String(by === "mean" ? 1 : by);
  const all = scales();
  const shown = (/** @type {number | "mean"} */ each) => (each === "mean" ? t("mean") : `×${digits(each, 1)}`);
  return h(
    "section", { class: "scale" },
    h("h3", { translate: "no", text: t("head", { head: name }) }),
    h("p", { class: "soft", text: t("head-hint") }),
    h("div", { class: "sliders" }, h("label", { for: "slider-scale", text: t("counts") }), input, h("output", { for: "slider-scale", text: shown(by), translate: "no" })),
    h(
      "p", { class: "buttons" },
      h("button", { type: "button", "data-key": "ablate", text: t(by === 0 ? "put-back" : "take-away"), onclick: () => setScale(name, by === 0 ? 1 : 0) }),
      h("button", { type: "button", "data-key": "mean", text: t(by === "mean" ? "put-back" : "put-mean"), onclick: () => setScale(name, by === "mean" ? 1 : "mean") }),
      all.length > 0 && h("button", { type: "button", class: "quiet", "data-key": "put back", text: t("put-all-back"), onclick: () => state.scales.set("") }),
    ),
    all.length > 0 && h("p", { class: "soft", translate: "no", text: t("scaled-list", { heads: all.map((s) => `${headName(s.stack, s.layer, s.head, s.cross)} ${shown(s.by)}`).join(", ") }) }),
  );
}

/** @param {any} said */
function changed(said) {
  const title = h("h3", { text: t(state.versus() ? "against" : "changed") });
  if (said.kl === null) return h("section", { class: "changed" }, title, h("p", { class: "soft", said: said.why }));
  const rows = said.rows.map((/** @type {any} */ [id, text, before, now]) =>
    h("tr", {}, h("th", { scope: "row", said: seen(text), "data-id": id }), h("td", { class: "number soft", said: percent(before) }), h("td", { class: "number", said: percent(now) }), h("td", { class: `number ${now < before ? "below" : "above"}`, said: `${now < before ? "−" : "+"}${local((Math.abs(now - before) * 100).toFixed(2))}` })),
  );
  const titles = h("tr", {}, ["token", "before", "now", "difference"].map((key, n) => h("th", { scope: "col", class: n ? "number" : null, text: t(key) })));
  return h(
    "section", { class: "changed" },
    title,
    h("p", { "data-kl": said.kl / Math.LN2, text: t("kl", { kl: digits(said.kl / Math.LN2, 4) }) }),
    h("table", {}, h("thead", {}, titles), h("tbody", {}, rows)),
  );
}
