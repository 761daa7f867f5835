// A formula as MathML, which browsers set and screen readers read. Its text has few forms: names,
// numbers, brackets, bars, products, sums, fractions, roots and functions.

const MATH = "http://www.w3.org/1998/Math/MathML";
const TOKEN = /(\s*)(\d+(?:\.\d+)?|[\p{L}][\p{L}\p{M}\d']*(?:_[\p{L}\d]+)?[₀-₉]*[⁰-⁹ᵗ²³]*(?:\[[^\]]*\])?|[²³]|\S)/gu;
const CLOSES = /** @type {Record<string, string>} */ ({ "(": ")", "[": "]", "{": "}", "|": "|", "‖": "‖" });
const BETWEEN = new Set(["+", "-", "−", "±", "=", ",", ";", "<", ">", "≤"]);
const TIMES = new Set(["×", "·", "*"]);
/** What stands before the number that it is of. */
const SUMS = new Set(["Σ", "∏"]);
const BEFORE = new Set([...SUMS, "log", "exp", "cos", "sin", "max", "min"]);
const SMALL = "₀₁₂₃₄₅₆₇₈₉";
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

/** @typedef {{ text: string, glued: boolean }} Token */

/** @param {string} text @returns {Element} */
export function formula(text) {
  const tokens = [...text.matchAll(TOKEN)].map((found) => ({ text: found[2], glued: found[1] === "" && found.index > 0 }));
  const made = math("math", ...sums(tokens, ""));
  made.setAttribute("alttext", text);
  return made;
}

/** @param {string} tag @param {...(Node | string)} children */
function math(tag, ...children) {
  const made = document.createElementNS(MATH, tag);
  made.append(...children);
  return made;
}

/** @param {Element[]} parts */
function row(parts) {
  return parts.length === 1 ? parts[0] : math("mrow", ...parts);
}

/** Terms and what stands between them, up to a bracket that closes. @param {Token[]} tokens
 * @param {string} end @returns {Element[]} */
function sums(tokens, end) {
  /** @type {Element[]} */
  const parts = [];
  while (tokens.length && tokens[0].text !== end) {
    if (BETWEEN.has(tokens[0].text)) parts.push(math("mo", minus(next(tokens))));
    else parts.push(...products(tokens, end));
  }
  return parts;
}

/** Factors; a fraction has the factor before the line and the one behind it. @param {Token[]} tokens
 * @param {string} end */
function products(tokens, end) {
  const parts = [...total(tokens), factor(tokens)];
  while (tokens.length && tokens[0].text !== end && !BETWEEN.has(tokens[0].text)) {
    const { text, glued } = tokens[0];
    if (text === "/" && tokens.length > 1) {
      next(tokens);
      parts.push(math("mfrac", bare(/** @type {Element} */ (parts.pop())), bare(factor(tokens))));
    } else if (text === "²" || text === "³") {
      next(tokens);
      parts.push(math("msup", /** @type {Element} */ (parts.pop()), math("mn", text === "²" ? "2" : "3")));
    } else if (TIMES.has(text) && tokens.length > 1) parts.push(math("mo", next(tokens)), ...total(tokens), factor(tokens));
    else {
      if (!glued) parts.push(space());
      parts.push(...total(tokens), factor(tokens));
    }
  }
  return parts;
}

/** The sign of a sum before a factor: it is of a whole fraction. @param {Token[]} tokens */
function total(tokens) {
  return tokens.length > 1 && SUMS.has(tokens[0].text) ? [math("mo", next(tokens)), space()] : [];
}

/** @param {Token[]} tokens @returns {Element} */
function factor(tokens) {
  const text = next(tokens);
  const follows = tokens[0];
  if (text === "-" || text === "−") return follows ? row([math("mo", "−"), factor(tokens)]) : math("mo", "−");
  if (text === "√" && follows) return math("msqrt", bare(factor(tokens)));
  if (text in CLOSES) return bracket(text, tokens);
  if (/^\d/.test(text)) return follows?.glued && /^\p{L}/u.test(follows.text) ? row([math("mn", text), factor(tokens)]) : math("mn", text);
  if (!/^\p{L}/u.test(text)) return math("mo", text);
  if (follows?.glued && follows.text === "(") return row([name(text), bracket(next(tokens), tokens)]);
  if (BEFORE.has(text) && follows && !BETWEEN.has(follows.text)) return row([name(text), space(), factor(tokens)]);
  return name(text);
}

/** @param {string} opens @param {Token[]} tokens */
function bracket(opens, tokens) {
  const closes = CLOSES[opens];
  const within = sums(tokens, closes);
  if (tokens.length) next(tokens);
  const made = math("mrow", math("mo", opens), ...within, math("mo", closes));
  if (opens === "(") made.setAttribute("data-bare", "");
  return made;
}

/** Without the brackets, which a fraction or a root makes needless. @param {Element} made */
function bare(made) {
  return made.hasAttribute("data-bare") ? math("mrow", ...[...made.children].slice(1, -1)) : made;
}

/** A name with its index below and its power above. @param {string} text */
function name(text) {
  const [, base, below, digits, above] = /** @type {RegExpExecArray} */ (/^(.*?)(?:_([\p{L}\d]+))?([₀-₉]*)([⁰-⁹ᵗ²³]*)$/u.exec(text));
  let made = math(/^(Σ|∏)$/.test(base) ? "mo" : "mi", base);
  const index = below ?? plain(digits, SMALL);
  if (index) made = math("msub", made, math(/^\d/.test(index) ? "mn" : "mi", index));
  if (above) made = math("msup", made, math(above === "ᵗ" ? "mi" : "mn", above === "ᵗ" ? "t" : plain(above, RAISED)));
  return made;
}

/** @param {string} text @param {string} signs */
function plain(text, signs) {
  return [...text].map((sign) => signs.indexOf(sign)).join("");
}

function space() {
  const made = math("mspace");
  made.setAttribute("width", "0.3em");
  return made;
}

/** @param {string} text */
function minus(text) {
  return text === "-" ? "−" : text;
}

/** @param {Token[]} tokens */
function next(tokens) {
  return /** @type {Token} */ (tokens.shift()).text;
}
