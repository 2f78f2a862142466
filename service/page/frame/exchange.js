/**
 * A view's talk with the service: the newest question wins, a refusal becomes sentences, and the
 * reader can take the answer and the command that gave it.
 */

import { curl } from "./command.js";
import { h } from "./elements.js";
import { copy, save } from "./saving.js";
import { ask, key, Refusal } from "./service.js";

export class Exchange {
  /** `file`: the name of the answer that is saved; `results`: hidden while there are none. */
  constructor(file, results) {
    this.file = file;
    this.results = results;
    this.problem = h("div", { class: "problem", role: "alert", hidden: true });
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
  async ask(path, body) {
    const question = JSON.stringify([path, body]);
    if (question === this.question) return this.pending;
    this.question = question;
    this.pending = this.#answered(path, body);
    return this.pending;
  }

  async #answered(path, body) {
    this.aborter?.abort();
    const aborter = new AbortController();
    this.aborter = aborter;
    this.results.setAttribute("aria-busy", "true");
    try {
      const text = await ask(path, body, aborter.signal);
      this.arrived = performance.now();
      const answer = JSON.parse(text);
      if (aborter.signal.aborted) return null;
      Object.assign(this, { path, body, text });
      this.code.textContent = curl(path, body);
      this.results.hidden = false;
      this.problem.hidden = true;
      return answer;
    } catch (error) {
      if (aborter.signal.aborted || error.name === "AbortError") return null;
      if (!(error instanceof Refusal)) throw error;
      this.refuse(error, () => this.ask(path, body));
      return null;
    } finally {
      if (this.aborter === aborter) this.results.removeAttribute("aria-busy");
    }
  }

  /** Nothing to ask about: say so, and draw nothing. */
  rest(sentence) {
    this.aborter?.abort();
    this.question = null;
    this.results.hidden = true;
    this.problem.hidden = !sentence;
    this.problem.replaceChildren(h("p", {}, sentence));
  }

  /** Show why the service did not answer. */
  refuse(error) {
    this.question = null;
    this.results.hidden = true;
    this.problem.replaceChildren(
      h("p", {}, h("strong", {}, error.message), " ", error.hint),
      error.errors.length
        ? h("ul", {}, error.errors.slice(0, 8).map(({ pointer, message }) =>
          h("li", {}, pointer ? h("code", {}, pointer) : "", ` ${message}`)))
        : "",
      error.status === 401 ? keyForm() : "",
    );
    this.problem.hidden = false;
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

function keyForm() {
  const field = h("input", { type: "password", autocomplete: "off", id: "key", required: true });
  return h(
    "form",
    {
      class: "key",
      onsubmit: (event) => {
        event.preventDefault();
        key.set(field.value);
        document.dispatchEvent(new CustomEvent("polyseme-key"));
      },
    },
    h("label", { for: "key" }, "API key (kept until you close this tab)"),
    field,
    h("button", {}, "Use it"),
  );
}

const button = (text, onclick) => h("button", { type: "button", class: "quiet", onclick }, text);
