/**
 * Colors of numbers and of categories, for the light and the dark theme. Lightness encodes the magnitude in each
 * ramp, so magnitudes can be read without hue. The diverging ramp runs from orange to blue, which people with color
 * vision deficiencies can distinguish. The category colors, in `style.css`, follow those of Okabe and Ito; categories also
 * differ in a letter, a shape or their position.
 */

import { stored } from "./client.js";

const { interpolateLab, lab, piecewise, rgb } = globalThis.d3;

const RAMPS = {
  light: table(["#f7fafc", "#c3dcec", "#6aa9d0", "#2567a0", "#08306b"]),
  dark: table(["#171c23", "#1d3f63", "#2f78a8", "#74c3c4", "#f6f8cf"]),
};
const DIVERGING = {
  light: table(["#8a4500", "#e3a765", "#f7f7f4", "#8ab2d8", "#08417c"]),
  dark: table(["#ffb860", "#8d5c22", "#20262d", "#2f70b2", "#acd8ff"]),
};
/** Return a ramp as 256 colors `{r, g, b}`, computed once: a heatmap looks up thousands. */
function table(stops) {
  const ramp = piecewise(interpolateLab, stops);
  return Array.from({ length: 256 }, (_, i) => rgb(ramp(i / 255)));
}

const colorAt = (ramp, fraction) => ramp[Math.round(255 * Math.min(Math.max(fraction, 0), 1))];

/** Return the color of a weight from 0 to `largest`. */
export function weightColor(weight, largest = 1) {
  return colorAt(RAMPS[theme()], largest > 0 ? weight / largest : 0);
}

/** Return the color of a number from −largest to largest; 0 is neutral. */
export function signedColor(number, largest = 1) {
  return colorAt(DIVERGING[theme()], largest > 0 ? (number / largest + 1) / 2 : 0.5);
}

/** Return the color of category i; there are eight colors. */
export const categoryColor = (i) => `var(--category-${i % 8})`;

/** Return black or white for text on a color. The contrast with every color above is at least 4.5. */
export function textColorOn(color) {
  return lab(color).l > 49.5 ? "#000000" : "#ffffff";
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const choice = stored("localStorage", "polyseme-theme");

/** Return the current theme: `light` or `dark`. */
export function theme() {
  const { theme: chosen } = document.documentElement.dataset;
  return Object.hasOwn(RAMPS, chosen) ? chosen : dark.matches ? "dark" : "light";
}

/** Connect the select box for the theme, and remember the choice. `onchange()` is called when the theme changes. */
export function initTheme(select, onchange) {
  const { dataset } = document.documentElement;
  dataset.theme = choice.get();
  select.value = theme() === dataset.theme ? dataset.theme : "auto";
  select.addEventListener("change", () => {
    choice.set(select.value);
    dataset.theme = select.value;
    onchange();
  });
  dark.addEventListener("change", onchange);
}
