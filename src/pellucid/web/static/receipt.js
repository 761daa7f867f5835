// A receipt: a formula with its operands put in, recomputed here, beside the model's number.

import { announce, ended, h, seen, significant } from "./dom.js";
import { number, operands, value } from "./expression.js";
import { formula } from "./mathml.js";
import { local, t } from "./messages.js";

/** @param {any} said @returns {HTMLElement} */
export function receipt(said) {
  const model = number(said.model);
  const found = recomputed(said.expression);
  const gap = found === null ? NaN : Math.abs(found - model);
  const allowed = said.tolerance * Math.max(1, Math.abs(model));
  const same = found !== null && (gap <= allowed || Object.is(found, model));
  return h(
    "article",
    { class: `receipt ${same ? "agrees" : "differs"}`, "data-address": said.address },
    h("h3", { said: said.title }),
    h("p", { class: "formula", translate: "no" }, formula(said.formula)),
    h("p", { class: "with-operands", translate: "no" }, h("span", { class: "unseen", text: t("with-operands") }), "= ", spelled(said.spelled)),
    h(
      "dl", { class: "weighed" },
      pair("recomputed", found === null ? "–" : ended(found, said.places), "found", found),
      pair("the-model", ended(model, said.places), "model", model),
      pair("difference", gap === 0 ? "0" : Number.isFinite(gap) ? local(gap.toExponential(1)).replace(/-/g, "−") : "–", "gap", gap),
    ),
    h("p", { class: "verdict" }, h("span", { "aria-hidden": "true", text: same ? "✓" : "≠" }), verdict(said, found, same, allowed)),
    h(
      "p", { class: "where" },
      h("code", { said: `trace["${said.address.replace(/(\[.*)$/, "")}"]${/\[.*$/.exec(said.address)?.[0] ?? ""}` }),
      h("button", {
        type: "button", class: "quiet", text: t("copy"), "data-key": `copy ${said.address}`,
        "aria-label": t("copy-address", { address: said.address }), onclick: () => copy(said.address),
      }),
      said.source && h("span", { class: "source" }, t("source"), " ", h("code", { said: said.source })),
    ),
    listed(said.expression, said.digits),
  );
}

/** A receipt's operands in the page's language; long sums have their later terms as one number.
 * @param {string} text */
function spelled(text) {
  return local(text).replace(/([\d,]+) more\b/g, (_, count) => t("more-terms", { count })).replace(/-/g, "−");
}

/** @param {any} said @param {number | null} found @param {boolean} same @param {number} allowed */
function verdict(said, found, same, allowed) {
  if (found === null) return t("cannot-recompute");
  if (same) return t("agrees", { tolerance: allowed.toExponential(0).replace(/-/g, "−") });
  return said.dtype === "float32" ? t("differs") : t("differs-dtype", { dtype: said.dtype });
}

/** @param {any} tree */
function recomputed(tree) {
  try {
    return value(tree);
  } catch {
    return null;
  }
}

/** @param {string} key @param {string} text @param {string} name @param {number | null} exact */
function pair(key, text, name, exact) {
  return h("div", {}, h("dt", { text: t(key) }), h("dd", { class: "number", said: text, "data-number": name, "data-exact": exact }));
}

/** @param {string} address */
function copy(address) {
  const [, name, index] = /** @type {RegExpExecArray} */ (/^([^[]*)(.*)$/s.exec(address));
  const text = `trace["${name}"]${index}`;
  const done = () => announce(t("copied", { address: text }));
  const failed = () => announce(t("not-copied", { address: text }));
  if (!navigator.clipboard) failed();
  else navigator.clipboard.writeText(text).then(done, failed);
}

/** @param {any} tree @param {number} digits */
function listed(tree, digits) {
  const found = operands(tree);
  if (!found.length) return null;
  const head = h("tr", {}, ["operand", "value", "address"].map((key) => h("th", { scope: "col", text: t(key) })));
  const rows = found.map((each) =>
    h(
      "tr", {}, h("th", { scope: "row", said: seen(each.name || each.at || "") }),
      h("td", { class: "number", said: "values" in each ? each.values.map((v) => significant(number(v), digits)).join("  ") : significant(number(each.value), digits) }),
      h("td", {}, h("code", { said: each.at ?? "" })),
    ),
  );
  return h("details", { class: "as-table" }, h("summary", { text: t("operands") }), h("div", { class: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, rows))));
}
