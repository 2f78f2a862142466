/**
 * A drawing of the page as a file that stands alone: SVG with its colours written out, or PNG.
 * The browser cannot turn SVG into an image here, since images come from the service alone
 * (`default-src 'self'`), so the few shapes that are drawn are painted one by one.
 */

const KEPT = [
  "fill", "fill-opacity", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray",
  "stroke-linecap", "opacity", "font-family", "font-size", "font-weight", "font-style",
  "text-anchor", "dominant-baseline",
];
const SHAPES = "rect, line, circle, path, text, polygon, polyline";
const MARGIN = 12;

/** The drawing as the text of an SVG file. */
export function standalone(svg) {
  const copy = svg.cloneNode(true);
  const originals = svg.querySelectorAll("*");
  // Found now: their class goes with all others.
  const unsaved = copy.querySelectorAll(".unsaved");
  copy.querySelectorAll("*").forEach((element, i) => {
    if (originals[i].matches(SHAPES)) write(element, getComputedStyle(originals[i]));
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
    fill: paperColour(svg),
  })) paper.setAttribute(name, value);
  copy.prepend(paper);
  return `<?xml version="1.0" encoding="UTF-8"?>\n${new XMLSerializer().serializeToString(copy)}\n`;
}

function write(element, style) {
  for (const name of KEPT) {
    const value = style.getPropertyValue(name);
    if (value && value !== "normal" && value !== "auto") element.setAttribute(name, value);
  }
}

/** The drawing's size in its own units: its viewBox. */
function sizeOf(svg) {
  const { width, height } = svg.viewBox.baseVal;
  return { width, height };
}

function paperColour(element) {
  return getComputedStyle(element.closest(".paper") ?? document.body).backgroundColor;
}

/** The drawing, of SVG or of a canvas, as the blob of a PNG file, `scale` pixels for each unit. */
export function png(drawing, scale = 2) {
  const canvas = drawing instanceof HTMLCanvasElement ? copied(drawing) : painted(drawing, scale);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}

function copied(original) {
  const canvas = sized(original.width, original.height);
  const context = canvas.getContext("2d");
  context.fillStyle = paperColour(original);
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(original, 0, 0);
  return canvas;
}

function painted(svg, scale) {
  const { width, height } = sizeOf(svg);
  const canvas = sized(Math.ceil((width + 2 * MARGIN) * scale), Math.ceil((height + 2 * MARGIN) * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = paperColour(svg);
  context.fillRect(0, 0, canvas.width, canvas.height);
  // From the screen's pixels, which matrices of elements lead to, back to the drawing's units.
  const root = svg.getScreenCTM().inverse();
  const place = (element) => {
    const { a, b, c, d, e, f } = root.multiply(element.getScreenCTM());
    return new DOMMatrix([scale, 0, 0, scale, MARGIN * scale, MARGIN * scale])
      .multiply(new DOMMatrix([a, b, c, d, e, f]));
  };
  for (const child of svg.children) paint(context, child, place);
  return canvas;
}

function sized(width, height) {
  const canvas = document.createElement("canvas");
  canvas.width = width;
  canvas.height = height;
  return canvas;
}

/** Paint an element and what is in it. */
function paint(context, element, place) {
  if (element.matches("defs, title, desc, .unsaved, [display='none']")) return;
  const style = getComputedStyle(element);
  if (style.display === "none") return;
  const opacity = parseFloat(style.opacity);
  if (element.matches(SHAPES)) {
    if (style.visibility === "hidden") return;
    context.setTransform(place(element));
    return shape(context, element, style, opacity);
  }
  if (opacity === 1 || !element.children.length) {
    for (const child of element.children) paint(context, child, place);
    return;
  }
  // What overlaps in a group that is seen through is not darker there: it is seen through once.
  const layer = sized(context.canvas.width, context.canvas.height);
  const within = layer.getContext("2d");
  for (const child of element.children) paint(within, child, place);
  context.resetTransform();
  context.globalAlpha = opacity;
  context.drawImage(layer, 0, 0);
  context.globalAlpha = 1;
}

function shape(context, element, style, opacity) {
  const filled = style.fill !== "none", stroked = style.stroke !== "none";
  context.fillStyle = filled ? style.fill : "transparent";
  context.strokeStyle = stroked ? style.stroke : "transparent";
  context.lineWidth = parseFloat(style.strokeWidth) || 1;
  context.lineCap = style.strokeLinecap || "butt";
  const dashes = style.strokeDasharray;
  context.setLineDash(dashes === "none" ? [] : dashes.split(/[ ,]+/).map(parseFloat));
  context.globalAlpha = opacity * parseFloat(style.fillOpacity || 1);
  if (element.tagName === "text") {
    if (filled) lettering(context, element, style);
    return;
  }
  const path = pathOf(element);
  if (filled && element.tagName !== "line") context.fill(path);
  context.globalAlpha = opacity * parseFloat(style.strokeOpacity || 1);
  if (stroked) context.stroke(path);
}

function lettering(context, element, style) {
  context.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
  context.textAlign = { start: "left", middle: "center", end: "right" }[style.textAnchor];
  const central = ["central", "middle"].includes(style.dominantBaseline);
  context.textBaseline = central ? "middle" : "alphabetic";
  context.fillText(element.textContent, number(element, "x"), number(element, "y"));
}

const number = (element, name) => parseFloat(element.getAttribute(name) ?? 0) || 0;

function pathOf(element) {
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
