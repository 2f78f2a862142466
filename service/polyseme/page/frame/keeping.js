/** Small things a browser keeps for the reader; in memory alone where it is not allowed to. */

const memory = new Map();

/** `get()` and `set(value)` of a name in `localStorage` or `sessionStorage`. */
export function kept(storage, name) {
  const key = `${storage}:${name}`;
  return {
    get() {
      try {
        return globalThis[storage].getItem(name) ?? memory.get(key) ?? "";
      } catch {
        return memory.get(key) ?? "";
      }
    },
    set(value) {
      memory.set(key, value);
      try {
        globalThis[storage].setItem(name, value);
      } catch {
        // Site data are blocked: it lasts as long as the page is open.
      }
    },
  };
}
