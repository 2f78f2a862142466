/**
 * The page: shows the view that the address names and keeps the address in step with its state.
 * The state stands after the `#`, so that a link includes it and browsers do not send it to a server.
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
  document.addEventListener("polyseme-again", showAgain);
  document.addEventListener("polyseme-key", () => {
    forgetModels();
    showAgain();
  });
  onTheme(showAgain);
  showAddress();
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    requestAnimationFrame(showAgain);
  }).observe(main);
}

/** Show the view and the state of the address, such as `#attention?text=…`; ignore unknown fields. */
function showAddress() {
  const hash = location.hash.replace(/^#/, "");
  const at = hash.indexOf("?");
  const name = viewNamed(at < 0 ? hash : hash.slice(0, at));
  const query = new URLSearchParams(at < 0 ? "" : hash.slice(at + 1));
  const { defaults } = VIEWS[name];
  show(name, { ...defaults, ...Object.fromEntries([...query].filter(([field]) => Object.hasOwn(defaults, field))) });
}

/** The address of a view; fields with their default value are left out. */
function addressOf(name, state = {}) {
  const { defaults } = VIEWS[name];
  const changed = Object.entries(state).filter(([field, value]) => field in defaults && value !== defaults[field]);
  const query = new URLSearchParams(changed).toString();
  return query ? `#${name}?${query}` : `#${name}`;
}

/** The interface that a view gets. The view's `show` is called with its whole state, as strings. */
const pageOf = (name) => ({
  /** Change fields of the state and the address; `push` adds an entry to the history. */
  update(changes, { push = false } = {}) {
    const state = { ...states[name], ...changes };
    // A late change of a view that was left waits until the view is opened again.
    if (name !== current.name) return keep(name, state);
    const address = addressOf(name, state);
    try {
      if (push) history.pushState(null, "", address);
      else history.replaceState(null, "", address);
    } catch {
      // The address is too long for the browser. The view changes, the address does not.
    }
    return show(name, state);
  },
  address: addressOf,
});

/** Remember the state of a view for its link in the navigation. */
function keep(name, state) {
  states[name] = state;
  linkTo(name).href = addressOf(name, state);
}

const linkTo = (name) => nav.querySelector(`[data-view="${name}"]`);

const showAgain = () => show(current.name, current.state);

async function show(name, state) {
  current = { name, state };
  keep(name, state);
  // Await only when the view is not loaded yet: a loaded view is shown in this turn.
  if (!built[name] && !(await load(name))) return;
  main.removeAttribute("aria-busy");
  if (shown !== name) enter(name);
  try {
    await built[name].show(state);
  } catch (error) {
    // The response has not the expected form: tell the reader and the console.
    reportError(error);
    built[name].exchange.showError(unreadableResponse());
  }
}

/** Load and build a view; return whether it is still wanted, in the same state. */
async function load(name) {
  const wanted = current;
  main.setAttribute("aria-busy", "true");
  try {
    const { build } = await VIEWS[name].load();
    built[name] ??= build(pageOf(name));
  } catch (error) {
    if (wanted === current) {
      shown = "";
      main.removeAttribute("aria-busy");
      main.replaceChildren(h("section", {}, h("p", { class: "problem", role: "alert" },
        h("strong", {}, "This view could not be loaded."),
        " Check that the service is running, then reload the page.")));
    }
    throw error;
  }
  return wanted === current;
}

/** Replace the shown view. The focus moves to the heading when it was inside the former view. */
function enter(name) {
  const { element } = built[name];
  const inside = main.contains(document.activeElement);
  if (shown) scrollTo(0, 0);
  shown = name;
  main.replaceChildren(element);
  document.title = `${VIEWS[name].title} · Polyseme`;
  nav.querySelector("[aria-current]")?.removeAttribute("aria-current");
  linkTo(name).setAttribute("aria-current", "page");
  if (inside) {
    const heading = element.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus();
  }
}

start();
