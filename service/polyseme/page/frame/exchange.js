/**
 * A view's talk with the service: the newest question wins, a refusal becomes sentences, and the
 * reader can take the answer and the command that gave it.
 */

import { curl } from "./command.js";
import { h } from "./elements.js";
import { refusal } from "./refusal.js";
import { copy, save } from "./saving.js";
import { ask, Refusal, unreadable } from "./service.js";

export class Exchange {
  /** `file`: the name of the answer that is saved; `results`: hidden while there are none. */
  constructor(file, results) {
    this.file = file;
    this.results = results;
    this.results.hidden = true;
    this.alert = h("div", { class: "problem", role: "alert", hidden: true });
    this.waiting = h("p", { class: "muted", role: "status" });
    this.problem = h("div", { class: "notices" }, this.alert, this.waiting);
    this.code = h("code", {});
    this.said = h("span", { role: "status", class: "said" });
    this.source = h(
      "section",
      { class: "source", "aria-label": "The same elsewhere" },
      h(
        "div",
        { class: "buttons" },
        button("Save JSON", () => save(`${this.file}.json`, this.text, "application/json")),
        button("Copy the command", () => this.copied(curl(this.path, this.body))),
        button("Copy the address", () => this.copied(location.href)),
        this.said,
      ),
      h("details", {}, h("summary", {}, "The request as a command"),
        h("pre", { tabindex: "0", "aria-label": "curl" }, this.code)),
    );
  }

  /**
   * Ask, show a refusal, and give the answer; null where it was refused or overtaken. A body that
   * was asked last is not asked again.
   */
  ask(path, body) {
    const question = JSON.stringify([path, body]);
    if (question === this.question) return this.pending;
    this.question = question;
    this.asked = { path, body };
    this.pending = this.#answered(path, body);
    return this.pending;
  }

  async #answered(path, body) {
    this.aborter?.abort();
    const aborter = new AbortController();
    this.aborter = aborter;
    this.results.setAttribute("aria-busy", "true");
    if (this.results.hidden) this.waiting.textContent = "Waiting for the service…";
    try {
      const text = await ask(path, body, aborter.signal);
      const arrived = performance.now();
      const answer = answerOf(text);
      if (aborter.signal.aborted) return null;
      Object.assign(this, { path, body, text, arrived });
      this.code.textContent = curl(path, body);
      this.results.hidden = false;
      this.#notice();
      return answer;
    } catch (error) {
      if (aborter.signal.aborted || error.name === "AbortError") return null;
      this.refuse(error instanceof Refusal ? error : unreadable());
      return null;
    } finally {
      if (this.aborter === aborter) this.#settled();
    }
  }

  #settled() {
    this.results.removeAttribute("aria-busy");
    this.waiting.textContent = "";
  }

  /** Nothing to ask about: say so, and draw nothing. */
  rest(sentence) {
    this.aborter?.abort();
    this.question = null;
    this.#settled();
    this.results.hidden = true;
    this.#notice(...(sentence ? [h("p", {}, sentence)] : []));
  }

  /** Show why there is nothing to see. The same question may be asked again. */
  refuse(error) {
    this.question = null;
    this.results.hidden = true;
    const focused = this.alert.contains(document.activeElement);
    this.#notice(...refusal(error, this.asked));
    if (focused) this.alert.querySelector("input, button")?.focus();
  }

  /** What is said in place of results. What stands there already is not said again. */
  #notice(...content) {
    this.alert.hidden = !content.length;
    this.alert.replaceChildren(...content);
  }

  /** Say that the answer is drawn: what the benchmark of the page measures. */
  drawn() {
    const { arrived } = this;
    if (!arrived) return;
    this.arrived = null;
    requestAnimationFrame(() => setTimeout(() => {
      performance.measure("polyseme-drawn", { start: arrived, end: performance.now() });
    }));
  }

  async copied(text) {
    this.said.textContent = (await copy(text)) ? "Copied." : "The browser does not allow it; mark it and copy.";
  }
}

function answerOf(text) {
  const answer = JSON.parse(text);
  if (answer === null || typeof answer !== "object") throw unreadable();
  return answer;
}

const button = (text, onclick) => h("button", { type: "button", class: "quiet", onclick }, text);
