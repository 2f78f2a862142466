/**
 * The pointer and the keyboard over a heatmap. Assistive technology sees a grid of which only the
 * current cell is there, with its row and column numbers: 22,500 elements would be a burden.
 */

import { freshId, h } from "../frame/elements.js";

const MANY = 10;

export class HeatmapCursor {
  /**
   * The `layout` of the picture and its `name`; `say(at)` gives a cell `{row, column}` as text;
   * `onlight(at, aloud)` is called for the cell to read out, `aloud` where no focus reads it already,
   * `onmove(at)` for the one moved to, and `onpick(at)` for one whose word was chosen.
   */
  constructor({ layout, name, say, onlight, onmove, onpick }) {
    Object.assign(this, { layout, say, onlight, onmove, onpick });
    // Two by turns: where the active element stays the same, a new name need not be read.
    [this.cell, this.spare] = [gridcell(), gridcell()];
    this.spare.hidden = true;
    this.row = h("div", { role: "row" }, this.cell, this.spare);
    this.bands = { chosen: band("chosen"), row: band("row"), column: band("column") };
    this.element = h(
      "div",
      {
        class: "cells", role: "grid", tabindex: "0", "aria-label": name, "aria-readonly": "true",
        "aria-rowcount": layout.count, "aria-colcount": layout.count,
        "aria-activedescendant": this.cell.id,
        onpointermove: (event) => this.#pointed(event),
        onpointerleave: () => this.#light(this.at, false),
        onclick: (event) => this.#clicked(event),
        onkeydown: (event) => this.#pressed(event),
      },
      this.row,
      ...Object.values(this.bands),
    );
    box(this.element, layout.left, layout.top, layout.side, layout.side);
  }

  /** Mark the cell of the address, and the row of the chosen word. */
  show(at, chosen) {
    const { cell, side } = this.layout;
    if (this.at && (at.row !== this.at.row || at.column !== this.at.column)) this.#swap();
    this.at = at;
    box(this.bands.chosen, 0, chosen * cell, side, cell);
    box(this.cell, at.column * cell, at.row * cell, cell, cell);
    this.row.setAttribute("aria-rowindex", at.row + 1);
    this.cell.setAttribute("aria-colindex", at.column + 1);
    this.cell.setAttribute("aria-label", this.say(at));
    this.#light(at, document.activeElement !== this.element);
  }

  #swap() {
    [this.cell, this.spare] = [this.spare, this.cell];
    this.spare.hidden = true;
    this.cell.hidden = false;
    this.element.setAttribute("aria-activedescendant", this.cell.id);
  }

  #light(at, aloud) {
    const { cell, side } = this.layout;
    box(this.bands.row, 0, at.row * cell, side, cell);
    box(this.bands.column, at.column * cell, 0, cell, side);
    this.lit = at;
    this.onlight(at, aloud);
  }

  #under(event) {
    const { left, top, width } = this.element.getBoundingClientRect();
    const number = (pixels) =>
      Math.min(Math.max(Math.floor((pixels / width) * this.layout.count), 0), this.layout.count - 1);
    return { row: number(event.clientY - top), column: number(event.clientX - left) };
  }

  #pointed(event) {
    const at = this.#under(event);
    if (at.row === this.lit.row && at.column === this.lit.column) return;
    this.#light(at, true);
  }

  #clicked(event) {
    this.onpick(this.#under(event));
  }

  #pressed(event) {
    if (event.altKey || event.metaKey) return;
    if (event.key === "Enter" || event.key === " ") this.onpick(this.at);
    else if (MOVES[event.key]) this.#move(MOVES[event.key](this.at, this.layout.count - 1, event.ctrlKey));
    else return;
    event.preventDefault();
  }

  #move({ row, column }) {
    const last = this.layout.count - 1, kept = (number) => Math.min(Math.max(number, 0), last);
    this.onmove({ row: kept(row), column: kept(column) });
  }
}

const MOVES = {
  ArrowUp: ({ row, column }) => ({ row: row - 1, column }),
  ArrowDown: ({ row, column }) => ({ row: row + 1, column }),
  ArrowLeft: ({ row, column }) => ({ row, column: column - 1 }),
  ArrowRight: ({ row, column }) => ({ row, column: column + 1 }),
  PageUp: ({ row, column }) => ({ row: row - MANY, column }),
  PageDown: ({ row, column }) => ({ row: row + MANY, column }),
  Home: ({ row }, last, control) => ({ row: control ? 0 : row, column: 0 }),
  End: ({ row }, last, control) => ({ row: control ? last : row, column: last }),
};

const gridcell = () =>
  h("div", { class: "cell", role: "gridcell", id: freshId("cell"), "aria-selected": "true" });

const band = (name) => h("div", { class: `band ${name}`, "aria-hidden": "true" });

function box(element, left, top, width, height) {
  Object.assign(element.style, {
    left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px`,
  });
}
