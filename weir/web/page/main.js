// The page: a running switch, or a run that is played.
//
// Both are a model: `ports`, `queues` (a port and class), `links` and `hosts` by the ports that they are at, samples as columns by
// name over the instants `at` in ms (`QUEUE.shared`, `.headroom`, `.threshold`, `.egress`, `.rx`, `.rate`, `.gauge.NAME`; `PORT.rx`,
// `.tx`, `.up`; `SWITCH.pool`, `.capacity`), `pauses` with exact times, `events`, `losses`.

import { BuffersView } from "./buffers.js";
import { ChartsView } from "./charts.js";
import { follow } from "./live.js";
import { Menu } from "./menu.js";
import { Moment } from "./moment.js";
import { Pane } from "./pane.js";
import { PausesView } from "./pauses.js";
import { Player } from "./player.js";
import { PortsView, lossWords } from "./ports.js";
import { chooser, readRun } from "./recorded.js";
import { TablesView } from "./tables.js";
import { TopologyView } from "./topology.js";
import { element, inOrder, moment as momentWords } from "./words.js";

const find = (id) => document.getElementById(id);
const within = (selector) => document.querySelector(selector);

class Page {
  constructor() {
    this.queue = null;
    /** Panes of runs side by side, and the menu of live runs. */
    this.panes = [];
    this.menu = null;
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

  /** Two runs side by side, with one time. */
  openBeside(labels, models, speed) {
    const [first] = models;
    this.open(first, speed);
    find("panes").replaceChildren();
    this.panes = models.map((model, n) => {
      const pane = new Pane(find("panes"), (at) => { this.player.pause(); this.player.go(at); }, (pane, port, cls) => this.chooseIn(pane, port, cls));
      pane.open(labels[n], model, [this.queue?.id, "flows"]);
      return pane;
    });
    const events = models.flatMap((model) => model.events).sort((one, other) => one.at - other.at);
    this.player.open({ ...first, models, events, start: 0, end: Math.max(...models.map((model) => model.end)) }, speed);
  }

  chooseIn(pane, port, cls) {
    const own = pane.model.queues.filter((queue) => queue.port === port);
    const queue = own.find((queue) => queue.cls === cls) ?? own.find((queue) => queue.isLossless) ?? own[0];
    if (!queue) return;
    for (const other of this.panes) {
      const same = other.model.queues.find(({ id }) => id === queue.id);
      if (same) other.chooseQueue(same);
    }
    this.show(this.player.at);
  }

  show(at) {
    if (this.menu) {
      this.menu.show(at);
      return;
    }
    if (this.panes.length > 0) {
      this.panes.forEach((pane) => pane.show(at));
      return;
    }
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
  if (source.kind === "menu") {
    page.menu = new Menu(source.scenarios, page.player);
    page.model = null;
    find("scenario-choice").hidden = false;
    find("menu").hidden = false;
    return;
  }
  document.title = `Weir: ${source.title}`;
  const [select, other] = [find("run"), find("beside")];
  chooser(source.runs, select);
  chooser(source.runs, other);
  other.prepend(element("option", { value: "" }, "none"));
  find("run-choice").hidden = false;
  find("beside-choice").hidden = source.runs.length < 2;
  const wanted = wantedOf(location.hash, source.runs.length);
  select.value = String(wanted.run);
  other.value = wanted.beside == null ? "" : String(wanted.beside);
  const read = async () => {
    try {
      page.player.pause();
      page.player.close();
      const numbers = [select.value, other.value].filter((number) => number !== "").map(Number);
      const models = await Promise.all(numbers.map(readRun));
      document.body.classList.toggle("side-by-side", models.length > 1);
      find("panes").className = "two";
      page.panes = [];
      find("panes").replaceChildren();
      if (models.length > 1) page.openBeside(numbers.map((number) => source.runs[number]), models, source.speed);
      else page.open(models[0], source.speed);
    } catch (error) {
      page.fail(`This run can't be shown: ${error.message}`);
    }
  };
  page.player.onRest = (at) => {
    const parts = [`run=${select.value}`, other.value && `beside=${other.value}`, `t=${Number(at.toFixed(6))}`];
    history.replaceState(null, "", `#${parts.filter(Boolean).join("&")}`);
  };
  select.addEventListener("change", read);
  other.addEventListener("change", read);
  await read();
  if (wanted.at != null) page.player.go(wanted.at);
}

/** What the end of a URL asks for: `#run=1&beside=2&t=5.5`, the time in ms. */
function wantedOf(hash, count) {
  const parts = new URLSearchParams(hash.slice(1));
  const run = (name) => {
    const number = Number(parts.get(name) ?? NaN);
    return Number.isInteger(number) && number >= 0 && number < count ? number : null;
  };
  const at = parts.has("t") ? Number(parts.get("t")) : NaN;
  return { run: run("run") ?? 0, beside: run("beside"), at: Number.isFinite(at) ? at : null };
}

start().catch((error) => {
  find("message").textContent = `The page can't be shown: ${error.message}`;
  find("message").hidden = false;
});
