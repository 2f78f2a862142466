/** DOM elements, controls that several views share, downloads and the clipboard. */

import { fetchText } from "./client.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an HTML element. The value of an attribute may be a function, which becomes an event listener
 * (`onclick`), or `true` for an empty attribute; `null`, `undefined` and `false` set no attribute. A text
 * child is never parsed as markup.
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Create an SVG element; see `h`. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return a unique id. */
export function uniqueId(stem) {
  counter += 1;
  return `${stem}-${counter}`;
}

let counter = 0;

/** Return a control with a label above it. */
export function labeled(text, control) {
  control.id ||= uniqueId("field");
  return h("div", { class: "field" }, h("label", { for: control.id }, text), control);
}

/** Return a select box with options `[value, text]`. */
export function selectBox(options, value, onchange) {
  const select = h("select", { onchange: () => onchange(select.value) });
  setOptions(select, options, value);
  return select;
}

/** Replace the options of a select box; an unknown value selects the first. */
export function setOptions(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => h("option", { value: key }, text)));
  if (options.some(([key]) => key === value)) select.value = value;
}

const CASES = [
  ["auto", "as written, then other cases"],
  ["exact", "as written"],
  ["lower", "lower"],
];

/**
 * Return the select box for `case`: its `element` and `show(value)`. An unknown value in the address is
 * listed too, and the service's error explains it.
 */
export function caseField(page) {
  const select = selectBox(CASES, "auto", (value) => page.update({ case: value }));
  return {
    element: labeled("Case", select),
    show(value) {
      const known = CASES.some(([key]) => key === value);
      setOptions(select, known ? CASES : [...CASES, [value, value]], value);
    },
  };
}

/** Return the select box for `k`: its `element` and `show(k)`. It lists `usual` and the count in the address. */
export function countField(page, label, usual) {
  const select = selectBox([], "", (k) => page.update({ k }));
  // Text that is not a number comes last.
  const rank = (k) => (Number.isFinite(Number(k)) ? Number(k) : Number.MAX_VALUE);
  return {
    element: labeled(label, select),
    show(k) {
      const all = [...new Set([...usual, k])].toSorted((a, b) => rank(a) - rank(b));
      setOptions(select, all.map((each) => [each, each]), k);
    },
  };
}

const SHARES = ["0", "0.2", "0.5", "1", "2", "4"];

/** Return the select box for `share`: its `element` and `show(share)`. It also lists the share in the address. */
export function shareField(page) {
  const select = selectBox([], "", (share) => page.update({ share }));
  return {
    element: labeled("Share of the static vector", select),
    show(share) {
      const listed = share && !SHARES.includes(share) ? [...SHARES, share] : SHARES;
      setOptions(select, [["", "the model's"], ...listed.map((each) => [each, each])], share);
    },
  };
}

/** Return `k` as a number to send. Other text is sent unchanged, and the service validates it. */
export function countOf(k) {
  return k.trim() && Number.isFinite(Number(k)) ? Number(k) : k;
}

/** Return the select box for `model`: its `element`, hidden if it has only one option, and `show(name)`. */
export function modelField(page) {
  const select = selectBox([["", "default"]], "", (model) => page.update({ model }));
  const element = labeled("Model", select);
  element.hidden = true;
  let wanted = "";
  return {
    element,
    async show(name) {
      wanted = name;
      const models = (await listModels()).filter((model) => model?.status === "ok");
      const options = models.map(({ id, default: isDefault }) => (isDefault ? ["", `${id} (default)`] : [id, id]));
      if (!options.some(([id]) => id === "")) options.unshift(["", "default"]);
      // An unknown name in the address is listed too, and the service's error explains it.
      if (wanted && !options.some(([id]) => id === wanted)) options.push([wanted, wanted]);
      setOptions(select, options, wanted);
      element.hidden = options.length < 2;
    },
  };
}

/** Return the request fields `model` and `case` of a view's state, without default values. */
export function modelAndCase(state) {
  return {
    ...(state.model && { model: state.model }),
    ...(state.case && state.case !== "auto" && { case: state.case }),
  };
}

/** Milliseconds for which `listModels` keeps the empty list of an error. */
const RETRY_DELAY = 30_000;
let models = null;

/** Return the models that `/v1/models` lists, requested once for all views; an empty list after an error. */
export function listModels() {
  models ??= fetchText("v1/models").then((text) => {
    const { data } = JSON.parse(text);
    return Array.isArray(data) ? data : [];
  }).catch(() => {
    setTimeout(forgetModels, RETRY_DELAY);
    return [];
  });
  return models;
}

/** Request the models again on the next call, because another API key may allow it. */
export function forgetModels() {
  models = null;
}

const ARROWS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/**
 * Make the buttons of an element one tab stop (roving tabindex): arrows, Home and End move the focus
 * among them. `across()` is the number of buttons in a row. Return a function that sets the tab stop.
 */
export function rovingTabindex(element, across = () => 1) {
  const buttons = () => [...element.querySelectorAll("button, [role=button]")];
  const setStop = (chosen) => {
    for (const button of buttons()) button.tabIndex = button === chosen ? 0 : -1;
  };
  element.addEventListener("keydown", (event) => {
    const all = buttons(), at = all.indexOf(event.target);
    // In right-to-left text, the button on the right is the previous one.
    const mirrored = getComputedStyle(element).direction === "rtl";
    const key = (mirrored && { ArrowRight: "ArrowLeft", ArrowLeft: "ArrowRight" }[event.key]) || event.key;
    let to;
    if (key === "Home") to = 0;
    else if (key === "End") to = all.length - 1;
    else if (ARROWS[key]) to = at + ARROWS[key] * (key === "ArrowUp" || key === "ArrowDown" ? across() : 1);
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const target = all[to] ?? all[at];
    setStop(target);
    target.focus();
  });
  return setStop;
}

/** Offer bytes or text as a file to download. */
export function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Copy text; return whether the browser allows it. Browsers allow it over HTTPS and on localhost. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
