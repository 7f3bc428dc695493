// One of two runs side by side, or the run of the menu: its links, a queue and its flows over time.

import { ChartsView } from "./charts.js";
import { Moment } from "./moment.js";
import { TopologyView } from "./topology.js";
import { element, moment as momentWords } from "./words.js";

export class Pane {
  /** `seek(at)` goes to a moment; `choose(port, cls)` chooses a queue. */
  constructor(place, seek, choose) {
    this.label = element("h2", {});
    this.state = element("p", { class: "pane-state", role: "status" });
    const drawing = element("div", { class: "drawing" });
    const charts = element("div", { class: "charts" });
    this.root = element("article", { class: "pane" }, element("header", {}, this.label, this.state), drawing, charts);
    place.append(this.root);
    this.topology = new TopologyView(drawing, (port, cls) => choose(this, port, cls), { isFlat: true });
    this.places = [0, 1].map(() => element("div", {}));
    charts.append(...this.places);
    this.seek = seek;
    this.charts = [];
  }

  /** A run; the charts are of the queues of these ids, or `flows` or `pools`. */
  open(label, model, charts) {
    this.model = model;
    this.label.textContent = label;
    this.topology.open(model);
    this.charts = charts.map((chart, n) => ({ view: new ChartsView(this.places[n], this.seek, { kinds: [["flows", "pools"].includes(chart) ? chart : "queue"], height: 140, font: 15 }), id: chart }));
    this.charts.forEach(({ view, id }) => view.open(model, model.queues.find((queue) => queue.id === id) ?? model.queues.find((queue) => queue.isLossless) ?? model.queues[0]));
  }

  /** Draws another queue in the first chart. */
  chooseQueue(queue) {
    this.charts[0].view.open(this.model, queue);
  }

  grown() {
    this.charts.forEach(({ view }) => view.grown());
  }

  show(at) {
    const moment = new Moment(this.model, Math.min(at, this.model.end));
    this.topology.show(moment);
    this.charts.forEach(({ view }) => view.show(moment));
    const [kind, text] = stateWords(this.model, moment);
    if (this.state.textContent !== text) this.state.textContent = text;
    this.state.className = `pane-state ${kind}`;
  }
}

/** State of a run at a moment, with its kind: `bad`, `lossy` or `good`. */
function stateWords(model, { at, deadlock }) {
  if (deadlock) return ["bad", `✖ DEADLOCK since ${momentWords(deadlock.since_ms, model.end)}`];
  const drops = model.drops.filter((drop) => drop.at <= at);
  const frames = (drops) => drops.every((drop) => drop.frames != null) ? `${drops.reduce((sum, drop) => sum + drop.frames, 0).toLocaleString("en-US")} ` : "";
  const lossless = drops.filter((drop) => drop.isLossless);
  if (lossless.length > 0) return ["bad", `▼ ${frames(lossless)}LOSSLESS frames lost so far`];
  if (drops.length > 0) return ["lossy", `▼ ${frames(drops)}lossy frames dropped so far`];
  return ["good", "✓ no deadlock, no frame lost so far"];
}
