// The menu of scenarios that run live, and their sliders.

import { GrowingRun } from "./growing.js";
import { Pane } from "./pane.js";
import { element } from "./words.js";

const find = (id) => document.getElementById(id);

/** Asks the server for a change; returns why it refuses, or null. */
async function post(path, parameters) {
  const answer = await fetch(`${path}?${new URLSearchParams(parameters)}`, { method: "POST" });
  return answer.ok ? null : (await answer.text()).trim();
}

export class Menu {
  constructor(scenarios, player) {
    [this.scenarios, this.player] = [scenarios, player];
    this.session = null;
    this.runs = [];
    this.panes = [];
    this.sliders = new Map();
    find("player").hidden = true;
    player.remote = { setSpeed: (ms) => this.post("/api/speed", { value: `${Math.round(ms * 1e6)}ns` }) };
    find("scenario").replaceChildren(element("option", { value: "" }, "Choose a scenario"), ...scenarios.map(({ name, title }) => element("option", { value: name }, title)));
    find("scenario").addEventListener("change", () => this.start(find("scenario").value));
    find("again").addEventListener("click", () => this.start(this.scenario.name));
    find("cards").replaceChildren(...scenarios.map(({ name, title, hint }, n) => element("button", { type: "button", onclick: () => this.start(name) }, element("strong", {}, `${n + 1}. ${title}`), element("span", {}, hint))));
    const stream = new EventSource("/api/stream");
    stream.onmessage = ({ data }) => this.take(JSON.parse(data));
    stream.onerror = () => this.say("The program does not answer; the page shows what it knew last.");
    stream.onopen = () => this.say("");
  }

  say(text) {
    find("refused").textContent = text;
    find("refused").hidden = !text;
  }

  async post(path, parameters) {
    const why = await post(path, parameters);
    this.say(why ?? "");
    return why == null;
  }

  start(name) {
    if (name) this.post("/api/start", { scenario: name });
  }

  /** Takes in the server's news. */
  take(news) {
    if (news.session == null) return;
    if (news.session !== this.session) this.open(news);
    news.runs.forEach((run, n) => {
      if (run.about) {
        this.runs[n] = new GrowingRun(run.about, run.header);
        this.panes[n] = null;
      }
      if (this.runs[n]) this.runs[n].add(run);
      this.outcomes[n] = run.outcome;
    });
    for (const [name, slider] of this.sliders) slider.show(news.values[name]);
    const models = this.models();
    if (models.length < news.runs.length) return;
    if (this.panes.some((pane) => pane == null)) {
      find("panes").replaceChildren();
      this.panes = this.runs.map(({ run, model }) => {
        const pane = new Pane(find("panes"), (at) => { this.player.pause(); this.player.go(at); }, (_, port, cls) => this.choose(port, cls));
        pane.open(run.label, model, this.scenario.charts);
        return pane;
      });
      this.player.open(this.joint(models), news.speed_us / 1000);
    }
    Object.assign(this.player.model, this.joint(models));
    this.panes.forEach((pane) => pane.grown());
    this.player.follow(news.speed_us / 1000, news.runs.every((run) => run.outcome));
  }

  /** A session that is new to the page. */
  open({ session, scenario, runs }) {
    this.session = session;
    this.scenario = this.scenarios.find(({ name }) => name === scenario);
    this.runs = [];
    this.outcomes = [];
    this.panes = runs.map(() => null);
    this.player.close();
    find("cards").hidden = true;
    find("player").hidden = false;
    find("live").hidden = false;
    find("again").hidden = false;
    find("panes").className = runs.length > 1 ? "two" : "one";
    find("scenario").value = scenario;
    find("hint").textContent = this.scenario.hint;
    this.sliders = new Map(this.scenario.parameters.map((parameter) => [parameter.name, new Slider(parameter, (value) => this.post("/api/set", { name: parameter.name, value }))]));
    find("sliders").replaceChildren(...[...this.sliders.values()].map((slider) => slider.root));
    document.title = `Weir: ${this.scenario.title}`;
    location.hash = `scenario=${scenario}`;
  }

