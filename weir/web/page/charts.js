// The chosen queue, its port's rates, and flows over time, with a line at the moment that is shown.

import { bytes, element, rate } from "./words.js";

/** So much of a running switch is shown. */
const WINDOW_MS = 60_000;
/** So much of a run that goes on is shown. */
const GROWING_MS = 20;
/** A limit is drawn up to so many times the rest; one far above would make the rest too small to see. */
const LIMIT_MAX = 1.6;
const DASHES = [undefined, [7, 4], [2, 3], [10, 3, 2, 3]];

export class ChartsView {
  /** `kinds` are the charts that are drawn; their height and the letters of their axes are in pixels. */
  constructor(place, seek, { kinds = ["queue", "port", "pools", "flows"], height = 190, font = 12 } = {}) {
    this.place = place;
    this.seek = seek;
    [this.kinds, this.height, this.font] = [kinds, height, font];
    this.charts = [];
    this.at = 0;
    new ResizeObserver(() => this.resize()).observe(place);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.model && this.open(this.model, this.queue));
  }

  open(model, queue) {
    this.model = model;
    this.queue = queue;
    this.charts.forEach(({ uplot }) => uplot.destroy());
    this.charts = [];
    /** Lines without a value so far. */
    this.unknown = [];
    this.place.replaceChildren();
    if (!queue || model.at.length === 0) return;
    const { id } = queue;
    const port = model.ports[queue.port];
    const line = (column, label, color, dash, more = {}) => ({ column, label, color, dash, ...more });
    this.add("queue", `${id}: bytes`, bytes, [
      line(`${id}.shared`, "private, shared", 0, 0, { isFilled: true }), line(`${id}.headroom`, "headroom", 1, 1), line(`${id}.threshold`, "threshold", 6, 2, { isLimit: true }), line(`${id}.egress`, "egress queue", 2, 3),
    ]);
    this.add("port", `${port.id}: bits a second`, rate, [
      line(`${id}.rx`, `received, class ${queue.cls}`, 0, 0), line(`${port.id}.tx`, "sent", 2, 1), line(`${id}.rate`, model.kind === "live" ? "rate set by the peer" : "rate set to the peer", 1, 2),
    ]);
    const pools = model.switches.slice(0, 6).map(({ name }, n) => line(`${name}.pool`, name, n, n % 4));
    this.add("pools", "shared buffers in use: bytes", bytes, pools);
    if (model.flows.length > 0) {
      const flows = model.flows.slice(0, 7).map(({ name }, n) => line(`flow.${name}`, name, n, n % 4));
      this.add("flows", `payload received${model.flows.length > 7 ? ", of the first seven flows" : ""}: bits a second`, rate, flows);
    }
  }

  isKnown({ column }) {
    return this.model.columns.get(column)?.some((value) => value != null) ?? false;
  }

  add(kind, title, words, lines) {
    if (!this.kinds.includes(kind)) return;
    const known = lines.filter((line) => this.isKnown(line));
    this.unknown.push(...lines.filter((line) => !this.isKnown(line)));
    if (known.length === 0) return;
    const figure = element("figure", {}, element("figcaption", {}, title));
    this.place.append(figure);
    const chart = { words, lines: known, figure };
    chart.uplot = new uPlot(this.options(chart), this.data(chart), figure);
    this.charts.push(chart);
  }

  data({ lines }) {
    const seconds = this.model.kind === "live" || this.model.end > 20_000;
    const at = this.model.at.map((at) => (this.model.kind === "live" ? at - this.model.end : at) / (seconds ? 1000 : 1));
    return [at, ...lines.map(({ column }) => this.model.columns.get(column))];
  }

  range() {
    const { kind, end, isGrowing } = this.model;
    if (kind === "live") return [-WINDOW_MS / 1000, 0];
    if (isGrowing) return [Math.max(0, this.at - GROWING_MS), Math.max(GROWING_MS, this.at)];
    return [0, end > 20_000 ? end / 1000 : end];
  }

  /** A moment as the axes have it. */
  toAxis(at) {
    const { kind, end } = this.model;
    return kind === "live" ? (at - end) / 1000 : end > 20_000 ? at / 1000 : at;
  }

  fromAxis(x) {
    const { kind, end } = this.model;
    return kind === "live" ? x * 1000 + end : end > 20_000 ? x * 1000 : x;
  }

  options({ words, lines }) {
    const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
    const font = `${this.font}px ${getComputedStyle(document.body).fontFamily}`;
    const axis = { stroke: style("--dim"), font, grid: { stroke: style("--grid"), width: 1 }, ticks: { stroke: style("--grid"), width: 1, size: 4 }, gap: 4 };
    const unit = this.model.kind === "live" || this.model.end > 20_000 ? "s" : "ms";
    const color = (n) => style(`--color-${n}`);
    return {
      width: this.width(), height: this.height, padding: [8, 24, 0, 0],
      scales: { x: { time: false, range: () => this.range() }, y: { range: (u, _, most) => [0, most > 0 ? Math.min(most, held(u, lines) * LIMIT_MAX) * 1.05 : 1] } },
      axes: [{ ...axis, size: 16 + this.font, values: (_, values) => values.map((value) => `${value} ${unit}`), space: 6 * this.font }, { ...axis, values: (_, values) => values.map((value) => value === 0 ? "0" : words(value)), size: 6.2 * this.font }],
      series: [
        { label: unit, value: (_, value) => value == null ? "–" : String(Number(value.toPrecision(6))) },
        ...lines.map((line) => ({
          label: line.label, stroke: color(line.color), width: 1.7, dash: DASHES[line.dash], points: { show: false }, fill: line.isFilled ? `${color(line.color)}33` : undefined,
          value: (_, value) => value == null ? "–" : words(value),
        })),
      ],
      legend: { markers: { dash: (_, n) => ({ 1: "dashed", 2: "dotted", 3: "double" })[lines[n - 1]?.dash] ?? "solid" } },
      cursor: { sync: { key: "all" }, drag: { x: false, y: false } },
      hooks: {
        draw: [(u) => this.drawNow(u)],
        setCursor: [(u) => this.tellNow(u)],
        ready: [(u) => u.over.addEventListener("click", () => { if (u.cursor.left >= 0) this.seek(this.fromAxis(u.posToVal(u.cursor.left, "x"))); })],
      },
    };
  }

  /** The legend has the moment's values, unless the pointer asks for another one's. */
  tellNow(u) {
    if (u.cursor.left >= 0) return;
    const [at] = u.data, now = this.toAxis(this.at);
    let [low, high] = [0, at.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (at[middle] > now + 1e-9) high = middle;
      else low = middle + 1;
    }
    u.setLegend({ idx: low > 0 ? low - 1 : null }, false);
  }

  drawNow(u) {
    const x = u.valToPos(this.toAxis(this.at), "x", true);
    const { left, top, width, height } = u.bbox;
    if (x < left || x > left + width) return;
    u.ctx.save();
    u.ctx.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--ink").trim();
    u.ctx.lineWidth = 1.5 * devicePixelRatio;
    u.ctx.setLineDash([]);
    u.ctx.beginPath();
    u.ctx.moveTo(x, top);
    u.ctx.lineTo(x, top + height);
    u.ctx.stroke();
    u.ctx.restore();
  }

  width() {
    const style = getComputedStyle(this.place);
    const columns = style.gridTemplateColumns.split(" ").length;
    return Math.max(240, (this.place.clientWidth - (columns - 1) * (parseFloat(style.columnGap) || 0)) / columns);
  }

  resize() {
    const width = this.width();
    this.charts.forEach(({ uplot }) => { if (Math.abs(uplot.width - width) > 1) uplot.setSize({ width, height: this.height }); });
  }

  show(moment) {
    this.at = moment.at;
    this.charts.forEach(({ uplot }) => {
      if (this.model.isGrowing) uplot.setScale("x", { min: this.range()[0], max: this.range()[1] });
      else uplot.redraw(false, false);
      this.tellNow(uplot);
    });
  }

  /** After samples were added. */
  grown() {
    // A line may have its first value now.
    if (!this.unknown || this.charts.length === 0 || this.unknown.some((line) => this.isKnown(line))) return this.open(this.model, this.queue);
    this.charts.forEach((chart) => chart.uplot.setData(this.data(chart)));
  }
}

/** The most of all lines but limits, in the range that is drawn; without limits, no bound. */
function held(u, lines) {
  if (!lines.some((line) => line.isLimit)) return Infinity;
  const { min, max } = u.scales.x;
  let most = 0;
  u.data[0].forEach((x, n) => {
    if (x < min || x > max) return;
    lines.forEach((line, place) => { if (!line.isLimit) most = Math.max(most, u.data[place + 1][n] ?? 0); });
  });
  return most > 0 ? most : Infinity;
}
