/**
 * The state of the page in its address, after the `#`: what a reader typed is then part of every
 * link and is never sent to the server, whose log, or a proxy's, would keep it.
 */

/** The view and its state, of `#look?text=…`. */
export function parse(hash) {
  const [name, query = ""] = split(hash.replace(/^#/, ""));
  return { name, state: Object.fromEntries(new URLSearchParams(query)) };
}

function split(text) {
  const at = text.indexOf("?");
  return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 1)];
}

/** The address of a view; what is as it is by default is left out. */
export function format(name, state, defaults = {}) {
  const said = Object.entries(state).filter(
    ([key, value]) => key in defaults && value !== defaults[key],
  );
  const query = new URLSearchParams(said).toString();
  return query ? `#${name}?${query}` : `#${name}`;
}
