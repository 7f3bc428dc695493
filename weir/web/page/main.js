// The page: a running switch, or a run that is played.
//
// Both are a model: `ports`, `queues` (a port and class), `links` and `hosts` by the ports that they are at, samples as columns by
// name over the instants `at` in ms (`QUEUE.shared`, `.headroom`, `.threshold`, `.egress`, `.rx`, `.rate`, `.gauge.NAME`; `PORT.rx`,
// `.tx`, `.up`; `SWITCH.pool`, `.capacity`), `pauses` with exact times, `events`, `losses`.

import { BuffersView } from "./buffers.js";
import { ChartsView } from "./charts.js";
import { follow } from "./live.js";
import { PausesView } from "./pauses.js";
import { Player, sampleAt } from "./player.js";
import { PortsView, lossWords } from "./ports.js";
import { chooser, readRun } from "./recorded.js";
import { TablesView } from "./tables.js";
import { TopologyView } from "./topology.js";
import { element, inOrder, moment as momentWords } from "./words.js";

const find = (id) => document.getElementById(id);
const within = (selector) => document.querySelector(selector);

/** The model at an instant. */
class Moment {
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

class Page {
  constructor() {
    this.queue = null;
    const choose = (port, cls) => this.choose(port, cls);
    const seek = (at) => { this.player.pause(); this.player.go(at); };
    this.ports = new PortsView(within("#ports .matrix"), choose);
    this.topology = new TopologyView(within("#topology .drawing"), choose);
    this.buffers = new BuffersView(within("#buffers .switches"), choose);
    this.charts = new ChartsView(within("#plots .charts"), seek);
    this.pauses = new PausesView(within("#pauses .timeline"), seek);
    this.tables = new TablesView(within("#events .wide"), within("#losses .wide"));
    this.player = new Player((at) => this.show(at));
    find("queue").addEventListener("change", () => this.chooseQueue(this.model.queues.find((queue) => queue.id === find("queue").value)));
    find("help-button").addEventListener("click", () => this.toggleHelp());
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
      if (event.key === "?") this.toggleHelp();
      else if (event.key === "n") this.nextQueue(1);
      else if (event.key === "p") this.nextQueue(-1);
    });
  }

  open(model, speed) {
    this.model = model;
    find("message").hidden = true;
    // Room for it from the beginning: nothing is to move when it is told.
    find("alarm").hidden = !model.deadlock && model.kind !== "live";
    find("ports").hidden = model.kind !== "live";
    find("about").textContent = model.about;
    document.body.classList.toggle("many", model.switches.length > 6);
    this.queues = [...model.queues].filter((queue) => !model.ports[queue.port].isClone).sort((one, other) => inOrder(one.id, other.id));
    find("queue").replaceChildren(...this.queues.map((queue) => element("option", { value: queue.id }, `${model.ports[queue.port].id}, class ${queue.cls}`)));
    this.queue = this.queues.find((queue) => queue.id === this.queue?.id) ?? fullest(model, this.queues);
    find("queue").value = this.queue?.id ?? "";
    this.ports.open(model);
    this.topology.open(model);
    this.buffers.open(model);
    this.pauses.open(model);
    this.tables.open(model);
    this.charts.open(model, this.queue);
    this.player.open(model, speed);
  }

  show(at) {
    const moment = new Moment(this.model, at);
    this.alarm(moment);
    this.ports.show(moment);
    this.topology.show(moment);
    this.buffers.show(moment, this.queue?.id);
    this.charts.show(moment);
    this.pauses.show(moment);
    this.tables.show(moment);
  }

  alarm({ deadlock }) {
    const text = deadlock ? `Deadlock since ${momentWords(deadlock.since_ms, this.model.end)}: ${deadlock.cycle.replaceAll("->", "→")}. Each of these queues waits for the next.` : lossWords(this.model);
    const place = find("alarm");
    // Screen readers say what changes, and only that.
    if (place.textContent !== text) place.textContent = text;
    place.classList.toggle("quiet", !text);
  }

  choose(port, cls) {
    const own = this.queues.filter((queue) => queue.port === port);
    this.chooseQueue(own.find((queue) => queue.cls === cls) ?? own.find((queue) => queue.isLossless) ?? own[0]);
  }

  chooseQueue(queue) {
    if (!queue) return;
    this.queue = queue;
    find("queue").value = queue.id;
    this.charts.open(this.model, queue);
    this.show(this.player.at);
  }

  nextQueue(by) {
    const place = this.queues.indexOf(this.queue);
    if (place >= 0) this.chooseQueue(this.queues[(place + by + this.queues.length) % this.queues.length]);
  }

  toggleHelp() {
    const help = find("help");
    help.hidden = !help.hidden;
    find("help-button").setAttribute("aria-expanded", String(!help.hidden));
  }

  fail(text) {
    find("message").textContent = text;
    find("message").hidden = false;
  }
}

/** The queue that holds most at its most, a lossless one if there is any. */
function fullest(model, queues) {
  const most = (queue) => (model.columns.get(`${queue.id}.shared`) ?? []).reduce((most, value) => Math.max(most, value ?? 0), queue.isLossless ? 1 : 0);
  return queues.reduce((best, queue) => !best || most(queue) > most(best) ? queue : best, null);
}

async function start() {
  const page = new Page();
  // For whoever drives the page by a script.
  window.weir = page;
  const source = await (await fetch("/api/source")).json();
  document.body.classList.add(source.kind);
  if (source.kind === "live") {
    document.title = "Weir, live";
    const said = find("connection");
    follow((model) => page.open(model), () => { page.charts.grown(); page.player.grown(); }, (state, why) => {
      said.textContent = state === "live" ? "● live" : `○ ${why}`;
      said.className = state;
    });
    return;
  }
  document.title = `Weir: ${source.title}`;
  const select = find("run");
  chooser(source.runs, select);
  find("run-choice").hidden = false;
  const read = async () => {
    try {
      page.player.pause();
      page.open(await readRun(Number(select.value)), source.speed);
      location.hash = select.value;
    } catch (error) {
      page.fail(`This run can't be shown: ${error.message}`);
    }
  };
  select.addEventListener("change", read);
  const wanted = Number(location.hash.slice(1));
  if (wanted > 0 && wanted < source.runs.length) select.value = String(wanted);
  await read();
}

start().catch((error) => {
  find("message").textContent = `The page can't be shown: ${error.message}`;
  find("message").hidden = false;
});
