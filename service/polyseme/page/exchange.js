/**
 * The request and response of a view. A new request cancels the previous one, an error is shown as
 * sentences, and the reader can save the response and copy the request as a curl command.
 */

import { curl, fetchText, key, ServiceError, unreadableResponse } from "./client.js";
import { copyText, download, formElement, h, labeled, quietButton } from "./elements.js";

/** The maximum number of field errors that are listed. */
const MAX_ERRORS = 8;

export class Exchange {
  /**
   * `file` names the saved response. `placeOf` returns the name of a field for the reader from its pointer, and `name` is the
   * class of the element `results`, which is hidden if there is no response.
   */
  constructor(file, { placeOf = (pointer) => pointer, name = "results" } = {}) {
    this.placeOf = placeOf;
    /** The field errors of the last response, `{pointer, message}`. */
    this.errors = [];
    this.results = h("div", { class: name, hidden: true });
    this.alert = h("div", { class: "problem", role: "alert", hidden: true });
    this.waiting = h("p", { class: "muted", role: "status" });
    this.announcement = h("p", { class: "visually-hidden", role: "status" });
    this.problem = h("div", { class: "notices" }, this.alert, this.waiting, this.announcement);
    this.code = h("code", {});
    const copied = h("span", { role: "status", class: "status" });
    this.source = h(
      "section",
      { class: "source", "aria-label": "Request and response" },
      h(
        "div",
        { class: "buttons" },
        quietButton("Save JSON", () => download(`${file}.json`, this.text, "application/json")),
        quietButton("Copy the command", () => copyText(curl(this.path, this.body), copied)),
        quietButton("Copy the address", () => copyText(location.href, copied)),
        copied,
      ),
      commandDetails(this.code),
    );
  }

  /**
   * Send a request and return the parsed response; null after an error, or if a later request or `clear`
   * canceled it. A request that equals the previous one is not sent again.
   */
  request(path, body) {
    const id = JSON.stringify([path, body]);
    if (id === this.id) return this.pending;
    this.id = id;
    this.latest = { path, body };
    this.pending = this.#send(path, body);
    return this.pending;
  }

  async #send(path, body) {
    this.aborter?.abort();
    const aborter = new AbortController();
    this.aborter = aborter;
    this.errors = [];
    this.results.setAttribute("aria-busy", "true");
    if (this.results.hidden) this.waiting.textContent = "Waiting for the service…";
    try {
      const text = await fetchText(path, body, aborter.signal);
      const response = JSON.parse(text) ?? {};
      if (aborter.signal.aborted) return null;
      Object.assign(this, { path, body, text, isNew: true });
      this.code.textContent = curl(path, body);
      this.results.hidden = false;
      this.alert.hidden = true;
      this.alert.replaceChildren();
      return response;
    } catch (error) {
      if (aborter.signal.aborted || error.name === "AbortError") return null;
      this.showError(error instanceof ServiceError ? error : unreadableResponse());
      return null;
    } finally {
      if (this.aborter === aborter) this.#endWaiting();
    }
  }

  #endWaiting() {
    this.results.removeAttribute("aria-busy");
    this.waiting.textContent = "";
  }

  /** Announce a sentence about the response to assistive technology, once: not when it is drawn again. */
  announce(sentence) {
    if (this.isNew) this.announcement.textContent = sentence;
    this.isNew = false;
  }

  /** Hide the results and show a sentence instead: there is nothing to request. */
  clear(sentence) {
    this.aborter?.abort();
    this.#endWaiting();
    this.#showNotice("hint", sentence ? [h("p", {}, sentence)] : []);
  }

  /** Hide the results and show an error. The next equal request is sent again. */
  showError(error) {
    this.errors = error.errors;
    const focused = this.alert.contains(document.activeElement);
    this.#showNotice("problem", errorNotice(error, this.latest, this.placeOf));
    if (focused) this.alert.querySelector("input, button")?.focus();
  }

  #showNotice(name, elements) {
    this.id = null;
    this.announcement.textContent = "";
    this.results.hidden = true;
    this.alert.className = name;
    this.alert.hidden = !elements.length;
    this.alert.replaceChildren(...elements);
  }
}

/**
 * Return the elements for an error: message, hint, field errors, key form, retry button and curl command. `request` is
 * `{path, body}`, undefined if the error occurred before the first request.
 */
function errorNotice({ message, hint, errors, status }, request, placeOf) {
  // The message of a 422 has the first field.
  const others = status === 422 ? errors.slice(1) : errors;
  const canRetry = status === 0 || status === 429 || status >= 500;
  return [
    h("p", {}, h("strong", {}, withCode(message)), " ", withCode(hint)),
    others.length
      ? h("ul", {}, others.slice(0, MAX_ERRORS).map((error) =>
        h("li", {}, error.pointer ? h("code", {}, placeOf(error.pointer)) : "", " ", withCode(error.message))))
      : null,
    status === 401 ? keyForm() : null,
    canRetry ? quietButton("Try again", retry) : null,
    request ? commandDetails(h("code", {}, curl(request.path, request.body))) : null,
  ].filter(Boolean);
}

/** Send the requests again. */
const retry = () => document.dispatchEvent(new CustomEvent("polyseme-retry"));

/** Return the details with the curl command of a request. */
const commandDetails = (code) => h("details", {}, h("summary", {}, "The request as a command"),
  h("pre", { tabindex: "0", "aria-label": "curl" }, code));

/** Return a sentence as text, with a `code` element for each part in backticks. */
const withCode = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

function keyForm() {
  const field = h("input", {
    type: "password", autocomplete: "off", required: true, pattern: "[!-~]+", title: "only ASCII characters, no spaces",
  });
  const use = () => {
    key.set(field.value);
    retry();
  };
  return formElement("key", use, labeled("API key (kept until you close this tab)", field), h("button", {}, "Use key"));
}
