/** DOM elements, controls that several views share, downloads and the clipboard. */

import { fetchText } from "./client.js";

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an HTML element. The value of an attribute may be a function, which becomes an event listener
 * (`onclick`), or `true` for an empty attribute; `null`, `undefined` and `false` set no attribute. `style` is an
 * object of properties, because the content security policy rejects it as text. A text child is never parsed as markup.
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** Create an SVG element; see `h`. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** Create a drawing of a size in pixels. */
export function svgDrawing(name, width, height, attributes, ...children) {
  return s("svg", { class: name, viewBox: `0 0 ${width} ${height}`, width, height, ...attributes }, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else if ((value ?? false) !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

/** Return a function that returns whether its arguments differ from those of its previous call. */
export function changeDetector() {
  let before = null;
  return (...values) => {
    const same = before?.length === values.length && values.every((value, i) => value === before[i]);
    before = values;
    return !same;
  };
}

let ids = 0;

/** Return a unique id. */
export const uniqueId = (stem) => `${stem}-${ids += 1}`;

/** Return a control with a label above it. */
export function labeled(text, control) {
  control.id ||= uniqueId("field");
  return h("div", { class: "field" }, h("label", { for: control.id }, text), control);
}

/** Return a form with a class; `onsubmit()` is called when the reader submits it. */
export function formElement(name, onsubmit, ...children) {
  const submit = (event) => {
    event.preventDefault();
    onsubmit();
  };
  return h("form", { class: name, onsubmit: submit }, children);
}

/** Return a button that submits nothing. */
export function quietButton(text, onclick, attributes = {}) {
  return h("button", { type: "button", class: "quiet", onclick, ...attributes }, text);
}

/**
 * Return buttons for examples (`examples.js`) with the note of the shown one: their `element`, `note()` and `show(state, other)`,
 * where `other` is the note if no example is shown. A chosen example also sets the fields `reset`. `onpick()` is called before
 * the state changes.
 */
export function exampleField(page, examples, { reset = {}, onpick = () => {} } = {}) {
  const note = h("p", { class: "example-note", role: "status" });
  const buttons = examples.map(({ name, open, state }) => quietButton(name, () => {
    onpick();
    page.update({ ...reset, ...state, ...open }, { push: true });
  }));
  return {
    element: h("div", { class: "examples" },
      h("div", { class: "buttons", role: "group", "aria-label": "Examples" }, buttons), note),
    note: () => note.textContent,
    show(state, other = "") {
      const shown = examples.findIndex((example) =>
        Object.entries(example.state).every(([field, value]) => state[field] === value));
      buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === shown)));
      setText(note, shown < 0 ? other : examples[shown].note ?? "");
    },
  };
}

/** Milliseconds after the last key until the views use what is typed. */
const PAUSE = 300;

/** Return a function that calls `action` after a pause since its last call; `cancel()` cancels the call. */
export function afterPause(action) {
  let timer;
  const later = () => {
    clearTimeout(timer);
    timer = setTimeout(action, PAUSE);
  };
  return Object.assign(later, { cancel: () => clearTimeout(timer) });
}