  models() {
    return this.runs.filter((run) => run?.model).map((run) => run.model);
  }

  /** Both runs as one, for the player. */
  joint(models) {
    const events = models.flatMap((model) => model.events).sort((one, other) => one.at - other.at);
    return { isGrowing: true, models, start: 0, at: models[0].at, end: Math.min(...models.map((model) => model.end)), length: models[0].length, events };
  }

  choose(port, cls) {
    for (const pane of this.panes) {
      const own = pane.model.queues.filter((queue) => queue.port === port && queue.isLossless);
      const queue = own.find((queue) => queue.cls === cls) ?? own[0];
      if (queue) pane.chooseQueue(queue);
    }
    this.show(this.player.at);
  }

  show(at) {
    this.panes.forEach((pane) => pane?.show(at));
  }
}

/** Size of a value such as 1/8, 40KB or 20us, to place it between others; NaN if it has none. */
export function sizeOf(text) {
  const parts = /^([\d.]+)(?:\/([\d.]+))?([a-zA-Z]*)$/.exec(text);
  if (!parts) return NaN;
  const [, number, divisor, unit] = parts;
  const prefixes = { n: 1e-9, u: 1e-6, m: 1e-3, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12 };
  return Number(number) / Number(divisor ?? 1) * ((unit.length > 1 ? prefixes[unit[0]] : 1) ?? 1);
}

/** Place of a value among a slider's, halfway between two for one that is not there; null without a size. */
export function placeOf(value, values) {
  const place = values.indexOf(value);
  const [size, sizes] = [sizeOf(value), values.map(sizeOf)];
  if (place >= 0 || [size, ...sizes].some(Number.isNaN)) return place >= 0 ? place : null;
  const same = sizes.indexOf(size);
  if (same >= 0) return same;
  const last = values.length - 1;
  const before = sizes.findIndex((one, n) => n < last && (one - size) * (sizes[n + 1] - size) < 0);
  if (before >= 0) return before + 0.5;
  return Math.abs(sizes[0] - size) < Math.abs(sizes[last] - size) ? 0 : last;
}

/** A slider over values, and a field for any other. A refused value gives way to the present one. */
class Slider {
  constructor({ label, values, is_live, run, value }, change) {
    this.values = values;
    const send = async (value) => { if (!await change(value) && this.field.value.trim() === value) this.show(this.value, true); };
    const chosen = () => values[Math.round(this.range.value)];
    this.range = element("input", { type: "range", min: 0, max: values.length - 1, step: 1, "aria-label": label });
    this.field = element("input", { type: "text", size: 6, "aria-label": `${label}, any value`, spellcheck: false, maxlength: 32 });
    this.range.addEventListener("input", () => { this.field.value = chosen(); });
    this.range.addEventListener("change", () => send(chosen()));
    this.field.addEventListener("change", () => send(this.field.value.trim()));
    const note = is_live ? "at once" : "from 0 again";
    this.root = element("div", { class: "slider", title: is_live ? "Changes the running switches" : "Fixed while a switch runs: the runs start again from 0" },
      element("span", { class: "slider-name" }, element("b", {}, label), element("small", {}, ` ${note}`)), this.range, this.field);
    this.value = null;
    this.show(value);
  }

  /** Shows a value; an unchanged one, over what was entered, only if `isAnew`. */
  show(value, isAnew = false) {
    if (value === this.value && !isAnew) return;
    this.value = value;
    const place = placeOf(value, this.values);
    if (place != null) {
      // Halves are places only while the value is between two others.
      this.range.step = Number.isInteger(place) ? 1 : 0.5;
      this.range.value = place;
    }
    this.range.setAttribute("aria-valuetext", value);
    this.field.value = value;
  }
}
