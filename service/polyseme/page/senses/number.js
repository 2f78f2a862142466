/** The slider for the number of senses, and the evidence for each number. */

import { h, labeled, quietButton } from "../elements.js";
import { count, percent, short } from "../text.js";
import { wordList } from "../words.js";

/** The minimum number of occurrences for the probability of several senses. */
export const MIN_OCCURRENCES = 12;

/** Whether there are too few occurrences to judge the number of senses. */
export const isFew = (occurrences) => occurrences.length < MIN_OCCURRENCES;

export class SensesNumber {
  /** `page` is the object that the view is built with. */
  constructor(page) {
    const choose = (senses) => page.update({ senses, point: "" });
    this.slider = h("input", { type: "range", min: 1, step: 1, oninput: () => choose(this.slider.value) });
    this.chosen = h("output", {});
    this.several = h("p", { class: "status" });
    this.evidence = h("div", {});
    this.automatic = quietButton("Automatic number", () => choose("auto"), { class: "quiet small" });
    this.element = h(
      "section",
      { class: "card senses-number", "aria-label": "Evidence for each number of senses" },
      h("div", { class: "controls" }, h("div", { class: "grow" }, labeled("Shown number of senses", this.slider)), this.chosen, this.automatic),
      this.several,
      this.evidence,
    );
  }

  /** Show the evidence of a response, and which number is shown; `isAutomatic` is whether the service chose it. */
  show({ several, alternatives, occurrences }, number, isAutomatic) {
    // A number that was requested may be larger than those of the slider.
    this.element.hidden = number > alternatives.length;
    this.slider.max = String(alternatives.length);
    this.slider.value = String(number);
    this.slider.disabled = alternatives.length < 2;
    const senses = `${number} sense${number === 1 ? "" : "s"}`;
    this.slider.setAttribute("aria-valuetext", senses);
    this.chosen.textContent = isAutomatic ? `${senses} (automatic)` : senses;
    this.automatic.disabled = isAutomatic;
    this.several.textContent = `${isFew(occurrences) ? "" : `The probability of several senses is ${percent(several)}. `
    }The bars show how well each number of senses separates the occurrences: at 1, completely.`;
    this.evidence.replaceChildren(wordList(alternatives.slice(1).map(({ senses: each, separation, sizes }) =>
      ({ word: `${each} senses`, value: separation, text: short(separation), note: sizes.map((size) => count(size)).join(" · ") })), 0, "near wide-words"));
    this.evidence.querySelectorAll("li").forEach((row, i) => {
      if (i + 2 === number) row.setAttribute("aria-current", "true");
    });
  }
}

/** Return the response as it is for another number of senses, from its alternatives; itself if it has none of that number. */
export function withNumber(response, number) {
  const alternative = response.alternatives[number - 1];
  if (!alternative || number === response.senses.length) return response;
  const { described, labels, confidence, separation } = alternative;
  const occurrences = response.occurrences.map((occurrence, i) =>
    ({ ...occurrence, sense: labels[i], confidence: confidence[i] }));
  return { ...response, senses: described, occurrences, separation };
}
