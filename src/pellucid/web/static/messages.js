// The texts of the page in the chosen language, from the catalogue of the server or of the file.

import { signal } from "./signal.js";
import { brought, isFile, isFrame, payload } from "./bridge.js";

/** Tags of the languages, as the catalogue has them. */
export const LANGUAGES = ["en", "zh-Hans", "ko", "hi", "es"];
/** The language of the page; all that shows a text reads it. @type {import("./signal.js").Signal<string>} */
export const language = signal("en");
/** @type {Record<string, string | Record<string, string>>} */
let texts = {};
// answers come in English: until another language was spoken, none of their texts is looked up
let isOriginal = true;
let plurals = new Intl.PluralRules("en");
/** @type {Map<string, Intl.NumberFormat>} */
const formats = new Map();

/** Speaks a language from now on. @param {string} tag */
export async function speak(tag) {
  isOriginal = tag === "en" && language.peek() === "en";
  texts = await textsOf(tag);
  plurals = new Intl.PluralRules(tag);
  formats.clear();
  const { documentElement } = document;
  documentElement.lang = tag;
  const locale = /** @type {any} */ (new Intl.Locale(tag));
  documentElement.dir = (locale.getTextInfo?.() ?? locale.textInfo)?.direction ?? "ltr";
  language.set(tag);
}

/** The texts of a language, from the file, the kernel of a notebook or the server. @param {string} tag */
async function textsOf(tag) {
  if (isFile) return (await payload()).texts[tag];
  if (isFrame) return brought(JSON.stringify({ texts: tag }), new AbortController().signal);
  // a page besides the first names the files of its own texts
  const { texts: more } = document.documentElement.dataset;
  const names = [isOriginal ? "words" : "texts", ...(more ? [more] : [])];
  const parts = await Promise.all(names.map(async (name) => (await fetch(`./${name}.${tag}.json`)).json()));
  return Object.assign({}, ...parts);
}

/** Speaks a language, and again when the page is opened the next time. @param {string} tag */
export function keepLanguage(tag) {
  try {
    localStorage.setItem("pellucid-language", tag);
  } catch {
    // a frame of a notebook keeps nothing
  }
  return speak(tag);
}

/** The language of the address, else the one that was chosen before, else the browser's. */
export function preferred() {
  let kept = null;
  try {
    kept = localStorage.getItem("pellucid-language");
  } catch {
    // as above
  }
  const asked = [new URLSearchParams(location.search).get("lang"), kept, ...navigator.languages];
  for (const tag of asked) {
    const primary = tag?.split("-")[0].toLowerCase();
    const found = LANGUAGES.find((each) => each.split("-")[0] === primary);
    if (found) return found;
  }
  return "en";
}

/** A text with its places filled in; the value `n` chooses the plural form.
 * @param {string} key @param {Record<string, any>} [put] @returns {string} */
export function t(key, put = {}) {
  language();
  if (key === "+") return Object.values(put).map((part) => shown(part, "")).join("");
  const found = texts[key];
  if (found === undefined) throw new Error(`there is no message ${key}`);
  const form = typeof found === "string" ? found : (found[plurals.select(Number(put.n))] ?? found.other);
  return form.replace(/\{(\w+)(?::([^}]*))?\}/g, (_, name, format) => shown(put[name], format ?? ""));
}

/** A value in a text: a message in it, a text, or a number in a format of Python. @param {any} value
 * @param {string} format */
function shown(value, format) {
  if (Array.isArray(value)) return t(value[0], value[1]);
  return typeof value === "number" && format ? formatted(value, format) : String(value);
}

/** A number by a format of Python such as ".4f", "+.3g", "," or ".0%". @param {number} value
 * @param {string} format */
export function formatted(value, format) {
  const [, sign, group, digits, kind] = /** @type {string[]} */ (/^(\+?)(,?)(?:\.(\d+))?([fg%e]?)$/.exec(format));
  const places = digits === undefined ? 6 : Number(digits);
  if (kind === "g" || kind === "e") {
    const least = kind === "g" ? general(value, Math.max(1, places)) : value.toExponential(places);
    return (sign && value >= 0 ? "+" : "") + local(least).replace(/-/g, "−");
  }
  const key = `${format}`;
  if (!formats.has(key)) {
    const fixed = kind ? { minimumFractionDigits: places, maximumFractionDigits: places } : {};
    formats.set(key, new Intl.NumberFormat(language.peek(), {
      ...fixed, style: kind === "%" ? "percent" : "decimal", useGrouping: group === ",", signDisplay: sign ? "always" : "auto",
    }));
  }
  return /** @type {Intl.NumberFormat} */ (formats.get(key)).format(value).replace(/-/g, "−");
}

/** As Python writes it in so many significant digits. @param {number} value @param {number} digits */
function general(value, digits) {
  const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < digits) return String(Number(value.toPrecision(digits)));
  return `${Number(mantissa)}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
}

/** Text with numbers in it, with the decimal sign of the language; where that is a comma, a
 * semicolon is between arguments. @param {string} text */
export function local(text) {
  const sign = new Intl.NumberFormat(language()).format(0.5).charAt(1);
  if (sign === ".") return text;
  return text.replace(/, /g, "; ").replace(/(\d)\.(\d)/g, `$1${sign}$2`);
}

/** Puts texts of the catalogue into an answer, in the places that it lists. @template T @param {T} answer
 * @returns {T} */
export function translated(answer) {
  if (isOriginal) return answer;
  for (const [path, key, put] of /** @type {any} */ (answer).messages ?? []) {
    const inside = path.slice(0, -1).reduce((/** @type {any} */ part, /** @type {string | number} */ step) => part[step], answer);
    inside[path[path.length - 1]] = t(key, put);
  }
  return answer;
}
