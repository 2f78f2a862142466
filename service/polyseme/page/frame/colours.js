/**
 * Colours of numbers and of things, for light and for dark. A ramp changes its lightness all the
 * way, so that it reads the same to people who see fewer hues; a diverging one runs from orange to
 * blue, which they tell apart. Things have the colours of Okabe and Ito, with shapes beside them.
 */

import { kept } from "./keeping.js";

const { interpolateLab, lab, piecewise } = globalThis.d3;

const RAMPS = {
  light: ["#f7fafc", "#c3dcec", "#6aa9d0", "#2567a0", "#08306b"],
  dark: ["#171c23", "#1d3f63", "#2f78a8", "#74c3c4", "#f6f8cf"],
};
const DIVERGING = {
  light: ["#8a4500", "#e3a765", "#f7f7f4", "#8ab2d8", "#08417c"],
  dark: ["#ffb860", "#8d5c22", "#20262d", "#2f70b2", "#acd8ff"],
};
const THINGS = {
  light: ["#0072b2", "#c25a00", "#00795a", "#a8478a", "#8a6d00", "#2f7fa8", "#5f5f5f", "#7a3fb0"],
  dark: ["#56b4e9", "#f0a030", "#2fc49a", "#e08fc0", "#e8d94a", "#8fb7ff", "#b8b8b8", "#c39bff"],
};

const media = matchMedia("(prefers-color-scheme: dark)");
const choice = kept("localStorage", "polyseme-theme");
const listeners = new Set();

/** `light` or `dark`, as the reader sees it now. */
export function theme() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (media.matches ? "dark" : "light");
}

/** Let the reader choose, and remember it. */
export function initTheme(select) {
  const apply = (chosen) => {
    if (chosen === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = chosen;
  };
  const told = () => listeners.forEach((listener) => listener());
  select.value = choice.get() || "auto";
  if (!select.value) select.value = "auto";
  apply(select.value);
  select.addEventListener("change", () => {
    choice.set(select.value);
    apply(select.value);
    told();
  });
  media.addEventListener("change", told);
}

/** Call when the colours change. */
export function onTheme(listener) {
  listeners.add(listener);
}

const ramps = Object.fromEntries(
  Object.entries(RAMPS).map(([name, stops]) => [name, tabled(stops)]),
);
const divergings = Object.fromEntries(
  Object.entries(DIVERGING).map(([name, stops]) => [name, tabled(stops)]),
);

/** 256 steps of a ramp: a heatmap asks for thousands of colours. */
function tabled(stops) {
  const ramp = piecewise(interpolateLab, stops);
  return Array.from({ length: 256 }, (_, i) => ramp(i / 255));
}

const step = (table, share) => table[Math.round(255 * Math.min(Math.max(share, 0), 1))];

/** The colour of a weight from 0 to `most`. */
export function weightColour(weight, most = 1) {
  return step(ramps[theme()], most > 0 ? weight / most : 0);
}

/** The colour of a number from −most to most; 0 is the neutral middle. */
export function signedColour(number, most = 1) {
  return step(divergings[theme()], most > 0 ? (number / most + 1) / 2 : 0.5);
}

/** The colour of the i-th thing; after eight they come again. */
export function thingColour(i) {
  const colours = THINGS[theme()];
  return colours[i % colours.length];
}

/** Black or white, whichever reads better on a colour. */
export function inkOn(colour) {
  // Either has a contrast of 4.5 there: the middle leaves no room for an ink that is not quite black.
  return lab(colour).l > 49.5 ? "#000000" : "#ffffff";
}
