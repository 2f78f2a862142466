/** Many buttons with one tab stop: Tab goes past them, the arrows go from one to the next. */

const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };

/**
 * Let the arrows, Home and End move the focus among the buttons of an element; `across` gives how
 * many buttons up and down go. Call `stop(button)` for the one that Tab should come to.
 */
export function roving(element, across = () => 1) {
  const buttons = () => [...element.querySelectorAll("button, [role=button]")];
  element.addEventListener("keydown", (event) => {
    const all = buttons(), at = all.indexOf(event.target);
    const to = target(asSeen(event.key, element), at, all.length, across());
    if (at < 0 || to === null) return;
    event.preventDefault();
    stop(all[to]);
    all[to].focus();
  });
  const stop = (chosen) => {
    for (const button of buttons()) button.tabIndex = button === chosen ? 0 : -1;
  };
  return stop;
}

/** In text that runs from right to left, the button at the right is the one before. */
function asSeen(key, element) {
  if (getComputedStyle(element).direction === "ltr") return key;
  return { ArrowRight: "ArrowLeft", ArrowLeft: "ArrowRight" }[key] ?? key;
}

function target(key, at, count, across) {
  if (key === "Home") return 0;
  if (key === "End") return count - 1;
  if (!STEPS[key]) return null;
  const to = at + STEPS[key] * (key === "ArrowUp" || key === "ArrowDown" ? across : 1);
  return to >= 0 && to < count ? to : at;
}
