/** A figure with a title and a drawing, which the reader can save as an SVG or PNG file. */

import { download, h, quietButton, uniqueId } from "./elements.js";

/** The minimum width of a drawing, in pixels. */
const MIN_WIDTH = 200;

/** A card with a title, a caption and a drawing; its controls go into `tools`. */
export class Figure {
  /** `file` names the saved files. */
  constructor(file, title) {
    const id = uniqueId("figure");
    this.heading = h("h3", { id }, title);
    this.tools = h("div", { class: "tools" });
    this.caption = h("figcaption", {});
    this.body = h("div", { class: "drawing" });
    this.svgButton = quietButton("Save SVG", () => download(`${file}.svg`, svgText(this.drawing), "image/svg+xml"));
    const pngButton = quietButton("Save PNG", async () =>
      download(`${file}.png`, await pngBlob(this.drawing), "image/png"));
    const saving = h("div", { class: "saving" }, this.svgButton, pngButton);
    this.element = h(
      "figure",
      { class: "paper", "aria-labelledby": id },
      h("div", { class: "figure-head" }, this.heading, this.tools, saving),
      this.caption,
      this.body,
    );
  }

  /** The width for a drawing, in pixels. */
  width() {
    const style = getComputedStyle(this.element);
    const inner = this.element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    // A view outside the document has no width. It is drawn again when it is shown.
    return inner > MIN_WIDTH ? inner : MIN_WIDTH;
  }

  /** Show an SVG or a canvas, followed by `elements`; hide the figure if there is no drawing. */
  show(drawing, ...elements) {
    this.element.hidden = !drawing;
    this.drawing = drawing;
    this.svgButton.hidden = drawing instanceof HTMLCanvasElement;
    this.body.replaceChildren(...(drawing ? [drawing, ...elements] : []));
  }
}

/** A line above a drawing that describes the element under the pointer, or chosen by the keyboard. */
export class Readout {
  constructor() {
    this.element = h("p", { class: "readout", role: "status" });
  }

  /**
   * Show text and elements. `announce` is false for instructions, and for text that the focused control
   * already announces.
   */
  show(parts, announce = true) {
    const line = h("p", {}, parts);
    if (line.textContent === this.element.textContent) return;
    this.element.setAttribute("aria-live", announce ? "polite" : "off");
    this.element.replaceChildren(...line.childNodes);
  }
}

/** The style properties that a saved SVG needs. */
const PROPERTIES = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray",
  "stroke-linecap", "opacity", "font-family", "font-size", "font-weight", "font-style",
  "text-anchor", "dominant-baseline",
];
const SHAPES = "rect, line, circle, path, text, polygon, polyline";
const MARGIN = 12;

/** Return a drawing as the text of an SVG file, with its styles as attributes. */
function svgText(svg) {
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  const unsaved = copy.querySelectorAll(".unsaved");
  copy.querySelectorAll("*").forEach((element, i) => {
    if (originals[i].matches(SHAPES)) {
      const style = getComputedStyle(originals[i]);
      for (const name of PROPERTIES) {
        const value = style.getPropertyValue(name);
        if (value && value !== "normal" && value !== "auto") element.setAttribute(name, value);
      }
    }
    for (const name of ["class", "id", "role", "tabindex", "style"]) element.removeAttribute(name);
    for (const name of element.getAttributeNames()) {
      if (name.startsWith("aria-") || name.startsWith("data-")) element.removeAttribute(name);
    }
  });
  unsaved.forEach((element) => element.remove());
  const { width, height } = sizeOf(svg);
  for (const name of copy.getAttributeNames()) if (name !== "viewBox") copy.removeAttribute(name);
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("viewBox", `${-MARGIN} ${-MARGIN} ${width + 2 * MARGIN} ${height + 2 * MARGIN}`);
  copy.setAttribute("width", width + 2 * MARGIN);
  copy.setAttribute("height", height + 2 * MARGIN);
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({
    x: -MARGIN, y: -MARGIN, width: width + 2 * MARGIN, height: height + 2 * MARGIN,
    fill: backgroundOf(svg),
  })) paper.setAttribute(name, value);
  copy.prepend(paper);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

/** Return the size of a drawing in its own units. */
function sizeOf(svg) {
  const { width, height } = svg.viewBox.baseVal;
  return { width, height };
}

function backgroundOf(element) {
  return getComputedStyle(element.closest(".paper") ?? document.body).backgroundColor;
}

/**
 * Return a drawing as the blob of a PNG file, with `scale` pixels for each unit of an SVG. The content
 * security policy (`default-src 'self'`) blocks images from `blob:` addresses, so the shapes are painted one by one.
 */
