/** The page: which view the address names, and what the reader changes in it. */

import { format, parse } from "./frame/address.js";
import { initTheme, onTheme } from "./frame/colours.js";
import { h } from "./frame/elements.js";
import { forget } from "./frame/models.js";
import { unreadable } from "./frame/service.js";
import { VIEWS } from "./views.js";

const main = document.getElementById("main");
const nav = document.getElementById("views");
const built = {};
const states = {};
let current = { name: "", state: {} };
let seen = "";

/** The address of a view in a state. */
const address = (name, state = {}) => format(name, state, VIEWS[name].defaults);

/** What a view is given: its `show` gets the whole state, as strings, when anything of it changes. */
const pageOf = (name) => ({
  /**
   * Change some of its state, and with it the address. `push` makes a step to go back to. Of a view
   * that has been left in the meantime, what comes late is for who comes back to it.
   */
  go(changes, { push = false } = {}) {
    const state = { ...states[name], ...changes };
    if (name === current.name) visit(name, state, push);
    else keep(name, state);
  },
  address,
});

/** Whoever comes back to a view finds it as it was left. */
function keep(name, state) {
  states[name] = state;
  linkTo(name).href = address(name, state);
}

const linkTo = (name) => nav.querySelector(`[data-view="${name}"]`);

function visit(name, state, push) {
  const now = address(name, state);
  try {
    if (push) history.pushState(null, "", now);
    else history.replaceState(null, "", now);
  } catch {
    // Longer than the browser lets an address be: the view is as it is, its address as it was.
  }
  show(name, state);
}

async function show(name, state) {
  current = { name, state };
  keep(name, state);
  // Shown at once where it is there already: a view may be asked several times in one turn.
  if (!built[name] && !(await made(name))) return;
  main.removeAttribute("aria-busy");
  if (seen !== name) enter(name);
  try {
    await built[name].show(state);
  } catch (error) {
    // An answer that is not as it should be: the reader is told, and whoever looks at the console.
    reportError(error);
    built[name].exchange.refuse(unreadable());
  }
}

/** Put a view into the place of another; who came by a link within that one is not lost. */
function enter(name) {
  const { element } = built[name];
  const within = main.contains(document.activeElement);
  if (seen) scrollTo(0, 0);
  seen = name;
  main.replaceChildren(element);
  document.title = `${VIEWS[name].title} · Polyseme`;
  nav.querySelector("[aria-current]")?.removeAttribute("aria-current");
  linkTo(name).setAttribute("aria-current", "page");
  if (within) {
    const heading = element.querySelector("h2");
    heading.tabIndex = -1;
    heading.focus();
  }
}

/** Load and build a view; whether it is still the one that is wanted, and in this state. */
async function made(name) {
  const wanted = current;
  main.setAttribute("aria-busy", "true");
  try {
    const { build } = await VIEWS[name].load();
    built[name] ??= build(pageOf(name));
  } catch (error) {
    if (wanted === current) {
      seen = "";
      main.removeAttribute("aria-busy");
      main.replaceChildren(lost());
    }
    throw error;
  }
  return wanted === current;
}

const lost = () => h("section", {}, h("p", { class: "problem", role: "alert" },
  h("strong", {}, "A part of this page did not come."),
  " See whether the service is still running, then load the page again."));

function fromAddress() {
  const { name, state } = parse(location.hash);
  const known = Object.hasOwn(VIEWS, name) ? name : "look";
  const { defaults } = VIEWS[known];
  const said = Object.entries(state).filter(([field]) => Object.hasOwn(defaults, field));
  show(known, { ...defaults, ...Object.fromEntries(said) });
}

const again = () => show(current.name, current.state);

function start() {
  initTheme(document.getElementById("theme"));
  nav.append(...Object.entries(VIEWS).map(([name, { title }]) =>
    h("a", { href: `#${name}`, "data-view": name }, title)));
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("popstate", fromAddress);
  document.addEventListener("polyseme-again", again);
  document.addEventListener("polyseme-key", () => {
    forget();
    again();
  });
  onTheme(again);
  fromAddress();
  let width = main.clientWidth;
  new ResizeObserver(() => {
    if (main.clientWidth === width) return;
    width = main.clientWidth;
    requestAnimationFrame(again);
  }).observe(main);
}

start();
