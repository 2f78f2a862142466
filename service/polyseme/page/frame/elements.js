/** Elements made from names, attributes and children; text is always text, never markup. */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. An attribute that is a function is a listener (`onclick`), `true` is an empty
 * attribute, and `null`, `undefined` and `false` are none.
 */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** An SVG element; see `h`. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value);
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/** An id that no other element has. */
export function freshId(stem) {
  counter += 1;
  return `${stem}-${counter}`;
}

let counter = 0;

/** A control under its label. */
export function labelled(text, control) {
  control.id ||= freshId("field");
  return h("div", { class: "field" }, h("label", { for: control.id }, text), control);
}

/** A choice among `[value, text]` pairs. */
export function choice(options, value, onchange) {
  const select = h("select", { onchange: () => onchange(select.value) });
  offer(select, options, value);
  return select;
}

/** Give a choice other options; a value that is not among them leaves the first. */
export function offer(select, options, value) {
  select.replaceChildren(...options.map(([key, text]) => h("option", { value: key }, text)));
  if (options.some(([key]) => key === value)) select.value = value;
}