export function pngBlob(drawing, scale = 2) {
  let canvas;
  const contextWithBackground = () => {
    const context = canvas.getContext("2d");
    context.fillStyle = backgroundOf(drawing);
    context.fillRect(0, 0, canvas.width, canvas.height);
    return context;
  };
  if (drawing instanceof HTMLCanvasElement) {
    canvas = newCanvas(drawing.width, drawing.height);
    contextWithBackground().drawImage(drawing, 0, 0);
  } else {
    const { width, height } = sizeOf(drawing);
    canvas = newCanvas(Math.ceil((width + 2 * MARGIN) * scale), Math.ceil((height + 2 * MARGIN) * scale));
    paintSvg(contextWithBackground(), drawing, scale);
  }
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function paintSvg(context, svg, scale) {
  // `getScreenCTM` maps units of an element to pixels of the screen; `inverse` maps these to units of the drawing.
  const inverse = svg.getScreenCTM().inverse();
  const transformOf = (element) => {
    const { a, b, c, d, e, f } = inverse.multiply(element.getScreenCTM());
    return new DOMMatrix([scale, 0, 0, scale, MARGIN * scale, MARGIN * scale])
      .multiply(new DOMMatrix([a, b, c, d, e, f]));
  };
  for (const child of svg.children) paint(context, child, transformOf);
}

function newCanvas(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

/** Paint an element and its children. */
function paint(context, element, transformOf) {
  if (element.matches("defs, title, desc, .unsaved, [display='none']")) return;
  const style = getComputedStyle(element);
  if (style.display === "none") return;
  const opacity = parseFloat(style.opacity);
  if (element.matches(SHAPES)) {
    if (style.visibility === "hidden") return;
    context.setTransform(transformOf(element));
    return paintShape(context, element, style, opacity);
  }
  if (opacity === 1 || !element.children.length) {
    for (const child of element.children) paint(context, child, transformOf);
    return;
  }
  // The opacity applies to the group as a whole, so that overlapping shapes do not become darker.
  const layer = newCanvas(context.canvas.width, context.canvas.height);
  const layerContext = layer.getContext("2d");
  for (const child of element.children) paint(layerContext, child, transformOf);
  context.resetTransform();
  context.globalAlpha = opacity;
  context.drawImage(layer, 0, 0);
  context.globalAlpha = 1;
}

function paintShape(context, element, style, opacity) {
  const filled = style.fill !== "none", stroked = style.stroke !== "none";
  context.fillStyle = filled ? style.fill : "transparent";
  context.strokeStyle = stroked ? style.stroke : "transparent";
  context.lineWidth = parseFloat(style.strokeWidth) || 1;
  context.lineCap = style.strokeLinecap || "butt";
  const dashes = style.strokeDasharray;
  context.setLineDash(dashes === "none" ? [] : dashes.split(/[ ,]+/).map(parseFloat));
  context.globalAlpha = opacity * parseFloat(style.fillOpacity || 1);
  if (element.tagName === "text") {
    if (filled) paintText(context, element, style);
    return;
  }
  const path = shapePath(element);
  if (filled && element.tagName !== "line") context.fill(path);
  context.globalAlpha = opacity * parseFloat(style.strokeOpacity || 1);
  if (stroked) context.stroke(path);
}

function paintText(context, element, style) {
  context.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  context.textAlign = { start: "left", middle: "center", end: "right" }[style.textAnchor];
  const central = ["central", "middle"].includes(style.dominantBaseline);
  context.textBaseline = central ? "middle" : "alphabetic";
  context.fillText(element.textContent, number(element, "x"), number(element, "y"));
}

const number = (element, name) => parseFloat(element.getAttribute(name) ?? 0) || 0;

function shapePath(element) {
  const get = (name) => number(element, name);
  const path = new Path2D(element.tagName === "path" ? element.getAttribute("d") : undefined);
  if (element.tagName === "rect") {
    path.roundRect(get("x"), get("y"), get("width"), get("height"), get("rx"));
  } else if (element.tagName === "circle") {
    path.arc(get("cx"), get("cy"), get("r"), 0, 2 * Math.PI);
  } else if (element.tagName === "line") {
    path.moveTo(get("x1"), get("y1"));
    path.lineTo(get("x2"), get("y2"));
  } else if (element.points) {
    [...element.points].forEach(({ x, y }, i) => (i ? path.lineTo(x, y) : path.moveTo(x, y)));
    if (element.tagName === "polygon") path.closePath();
  }
  return path;
}
