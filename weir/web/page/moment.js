// A model at an instant.

import { sampleAt } from "./player.js";

export class Moment {
  constructor(model, at) {
    [this.model, this.at] = [model, at];
    this.sample = sampleAt(model.at, at);
    const { deadlock } = model;
    const isNow = deadlock && at >= deadlock.since_ms && (deadlock.dissolved_ms == null || at < deadlock.dissolved_ms);
    this.deadlock = isNow ? deadlock : null;
  }

  /** A column's value; null before the first sample. */
  value(column) {
    return this.sample < 0 ? null : this.model.columns.get(column)?.[this.sample] ?? null;
  }

  port(port, name) {
    return this.value(`${this.model.ports[port].id}.${name}`);
  }

  /** Whether the switch has its peer paused (`told`), or the peer the switch (`heard`). */
  isPaused({ port, cls }, way) {
    const row = this.model.pauses.find((row) => row.port === port && row.cls === cls);
    return row != null && covers(row[way], this.at);
  }

  /** The classes that are. */
  paused(port, way) {
    return this.model.pauses.filter((row) => row.port === port && covers(row[way], this.at)).map((row) => row.cls);
  }

  /** The lowest rate that a port has set its peer, or a running one has been set. */
  slowestRate(port) {
    const rates = this.model.queues.filter((queue) => queue.port === port).map((queue) => this.value(`${queue.id}.rate`)).filter((rate) => rate != null);
    return rates.length > 0 ? Math.min(...rates) : null;
  }
}

/** Whether a list of spans, in order, has one that an instant is in. */
function covers(spans, at) {
  let [low, high] = [0, spans.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans[middle][0] <= at) low = middle + 1;
    else high = middle;
  }
  return low > 0 && at <= spans[low - 1][1];
}
