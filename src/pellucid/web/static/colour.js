// Colours of data: made in OKLCH, so that equal steps of a number look equal, and in blue against
// orange, which eyes of every kind tell apart. They follow the theme.

import { effect, signal } from "./signal.js";

const asked = matchMedia("(prefers-color-scheme: dark)");
/** @type {import("./signal.js").Signal<string>} "auto", "light" or "dark" */
export const theme = signal(kept());
const system = signal(asked.matches);
asked.addEventListener("change", () => system.set(asked.matches));

/** Whether the page is dark now. */
export const isDark = () => (theme() === "auto" ? system() : theme() === "dark");

effect(() => {
  document.documentElement.dataset.theme = theme();
  try {
    localStorage.setItem("pellucid-theme", theme());
  } catch {
    // a frame of a notebook keeps nothing
  }
});

function kept() {
  try {
    const said = localStorage.getItem("pellucid-theme");
    return said === "light" || said === "dark" ? said : "auto";
  } catch {
    return "auto";
  }
}

// lightness, chroma, hue of each stop
const LIGHT = {
  sequential: [[0.975, 0.004, 240], [0.86, 0.06, 220], [0.68, 0.11, 230], [0.48, 0.13, 255], [0.28, 0.11, 275]],
  above: [[0.965, 0.004, 250], [0.8, 0.09, 245], [0.58, 0.15, 255], [0.36, 0.15, 265]],
  below: [[0.965, 0.004, 250], [0.85, 0.09, 70], [0.67, 0.15, 52], [0.45, 0.13, 38]],
  hidden: [0.952, 0.004, 250],
};
const DARK = {
  sequential: [[0.235, 0.015, 265], [0.36, 0.08, 265], [0.52, 0.12, 250], [0.72, 0.12, 225], [0.94, 0.06, 200]],
  above: [[0.235, 0.012, 265], [0.4, 0.1, 260], [0.6, 0.14, 250], [0.84, 0.09, 235]],
  below: [[0.235, 0.012, 265], [0.42, 0.09, 50], [0.65, 0.14, 58], [0.88, 0.1, 80]],
  hidden: [0.195, 0.012, 265],
};

/** @typedef {[number, number, number]} Rgb */
/** @type {Map<string, Rgb[]>} */
const made = new Map();

/** 256 colours of a map. @param {"sequential" | "below" | "above"} name @param {boolean} dark */
function table(name, dark) {
  const key = name + dark;
  const found = made.get(key);
  if (found) return found;
  const stops = (dark ? DARK : LIGHT)[name];
  const colours = Array.from({ length: 256 }, (_, n) => {
    const at = (n / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    const [a, b] = [lab(stops[low]), lab(stops[low + 1])];
    return rgb(a.map((from, i) => from + (b[i] - from) * (at - low)));
  });
  made.set(key, colours);
  return colours;
}

/** A shade for a number: from 0 to `most`, or both ways from 0. @param {number} value
 * @param {number} most @param {"sequential" | "diverging"} scale @param {boolean} dark
 * @returns {Rgb} */
export function shade(value, most, scale, dark) {
  if (Number.isNaN(value)) return rgb(lab((dark ? DARK : LIGHT).hidden));
  const share = Math.min(1, Math.abs(value) / (most || 1));
  const name = scale === "sequential" ? "sequential" : value < 0 ? "below" : "above";
  return table(name, dark)[Math.round(share * 255)];
}

/** @param {Rgb} colour */
export const css = (colour) => `rgb(${colour.join(" ")})`;

/** Whether black reads better on it than white. @param {Rgb} colour */
export const isPale = ([r, g, b]) =>
  0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b) > 0.179;

/** @param {number} part of 255 */
const linear = (part) => (part <= 10 ? part / 3294.6 : ((part / 255 + 0.055) / 1.055) ** 2.4);

/** @param {number[]} lch @returns {number[]} */
function lab([l, c, h]) {
  const turn = (h * Math.PI) / 180;
  return [l, c * Math.cos(turn), c * Math.sin(turn)];
}

/** OKLab to sRGB. @param {number[]} lab @returns {Rgb} */
function rgb([L, a, b]) {
  const l = (L + 0.3963377774 * a + 0.2158037573 * b) ** 3;
  const m = (L - 0.1055613458 * a - 0.0638541728 * b) ** 3;
  const s = (L - 0.0894841775 * a - 1.291485548 * b) ** 3;
  const linear = [
    4.0767416621 * l - 3.3077115913 * m + 0.2309699292 * s,
    -1.2684380046 * l + 2.6097574011 * m - 0.3413193965 * s,
    -0.0041960863 * l - 0.7034186147 * m + 1.707614701 * s,
  ];
  return /** @type {Rgb} */ (
    linear.map((x) => {
      const y = x <= 0.0031308 ? 12.92 * x : 1.055 * Math.max(x, 0) ** (1 / 2.4) - 0.055;
      return Math.round(Math.min(1, Math.max(0, y)) * 255);
    })
  );
}
