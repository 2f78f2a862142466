/** The page: which view the address names, and what the reader changes in it. */

import { format, parse } from "./address.js";
import { initTheme, onTheme } from "./colours.js";
import { h } from "./elements.js";
import { ask } from "./service.js";
import { compare } from "./views/compare.js";
import { look } from "./views/look.js";
import { models } from "./views/models.js";
import { neighbours } from "./views/neighbours.js";
import { steps } from "./views/steps.js";

const VIEWS = new Map([look, compare, steps, neighbours, models].map((view) => [view.name, view]));
const main = document.getElementById("main");
const nav = document.getElementById("views");
const built = new Map();
let current = { name: "", state: {} };

/**
 * What a view is given. A view is `{name, title, defaults, build(page)}`; `build` makes it once,
 * as `{element, show(state)}`, and `show` is called with the whole state, as strings, whenever the
 * address, the colours or the width change.
 */
const page = {
  /** Change some of the state, and with it the address. `push` makes a step to go back to. */
  go(changes, { push = false } = {}) {
    visit(current.name, { ...current.state, ...changes }, push);
  },
  /** The address of a view in a state. */
  address: (name, state = {}) => format(name, state, VIEWS.get(name).defaults),
  /** The models that answer, asked for once. */
  models() {
    this.asked ??= ask("v1/models").then((text) => JSON.parse(text).data, () => {
      this.asked = null;
      return [];
    });
    return this.asked;
  },
};

function visit(name, state, push) {
  const address = format(name, state, VIEWS.get(name).defaults);
  try {
    if (push) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
  } catch {
    // Longer than the browser lets an address be: the view is as it is, its address as it was.
  }
  show(name, state);
}

function show(name, state) {
  const view = VIEWS.get(name);
  const changed = name !== current.name;
  current = { name, state };
  // Whoever comes back to a view finds it as it was left.
  for (const link of nav.children) {
    if (link.dataset.view === name) link.href = format(name, state, view.defaults);
  }
  if (!built.has(name)) built.set(name, view.build(page));
  const { element } = built.get(name);
  if (changed) {
    main.replaceChildren(element);
    document.title = `${view.title} · Polyseme`;
    for (const link of nav.children) {
      if (link.dataset.view === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
  built.get(name).show(state);
}

function fromAddress() {
  const { name, state } = parse(location.hash);
  const known = VIEWS.has(name) ? name : "look";
  const { defaults } = VIEWS.get(known);
  const said = Object.entries(state).filter(([field]) => field in defaults);
  show(known, { ...defaults, ...Object.fromEntries(said) });
}

const again = () => show(current.name, current.state);

function start() {
  initTheme(document.getElementById("theme"));
  nav.append(...[...VIEWS.values()].map((view) =>
    h("a", { href: `#${view.name}`, "data-view": view.name }, view.title)));
  document.getElementById("skip").addEventListener("click", (event) => {
    event.preventDefault();
    main.focus();
  });
  addEventListener("popstate", fromAddress);
  document.addEventListener("polyseme-key", () => {
    page.asked = null;
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
