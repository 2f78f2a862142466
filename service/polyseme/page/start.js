/**
 * The entry point: shows the view that the address names and updates the address when the view's state changes.
 * The state is in the fragment (after the `#`): a link includes it, and browsers do not send it to a server.
 */

import * as attention from "./attention/view.js";
import { stored, unreadableResponse } from "./client.js";
import { initTheme } from "./colors.js";
import * as compare from "./compare/view.js";
import { forgetModels, h } from "./elements.js";
import * as models from "./models/view.js";
import * as neighbors from "./neighbors/view.js";
import * as senses from "./senses/view.js";
import * as steps from "./steps/view.js";

/** The views. Each module exports the `title`, the `defaults` of its state, and a `View` with `element`, `exchange` and `show(state)`. */
const VIEWS = { attention, compare, senses, steps, neighbors, models };

const main = document.getElementById("main");
const nav = document.getElementById("views");
/** The views that were opened. */
const built = {};
/** The address of each view and the texts of its fields, from before the page was loaded again: not all of them are submitted. */
const drafts = stored("sessionStorage", "polyseme-drafts");
const typed = JSON.parse(drafts.get() || "{}");
const states = Object.fromEntries(Object.values(typed).map(([address]) => parseAddress(address)));
let current = { name: "", state: {} };

function start() {
  initTheme(document.getElementById("theme"), redraw);
  nav.append(...Object.entries(VIEWS).map(([name, { title }]) =>
    h("a", { href: addressOf(name, states[name]), "data-view": name }, title)));
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("popstate", showAddress);
  addEventListener("pagehide", saveDrafts);
  document.addEventListener("polyseme-retry", () => {
    forgetModels();
    redraw();
  });
  showAddress();
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    requestAnimationFrame(redraw);
  }).observe(main);
}

/** Show the view and the state in the address. */
const showAddress = () => show(...parseAddress(location.hash));

/** Return the name of the view and the state in an address, such as `#attention?text=…`. Unknown names and fields are ignored. */
function parseAddress(address) {
  const [hash, ...query] = address.slice(1).split("?");
  const name = Object.hasOwn(VIEWS, hash) ? hash : "attention";
  const { defaults } = VIEWS[name];
  const fields = [...new URLSearchParams(query.join("?"))].filter(([field]) => Object.hasOwn(defaults, field));
  return [name, { ...defaults, ...Object.fromEntries(fields) }];
}

/** Return the address of a view, without the fields that have their default value. */
function addressOf(name, state = {}) {
  const { defaults } = VIEWS[name];
  const changed = Object.entries(state).filter(([field, value]) => field in defaults && value !== defaults[field]);
  const query = new URLSearchParams(changed).toString();
  return query ? `#${name}?${query}` : `#${name}`;
}

/** The object that a view is made with. The page calls the view's `show` with all fields of its state, as strings. */
const pageOf = (name) => ({
  /** Change fields of the state and update the address; `push` adds an entry to the history. */
  update(changes, { push = false } = {}) {
    const state = { ...states[name], ...changes };
    // A change to a view that is not shown applies when the view is opened again.
    if (name !== current.name) return saveState(name, state);
    const address = addressOf(name, state);
    try {
      if (push) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    } catch {
      // The address is too long for the browser, or changes too often. The view changes, the address does not.
    }
    return show(name, state);
  },
  address: addressOf,
});

/** Save the state of a view in its link in the navigation. */
function saveState(name, state) {
  states[name] = state;
  linkTo(name).href = addressOf(name, state);
}

const linkTo = (name) => nav.querySelector(`[data-view="${name}"]`);

const redraw = () => show(current.name, current.state);

/** Keep the chosen model in the other views, whose links in the navigation include it; Models shows all of them. */
function shareModel(name, { model }) {
  if (name === "models") return;
  for (const other of Object.keys(VIEWS)) saveState(other, { ...VIEWS[other].defaults, ...states[other], model });
}

/** Return the fields of a view that the reader types into, in order. */
const textFields = (name) => [...built[name].element.querySelectorAll(":is(form, .editor) :is(textarea, input:not([type]))")];

function saveDrafts() {
  const texts = (name) => [addressOf(name, states[name]), ...textFields(name).map(({ value }) => value)];
  drafts.set(JSON.stringify({ ...typed, ...Object.fromEntries(Object.keys(built).map((name) => [name, texts(name)])) }));
}

/** Type into a new view what was typed at the same address before the page was loaded again. */
function restoreDraft(name) {
  const [address, ...texts] = typed[name] ?? [];
  if (address !== addressOf(name, states[name])) return;
  textFields(name).slice(0, texts.length).forEach((field, i) => {
    if (field.value === texts[i]) return;
    field.value = texts[i];
    field.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

async function show(name, state) {
  current = { name, state };
  saveState(name, state);
  shareModel(name, state);
  const isNew = !built[name];
  built[name] ??= new VIEWS[name].View(pageOf(name));
  if (!built[name].element.isConnected) enter(name);
  const focused = document.activeElement, drawing = focused.closest(".drawing");
  try {
    const drawn = built[name].show(state);
    if (isNew) restoreDraft(name);
    await drawn;
    if (drawing?.isConnected && !focused.isConnected) refocus(drawing, focused.getAttribute("aria-label"));
  } catch (error) {
    // The response has an unexpected form: report it on the console and to the reader.
    reportError(error);
    built[name].exchange.showError(unreadableResponse());
  }
}

/** Focus the element with a name in a drawing that was drawn again, else the tab stop of the drawing. */
function refocus(drawing, name) {
  if (document.activeElement !== document.body) return;
  const same = [...drawing.querySelectorAll("[aria-label]")].find((element) => element.getAttribute("aria-label") === name);
  (same ?? drawing.querySelector("[tabindex='0']"))?.focus({ preventScroll: true });
}

/** Replace the shown view. If the previous view had the focus, move it to the heading. */
function enter(name) {
  const { element } = built[name];
  const focused = main.contains(document.activeElement);
  scrollTo(0, 0);
  main.replaceChildren(element);
  main.className = name;
  document.title = `${VIEWS[name].title} · Polyseme`;
  nav.querySelector("[aria-current]")?.removeAttribute("aria-current");
  linkTo(name).setAttribute("aria-current", "page");
  if (focused) {
    const heading = element.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus();
  }
}

start();
