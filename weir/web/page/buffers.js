// Each switch's pool and queues, with segments, thresholds and states.

import { bytes, element, shortRate } from "./words.js";

/** Rows at most; a fabric has more queues than anybody reads. */
const ROWS_MAX = 60;
const WIDTH = 300;

export class BuffersView {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
  }

  open(model) {
    this.model = model;
    const queues = shownQueues(model);
    this.shown = queues.map((queue) => queue.id).join(" ");
    this.rows = [];
    this.pools = [];
    const cards = model.switches.map(({ name, policy }) => {
      const own = queues.filter((queue) => model.ports[queue.port].switch === name);
      const pool = element("rect", { class: "shared", height: 10, width: 0 });
      const words = element("span", { class: "words" });
      this.pools.push({ name, pool, words });
      const list = element("div", { class: "queues" }, ...own.map((queue) => this.row(queue)));
      const bar = element("svg", { viewBox: `0 0 ${WIDTH} 10`, preserveAspectRatio: "none", class: "pool", "aria-hidden": "true" }, pool, element("rect", { class: "frame", width: WIDTH, height: 10 }));
      return element("article", {}, element("h3", {}, name, element("small", {}, ` ${policy}`)), element("div", { class: "pool-row" }, bar, words), list);
    });
    this.place.replaceChildren(...cards);
    const left = usedQueues(model).length - queues.length;
    if (left > 0) this.place.append(element("p", { class: "note" }, `${left} queues more are not shown; choose one under “Over time”.`));
  }

  row(queue) {
    const { model } = this;
    const bar = (kind, height, y) => element("rect", { class: kind, height, y, width: 0 });
    const parts = { shared: bar("shared", 12, 1), headroom: bar("headroom", 12, 1), hatch: element("rect", { fill: "url(#hatch)", height: 12, y: 1, width: 0 }), egress: bar("egress", 5, 16) };
    const threshold = element("g", { visibility: "hidden" }, element("path", { class: "threshold", d: "M0 0V14" }), element("path", { class: "threshold-head", d: "M0 4l-4-4h8z" }));
    const svg = element("svg", { viewBox: `0 0 ${WIDTH} 22`, "aria-hidden": "true" }, element("rect", { class: "ground", width: WIDTH, height: 12, y: 1 }), ...Object.values(parts), threshold);
    const words = element("span", { class: "words" });
    const chips = element("span", { class: "chips" });
    const button = element("button", { type: "button", title: "Show over time", onclick: () => this.choose(queue.port, queue.cls) }, `${model.ports[queue.port].name} · ${queue.cls}`);
    const row = element("div", { class: "queue" }, button, svg, element("div", { class: "said" }, words, chips));
    this.rows.push({ queue, row, ...parts, threshold, words, chips, shown: "" });
    return row;
  }

  show(moment, chosen) {
    const { model } = this;
    // Queues of a running switch begin to be used.
    if (model.kind === "live" && shownQueues(model).map((queue) => queue.id).join(" ") !== this.shown) this.open(model);
    for (const { name, pool, words } of this.pools) {
      const [used, capacity] = [moment.value(`${name}.pool`), moment.value(`${name}.capacity`)];
      pool.setAttribute("width", capacity ? Math.min(1, used / capacity) * WIDTH : 0);
      words.textContent = capacity ? `${bytes(used)} of ${bytes(capacity)} shared` : "";
    }
    for (const row of this.rows) this.showRow(row, moment, chosen);
  }

  showRow(row, moment, chosen) {
    const { queue } = row;
    const value = (name) => moment.value(`${queue.id}.${name}`);
    const [shared, headroom, threshold, egress] = ["shared", "headroom", "threshold", "egress"].map(value);
    const scale = WIDTH / this.scaleOf(queue);
    const width = (amount) => Math.min(WIDTH, Math.max(0, (amount ?? 0) * scale));
    const chips = chipsOf(this.model, queue, moment);
    const isChosen = chosen === queue.id;
    const shown = [width(shared), width(headroom), width(threshold), width(egress), isChosen, ...chips].join("|");
    if (shown === row.shown) return;
    row.shown = shown;
    row.row.classList.toggle("chosen", isChosen);
    row.shared.setAttribute("width", width(shared));
    for (const part of [row.headroom, row.hatch]) {
      part.setAttribute("x", width(shared));
      part.setAttribute("width", Math.min(WIDTH - width(shared), headroom > 0 ? Math.max(3, width(headroom)) : 0));
    }
    row.egress.setAttribute("width", width(egress));
    const hasThreshold = threshold != null && queue.isLossless;
    row.threshold.setAttribute("visibility", hasThreshold ? "visible" : "hidden");
    if (hasThreshold) row.threshold.setAttribute("transform", `translate(${Math.max(4, Math.min(WIDTH - 4, threshold * scale)).toFixed(1)} 0)`);
    const held = [`in ${bytes((shared ?? 0) + (headroom ?? 0))}`];
    if (headroom > 0) held.push(`(${bytes(headroom)} headroom)`);
    if (hasThreshold) held.push(`of ${bytes(threshold)}`);
    held.push(`· out ${bytes(egress)}`);
    row.words.textContent = held.join(" ");
    row.chips.replaceChildren(...chips.map((chip) => element("span", { class: chip.includes("its peer") && chip.startsWith("pause") ? "chip bad" : "chip" }, chip)));
  }

  /** A scale for all queues of a switch, with what any of them holds at most and most thresholds on it. */
  scaleOf(queue) {
    const { model } = this;
    const of = model.ports[queue.port].switch;
    if (this.scales?.model !== model || this.scales.samples !== model.at.length) this.scales = { model, samples: model.at.length, of: new Map() };
    if (!this.scales.of.has(of)) {
      let [most, threshold] = [1, 0];
      for (const { queue: other } of this.rows.filter(({ queue }) => model.ports[queue.port].switch === of)) {
        const column = (name) => model.columns.get(`${other.id}.${name}`) ?? [];
        const headroom = column("headroom");
        column("shared").forEach((shared, n) => { most = Math.max(most, (shared ?? 0) + (headroom[n] ?? 0)); });
        for (const egress of column("egress")) most = Math.max(most, egress ?? 0);
        if (other.isLossless) for (const limit of column("threshold")) threshold = Math.max(threshold, limit ?? 0);
      }
      // A threshold that is far above all queues is no reason to draw these too small to be seen.
      this.scales.of.set(of, Math.max(most * 1.05, Math.min(threshold * 1.1, most * 8)));
    }
    return this.scales.of.get(of);
  }
}

