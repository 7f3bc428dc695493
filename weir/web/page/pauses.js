// When which queue was paused: a row for each.

import { element } from "./words.js";

const ROWS_MAX = 128;
const HEIGHT = 22;

export class PausesView {
  constructor(place, seek) {
    this.place = place;
    this.seek = seek;
    new ResizeObserver(() => this.redraw()).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  open(model) {
    this.model = model;
    this.keys = "";
    this.at = model.start;
    this.build();
  }

  build() {
    const { model } = this;
    const rows = [...model.pauses].sort((one, other) => one.port - other.port || one.cls - other.cls);
    this.rows = rows.slice(0, ROWS_MAX);
    this.keys = this.keysOf();
    if (this.rows.length === 0) {
      this.place.replaceChildren(element("p", { class: "note" }, model.kind === "live" ? "No class has been paused while this page was open." : "No class was paused."));
      this.canvas = null;
      return;
    }
    this.canvas = element("canvas", { role: "img" });
    this.canvas.addEventListener("click", (event) => {
      const { left, width } = this.canvas.getBoundingClientRect();
      const [from, to] = this.range();
      this.seek(from + (event.clientX - left) / width * (to - from));
    });
    const names = this.rows.map(({ port, cls }) => element("div", { class: "name" }, `${model.ports[port].id} · ${cls}`));
    this.shares = this.rows.map(() => element("div", { class: "share" }));
    this.place.replaceChildren(element("div", { class: "names" }, ...names), this.canvas, element("div", { class: "shares" }, ...this.shares));
    if (rows.length > ROWS_MAX) this.place.append(element("p", { class: "note" }, `The first ${ROWS_MAX} of ${rows.length} queues.`));
    this.redraw();
  }

  keysOf() {
    return this.model.pauses.map(({ port, cls }) => `${port}.${cls}`).sort().join(" ");
  }

  range() {
    return this.model.kind === "live" ? [this.model.end - 60_000, this.model.end] : [this.model.start, this.model.end];
  }

  redraw() {
    if (!this.canvas) return;
    const scale = devicePixelRatio || 1;
    const [width, height] = [this.canvas.clientWidth, this.rows.length * HEIGHT];
    if (width === 0) return;
    this.canvas.width = Math.round(width * scale);
    this.canvas.height = Math.round(height * scale);
    this.canvas.style.height = `${height}px`;
    const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const [from, to] = this.range();
    const x = (at) => (at - from) / (to - from) * width;
    const hatch = hatched(context, style("--color-5"), scale);
    let words = [];
    this.rows.forEach((row, n) => {
      const top = n * HEIGHT;
      context.fillStyle = n % 2 ? style("--paper") : style("--shade");
      context.fillRect(0, top, width, HEIGHT);
      const half = HEIGHT / 2 - 2;
      const bars = (spans, y, draw) => {
        for (const [start, end, share] of spans) {
          if (end < from || start > to) continue;
          const height = half * (0.25 + 0.75 * share);
          draw(x(start), y + half - height, Math.max(1.5, x(end) - x(start)), height);
        }
      };
      context.fillStyle = style("--color-1");
      bars(row.told, top + 1, (...box) => context.fillRect(...box));
      context.strokeStyle = style("--color-5");
      context.fillStyle = hatch;
      bars(row.heard, top + HEIGHT / 2 + 1, (...box) => { context.fillRect(...box); context.strokeRect(box[0], box[1], box[2], box[3]); });
      const share = (spans) => 100 * spans.reduce((sum, [start, end, share]) => sum + Math.max(0, Math.min(end, to) - Math.max(start, from)) * share, 0) / (to - from);
      const text = [share(row.told), share(row.heard)].map((percent) => percent === 0 ? "0" : percent < 1 ? "<1" : percent.toFixed(0));
      this.shares[n].textContent = `${text[0]} | ${text[1]} %`;
      this.shares[n].title = `has its peer paused ${text[0]} % of the time, is paused ${text[1]} %`;
      words.push(`${this.model.ports[row.port].id} class ${row.cls} has its peer paused ${text[0]} % of the time and is paused ${text[1]} %`);
    });
    this.canvas.setAttribute("aria-label", words.join("; "));
    context.fillStyle = style("--ink");
    context.fillRect(x(this.at) - 0.75, 0, 1.5, height);
  }

  show(moment) {
    this.at = moment.at;
    if (this.keysOf() !== this.keys) this.build();
    else this.redraw();
  }
}

function hatched(context, color, scale) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = Math.round(6 * scale);
  const of = tile.getContext("2d");
  of.scale(scale, scale);
  of.strokeStyle = color;
  of.lineWidth = 1.6;
  for (const by of [-6, 0, 6]) {
    of.beginPath();
    of.moveTo(by, 6);
    of.lineTo(by + 6, 0);
    of.stroke();
  }
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / scale));
  return pattern;
}
