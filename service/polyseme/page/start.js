/**
 * The entry point: shows the view that the address names and updates the address when the view's state changes.
 * The state is in the fragment (after the `#`): a link includes it, and browsers do not send it to a server.
 */

import { unreadableResponse } from "./client.js";
import { initTheme, onTheme } from "./colors.js";
import { forgetModels, h } from "./elements.js";
import { VIEWS, viewNamed } from "./views.js";

const main = document.getElementById("main");
const nav = document.getElementById("views");
const built = {};
const states = {};
let current = { name: "", state: {} };
let shown = "";

function start() {
  initTheme(document.getElementById("theme"));
  nav.append(...Object.entries(VIEWS).map(([name, { title }]) =>
    h("a", { href: `#${name}`, "data-view": name }, title)));
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("popstate", showAddress);
  document.addEventListener("polyseme-retry", redraw);
  document.addEventListener("polyseme-key", () => {
    forgetModels();
    redraw();
  });
  onTheme(redraw);
  showAddress();
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    requestAnimationFrame(redraw);
  }).observe(main);
}

/** Show the view and the state in the address, such as `#attention?text=…`. Unknown fields are ignored. */
function showAddress() {
  const hash = location.hash.replace(/^#/, "");
  const at = hash.indexOf("?");
  const name = viewNamed(at < 0 ? hash : hash.slice(0, at));
  const query = new URLSearchParams(at < 0 ? "" : hash.slice(at + 1));
  const { defaults } = VIEWS[name];
  show(name, { ...defaults, ...Object.fromEntries([...query].filter(([field]) => Object.hasOwn(defaults, field))) });
}

/** Return the address of a view, without the fields that have their default value. */
function addressOf(name, state = {}) {
  const { defaults } = VIEWS[name];
  const changed = Object.entries(state).filter(([field, value]) => field in defaults && value !== defaults[field]);
  const query = new URLSearchParams(changed).toString();
  return query ? `#${name}?${query}` : `#${name}`;
}

/** The object that a view is built with. The page calls the view's `show` with all fields of its state, as strings. */
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

/** Keep the chosen model in the other views, whose links in the navigation include it. */
function shareModel(name, { model }) {
  if (!VIEWS[name].usesModel) return;
  for (const other of Object.keys(VIEWS)) {
    if (other !== name && VIEWS[other].usesModel) saveState(other, { ...VIEWS[other].defaults, ...states[other], model });
  }
}

async function show(name, state) {
  current = { name, state };
  saveState(name, state);
  shareModel(name, state);
  // Do not await a view that is loaded: it is shown synchronously.
  if (!built[name] && !(await load(name))) return;
  main.removeAttribute("aria-busy");
  if (shown !== name) enter(name);
  try {
    await built[name].show(state);
  } catch (error) {
    // The response has an unexpected form: report it on the console and to the reader.
    reportError(error);
    built[name].exchange.showError(unreadableResponse());
  }
}

/** Load and build a view. Return false if `show` was called again in the meantime. */
async function load(name) {
  const requested = current;
  main.setAttribute("aria-busy", "true");
  try {
    const { build } = await VIEWS[name].load();
    built[name] ??= build(pageOf(name));
  } catch (error) {
    if (requested === current) {
      shown = "";
      main.removeAttribute("aria-busy");
      main.replaceChildren(h("section", {}, h("p", { class: "problem", role: "alert" },
        h("strong", {}, "This view could not be loaded."),
        " Check that the service is running, then reload the page.")));
    }
    throw error;
  }
  return requested === current;
}

/** Replace the shown view. If the previous view had the focus, move it to the heading. */
function enter(name) {
  const { element } = built[name];
  const focused = main.contains(document.activeElement);
  if (shown) scrollTo(0, 0);
  shown = name;
  main.replaceChildren(element);
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