/** States of a queue, in words. */
function chipsOf(model, queue, moment) {
  const chips = [];
  const value = (name) => moment.value(`${queue.id}.${name}`);
  if (moment.isPaused(queue, "told")) chips.push("pauses its peer");
  if (value("off") === 2) chips.push("port OFF");
  else if (value("off") === 1 && !moment.isPaused(queue, "told")) chips.push("OFF");
  if (moment.isPaused(queue, "heard")) chips.push("paused by its peer");
  const rate = value("rate");
  const line = model.ports[queue.port].rate;
  if (rate != null && line != null && rate < line * 0.999) chips.push(`▽ ${model.kind === "live" ? "may send at" : "lets its peer send at"} ${shortRate(rate)}b/s`);
  for (const { name, on } of model.gauges) {
    const gauge = value(`gauge.${name}`);
    if (gauge == null) continue;
    if (on) { if (gauge > 0) chips.push(`◆ ${on}`); }
    else if (name.endsWith("_bytes")) chips.push(`${name.slice(0, -6).replaceAll("_", " ")} ${bytes(gauge)}`);
    else chips.push(`${name.replaceAll("_", " ")} ${gauge}`);
  }
  return chips;
}

/** Queues that ever held or carried something, or are lossless. */
function usedQueues(model) {
  const isUsed = (queue) => ["shared", "headroom", "egress", "rx"].some((name) => model.columns.get(`${queue.id}.${name}`)?.some((value) => value > 0));
  return model.queues.filter((queue) => !model.ports[queue.port].isClone && (queue.isLossless || isUsed(queue)));
}

function shownQueues(model) {
  const used = usedQueues(model);
  if (used.length <= ROWS_MAX) return used;
  const most = new Map(used.map((queue) => [queue, Math.max(...["shared", "headroom", "egress"].map((name) => (model.columns.get(`${queue.id}.${name}`) ?? []).reduce((most, value) => Math.max(most, value ?? 0), 0)))]));
  const kept = new Set([...used].sort((one, other) => most.get(other) - most.get(one)).slice(0, ROWS_MAX));
  return used.filter((queue) => kept.has(queue));
}
