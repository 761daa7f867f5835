// Receipts are recomputed here: a tree of operators and operands in, a number out. This file knows
// arithmetic and no formula of any model.

/** @typedef {{ value: number | string, name?: string, at?: string }} Num */
/** @typedef {{ values: (number | string)[], name?: string, at?: string }} Vec */
/** @typedef {{ op: string, of: Tree[] }} Op */
/** @typedef {Num | Vec | Op} Tree */

const NAMED = { inf: Infinity, "-inf": -Infinity, nan: NaN };

/** A number as JSON brought it. @param {number | string} said @returns {number} */
export function number(said) {
  return typeof said === "number" ? said : NAMED[/** @type {"nan"} */ (said)];
}

/** @type {Record<string, (a: number) => number>} */
const OF_ONE = {
  neg: (a) => -a, exp: Math.exp, log: Math.log, sqrt: Math.sqrt, tanh: Math.tanh, erf,
  sin: Math.sin, cos: Math.cos, step: (a) => (a > 0 ? 1 : 0), bfloat16,
};
/** @type {Record<string, (a: number, b: number) => number>} */
const OF_TWO = {
  add: (a, b) => a + b, sub: (a, b) => a - b, mul: (a, b) => a * b, div: (a, b) => a / b,
  pow: Math.pow,
};

/** What a tree comes to, in float64. @param {Tree} tree @returns {number} */
export function value(tree) {
  if ("value" in tree) return number(tree.value);
  if ("values" in tree) throw new Error("a vector has no single value");
  const { op, of } = tree;
  if (op === "dot") return sum(row(of[0]).map((a, i) => a * row(of[1])[i]));
  if (op === "sum" || op === "max" || op === "min") {
    const terms = of.length === 1 && "values" in of[0] ? row(of[0]) : of.map(value);
    if (op === "sum") return sum(terms);
    return terms.reduce((a, b) => (op === "max" ? Math.max(a, b) : Math.min(a, b)));
  }
  if (of.length === 1 && op in OF_ONE) return OF_ONE[op](value(of[0]));
  if (of.length === 2 && op in OF_TWO) return OF_TWO[op](value(of[0]), value(of[1]));
  throw new Error(`${op} does not take these arguments`);
}

/** @param {Tree} tree @returns {number[]} */
function row(tree) {
  if (!("values" in tree)) throw new Error("dot takes two vectors");
  return tree.values.map(number);
}

/** A sum that carries what rounding loses (Neumaier). @param {number[]} terms */
function sum(terms) {
  let total = 0;
  let lost = 0;
  for (const term of terms) {
    const next = total + term;
    if (!Number.isFinite(next)) return terms.reduce((a, b) => a + b, 0);
    lost += Math.abs(total) >= Math.abs(term) ? total - next + term : term - next + total;
    total = next;
  }
  return total + lost;
}

/** The nearest number with 8 binary digits; of two that are as near, the even one.
 * @param {number} x */
function bfloat16(x) {
  if (x === 0 || !Number.isFinite(x)) return x;
  const unit = 2 ** (Math.floor(Math.log2(Math.abs(x))) - 7);
  const low = Math.floor(x / unit);
  const part = x / unit - low;
  return (low + (part > 0.5 || (part === 0.5 && low % 2 !== 0) ? 1 : 0)) * unit;
}

/** The error function in float64: its series near 0, its continued fraction beyond.
 * @param {number} x */
export function erf(x) {
  const z = Math.abs(x);
  if (z > 6) return Math.sign(x);
  if (z < 2.5) {
    let term = z;
    let total = z;
    for (let n = 1; Math.abs(term) > 1e-18 * total && n < 200; n += 1) {
      term *= (-z * z) / n;
      total += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * total) / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let k = 80; k > 0; k -= 1) fraction = k / 2 / (z + fraction);
  return Math.sign(x) * (1 - Math.exp(-z * z) / (Math.sqrt(Math.PI) * (z + fraction)));
}

/** Every named operand of a tree, once. @param {Tree} tree @returns {(Num | Vec)[]} */
export function operands(tree) {
  /** @type {Map<string, Num | Vec>} */
  const found = new Map();
  /** @param {Tree} each */
  const walk = (each) => {
    if ("op" in each) each.of.forEach(walk);
    else if (each.name || each.at) found.set(`${each.name ?? ""} ${each.at ?? ""}`, each);
  };
  walk(tree);
  return [...found.values()];
}
