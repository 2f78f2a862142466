/** A figure with a title and a drawing, which the reader can save as an SVG or PNG file. */

import { download, h, quietButton, s, uniqueId } from "./elements.js";

/** A card with a title, a caption and a drawing; its controls go into `tools`. */
export class Figure {
  /** `file` names the saved files, and `axes` the axes in them. */
  constructor(file, title, axes = "") {
    const id = uniqueId("figure");
    /** The names of the axes. */
    this.axes = axes;
    this.heading = h("h3", { id }, title);
    this.tools = h("div", { class: "tools" });
    this.caption = h("figcaption", {});
    this.body = h("div", { class: "drawing" });
    const saving = h(
      "div",
      { class: "saving" },
      quietButton("Save SVG", () => download(`${file}.svg`, svgText(this), "image/svg+xml")),
      quietButton("Save PNG", async () => download(`${file}.png`, await pngBlob(svgText(this)), "image/png")),
    );
    this.element = h(
      "figure",
      { class: "paper", "aria-labelledby": id },
      h("div", { class: "figure-head" }, this.heading, this.tools, saving),
      this.body,
      this.caption,
    );
  }

  /** The width for a drawing, in pixels. */
  width() {
    this.element.hidden = false;
    // A view outside the document has no width. It is drawn again when it is shown.
    return Math.max(this.body.clientWidth, 200);
  }

  /** Show an SVG, followed by `elements`; hide the figure if there is no drawing. */
  show(drawing, ...elements) {
    this.element.hidden = !drawing;
    this.drawing = drawing;
    this.body.replaceChildren(...(drawing ? [drawing, ...elements] : []));
  }
}

/** The style properties that a saved SVG needs. */
const PROPERTIES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray",
  "stroke-linecap", "opacity", "font-family", "font-size", "font-weight", "font-style",
  "text-anchor", "dominant-baseline",
];
/** The attributes that have a use in the page only. */
const UNSAVED = /^(class|id|role|tabindex|style|aria-.*|data-.*)$/;
const SHAPES = "rect, line, circle, path, text, polygon, polyline";
const MARGIN = 12;
/** The height of the title and of the names of the axes above a saved drawing. */
const HEAD = 44;

/** Return the drawing of a figure as the text of an SVG file, with its title, its axes, and its styles as attributes. */
function svgText({ drawing, heading, axes }) {
  const copy = drawing.cloneNode(true);
  const originals = drawing.querySelectorAll("*");
  const unsaved = copy.querySelectorAll(".unsaved");
  copy.querySelectorAll("*").forEach((element, i) => {
    if (originals[i].matches(SHAPES)) {
      const style = getComputedStyle(originals[i]);
      for (const name of PROPERTIES) {
        const value = style.getPropertyValue(name);
        if (value && value !== "normal" && value !== "auto") element.setAttribute(name, value);
      }
    }
    for (const name of element.getAttributeNames()) {
      if (UNSAVED.test(name)) element.removeAttribute(name);
    }
  });
  unsaved.forEach((element) => element.remove());
  for (const name of copy.getAttributeNames()) copy.removeAttribute(name);
  const { width, height } = drawing.viewBox.baseVal;
  const box = { x: -MARGIN, y: -HEAD, width: width + 2 * MARGIN, height: height + HEAD + MARGIN };
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", Object.values(box).join(" "));
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  const { backgroundColor, color, fontFamily } = getComputedStyle(drawing.closest(".paper"));
  const line = (text, y, attributes) => s("text", { x: 0, y, fill: color, "font-family": fontFamily, ...attributes }, text);
  copy.prepend(
    s("rect", { ...box, fill: backgroundColor }),
    line(heading.textContent, -HEAD + 18, { "font-size": 14, "font-weight": 650 }),
    line(axes, -HEAD + 34, { "font-size": 11 }),
  );
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

/** Return an SVG file as the blob of a PNG file, with two pixels for each unit. */
async function pngBlob(svg) {
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  await image.decode();
  const canvas = new OffscreenCanvas(2 * image.width, 2 * image.height);
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob();
}
