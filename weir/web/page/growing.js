// A run that goes on in virtual time, as the model that the page draws.

import { recordedModel } from "./recorded.js";

export class GrowingRun {
  /** `about` describes the run as a recorded one; `header` has the columns of its rows. */
  constructor(about, header) {
    this.header = header;
    this.run = {
      ...about, about: about.directory, at_ms: [], columns: Object.fromEntries(header.slice(1).map((name) => [name, []])),
      pauses: [], marks: [], losses: [], drops: [], deadlock: null, duration_ms: 0,
    };
    this.length = about.duration_ms;
    this.queues = new Map();
    this.cycle = "";
    this.model = null;
  }

  /** Takes in what the server tells, and brings the model up to date. */
  add({ rows, events, at_ms, deadlock_ms }) {
    const { run } = this;
    for (const [at, ...values] of rows) {
      run.at_ms.push(at / 1000);
      values.forEach((value, n) => run.columns[this.header[n + 1]].push(value));
    }
    for (const [at, port, cls, kind, detail] of events) this.event(Number(at) / 1000, port, cls, kind, detail);
    run.duration_ms = Math.max(at_ms, run.at_ms.at(-1) ?? 0);
    run.pauses = [...this.queues.values()].map(({ port, cls, spans }) => ({
      port, class: cls, to_peer: spans.to_peer.map(([from, to]) => [from, to ?? run.duration_ms]), by_peer: spans.by_peer.map(([from, to]) => [from, to ?? run.duration_ms]),
      stages: [], drops: [],
    }));
    const ports = this.cycle.replace(/, class.*/, "").split(" -> ").slice(0, -1);
    run.deadlock = deadlock_ms == null || !this.cycle ? null : { cycle: this.cycle, ports, since_ms: deadlock_ms, dissolved_ms: null };
    const gauges = run.gauges;
    const has = (name) => this.header.some((column) => column.endsWith(`.${name}`) && run.columns[column]?.some((value) => value != null));
    const model = recordedModel({ ...run, gauges: gauges.filter(({ name }) => has(name)) });
    model.length = this.length;
    model.isGrowing = true;
    // Views keep the model that they were opened with.
    this.model = Object.assign(this.model ?? {}, model);
  }

  event(at, port, cls, kind, detail) {
    const { run } = this;
    if (kind === "deadlock") this.cycle = detail;
    if (kind === "deadlock" || kind === "mark") run.marks.push([at, kind === "mark" ? detail : `deadlock: ${detail}`]);
    if (kind === "drop") {
      const isLossless = run.ports.some((of) => of.name === port && of.lossless.includes(Number(cls)));
      run.drops.push({ at, port, cls: Number(cls), isLossless, frames: Number(detail.split(" ").at(-1)) });
    }
    const list = { pause_sent: "to_peer", resume_sent: "to_peer", pause_received: "by_peer", resume_received: "by_peer" }[kind];
    if (!list) return;
    const key = `${port}.${cls}`;
    if (!this.queues.has(key)) this.queues.set(key, { port, cls: Number(cls), spans: { to_peer: [], by_peer: [] } });
    const spans = this.queues.get(key).spans[list];
    const isOpen = spans.length > 0 && spans.at(-1)[1] == null;
    if (kind.startsWith("pause")) { if (!isOpen) spans.push([at, null]); }
    else if (isOpen) spans.at(-1)[1] = at;
  }
}