/** Set the text of an element if it differs: a live region would announce an equal text again. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/** Return a list of `[name, value]`. */
export const factList = (facts) =>
  h("dl", { class: "facts" }, facts.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

/** Return the element of a view: its title, an introduction, the `form`, and `results`, which its exchange hides and shows. */
export function viewElement(title, intro, form, exchange, ...results) {
  exchange.results.append(...results, exchange.source);
  return h("section", { "aria-label": title },
    h("div", { class: "intro" }, h("h2", {}, title), h("p", {}, intro)), form, exchange.problem, exchange.results);
}

/** Return the settings of a form, which are closed until the reader opens them; see `choiceField`. */
export function optionDetails(...fields) {
  return {
    element: h("details", { class: "options" }, h("summary", {}, "Options"),
      h("div", { class: "controls" }, fields.map(({ element }) => element))),
    show(state) {
      for (const field of fields) field.show(state);
    },
  };
}

/** Return a text field for a field of the state, which keeps what the reader types until the state has another text. */
export function textField(name, label, attributes = {}, tag = "input") {
  const input = h(tag, { dir: "auto", autocomplete: "off", spellcheck: "false", ...attributes });
  return {
    input,
    /** The text of the state that is shown, null for none. */
    shown: null,
    element: h("div", { class: "grow" }, labeled(label, input)),
    show(state) {
      if (state[name] !== this.shown) input.value = state[name];
      this.shown = state[name];
    },
  };
}

/** Return a select box with options `[value, text]`. */
export function selectBox(options, value, onchange) {
  const select = h("select", { onchange: () => onchange(select.value) });
  setOptions(select, options, value);
  return select;
}

/** Set the options of a select box; an unknown value selects the first. Replacing equal ones would close an open list. */
export function setOptions(select, options, value) {
  const isSame = String(options) === String(Array.from(select.options, ({ value: key, text }) => [key, text]));
  if (!isSame) select.replaceChildren(...options.map(([key, text]) => h("option", { value: key }, text)));
  select.value = options.some(([key]) => key === value) ? value : options[0]?.[0];
}

/** Return options for the numbers from `first` on. */
export function numbered(count, first = 0) {
  return Array.from({ length: count }, (_, i) => [String(first + i), String(first + i)]);
}

/**
 * Return the select box for a field of the state: its `element` and `show(state)`, which also lists a value that is none of
 * the options: the service's error explains it.
 */
export function choiceField(page, name, label, options = []) {
  const select = selectBox([], "", (value) => page.update({ [name]: value }));
  return {
    element: labeled(label, select),
    show({ [name]: value }, listed = options) {
      const isListed = listed.some(([key]) => key === value);
      setOptions(select, isListed ? listed : [...listed, [value, value]], value);
      return isListed;
    },
  };
}

const CASES = [
  ["auto", "as written, then other cases"],
  ["exact", "as written"],
  ["lower", "lower"],
];

/** Return the select box for `case`; see `choiceField`. */
export const caseField = (page) => choiceField(page, "case", "Case", CASES);

/** Return the field for `k`: its `element` and `show(state)`. */
export function countField(page, label) {
  const input = h("input", { type: "number", min: 1, class: "narrow", onchange: () => page.update({ k: input.value }) });
  return {
    element: labeled(label, input),
    show({ k }) {
      input.value = Number.isFinite(Number(k)) ? k : "";
    },
  };
}

/** Return `k` as a number to send. Other text is sent unchanged, and the service validates it. */
export function countOf(k) {
  return k.trim() && Number.isFinite(Number(k)) ? Number(k) : k;
}

/**
 * Return the select box for a model, see `choiceField`, which is hidden if it has only one option. The first option is the
 * default model, or `none`.
 */
export function modelField(page, name = "model", label = "Model", none = "") {
  const field = choiceField(page, name, label);
  field.element.hidden = true;
  let latest = {};
  return {
    element: field.element,
    async show(state) {
      latest = state;
      const models = (await listModels()).filter((model) => model?.status === "ok");
      const first = models.find((model) => model.default);
      const others = models.filter((model) => none || model !== first);
      const options = [["", none || (first ? `${first.id} (default)` : "default")], ...others.map(({ id }) => [id, id])];
      const isListed = field.show(latest, options);
      field.element.hidden = isListed && options.length < (none ? 3 : 2);
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

let models = null;

/** Return the models that `/v1/models` lists, requested once for all views; an empty list after an error. */
export function listModels() {
  models ??= fetchText("v1/models").then((text) => JSON.parse(text).data ?? [], () => []);
  return models;
}

/** Request the models again on the next call: the reader tries again, or has another API key. */
export function forgetModels() {
  models = null;
}

/** Return an instruction to point at something; a screen that is only touched has no pointer and no arrow keys. */
export function pointAt(what, keys) {
  return matchMedia("(hover: none)").matches ? `Tap ${what}.` : `Point at ${what}, or ${keys}.`;
}

/** Return the attributes that make an element of a drawing a button. */
export function pressable(onpress) {
  return {
    role: "button",
    onclick: onpress,
    onkeydown: (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      onpress();
    },
  };
}

/**
 * Make the buttons of an element one tab stop (roving tabindex): arrows, Home and End move the focus among them. `across()` is
 * the number of buttons in a row, and `buttons()` their order. Return a function that sets the tab stop; while one has the focus,
 * it is the tab stop.
 */
export function rovingTabindex(element, across = () => 1, buttons = () => [...element.querySelectorAll("button, [role=button]")]) {
  const setStop = (chosen) => {
    for (const button of buttons()) button.tabIndex = button === chosen ? 0 : -1;
  };
  element.addEventListener("keydown", (event) => {
    const all = buttons(), at = all.indexOf(event.target);
    // In right-to-left text, the button on the right is the previous one.
    const right = getComputedStyle(element).direction === "rtl" ? -1 : 1;
    const to = {
      ArrowRight: at + right, ArrowLeft: at - right, ArrowDown: at + across(), ArrowUp: at - across(),
      Home: 0, End: all.length - 1,
    }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const target = all[to] ?? all[at];
    setStop(target);
    target.focus();
  });
  return (chosen) => setStop(element.contains(document.activeElement) ? document.activeElement : chosen);
}

/** Offer bytes or text as a file to download. */
export function download(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  h("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Copy text, and say so in `status`. Browsers allow it over HTTPS and on localhost. */
export async function copyText(text, status) {
  try {
    await navigator.clipboard.writeText(text);
    status.textContent = "Copied.";
  } catch {
    status.textContent = "The browser blocks copying. Select the text and copy it.";
  }
}
