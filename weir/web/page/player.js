// Which moment the page shows: the newest of a running switch, or any of what is known.

import { MarksView } from "./marks.js";
import { element, moment } from "./words.js";

/** How fast a run plays: ms of the run per second. */
const SPEEDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 60_000];
/** A run plays in about so many seconds if nobody says otherwise. */
const SECONDS = 20;

export class Player {
  /** `show(at)` draws a moment. */
  constructor(show) {
    this.show = show;
    this.model = null;
    this.at = 0;
    this.isPlaying = false;
    this.isLive = false;
    this.frame = null;
    /** Runs that go on elsewhere: `setSpeed(ms)` sets their virtual time per second, 0 for a pause. */
    this.remote = null;
    /** Called with the moment that the page stands at. */
    this.onRest = null;
    const find = (id) => document.getElementById(id);
    [this.slider, this.output, this.button, this.speeds] = ["time", "now", "play", "speed"].map(find);
    this.marks = new MarksView(find("marks"), find("marks-legend"), (at) => { this.pause(); this.go(at); });
    find("back").addEventListener("click", () => this.toEvent(-1));
    find("on").addEventListener("click", () => this.toEvent(1));
    this.button.addEventListener("click", () => this.toggle());
    this.slider.addEventListener("input", () => {
      // Before the page is drawn again, which puts the slider where time stands.
      const at = this.model.start + Number(this.slider.value);
      this.pause();
      this.go(at);
    });
    this.speeds.addEventListener("change", () => this.setSpeed(Number(this.speeds.value)));
    find("player").addEventListener("submit", (event) => event.preventDefault());
    document.addEventListener("keydown", (event) => this.key(event));
  }

  /** No run, until one is opened. */
  close() {
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = null;
    this.model = null;
  }

  /** A run, from its beginning. */
  open(model, speed) {
    this.close();
    this.model = model;
    this.isLive = model.kind === "live" || model.isGrowing === true;
    document.getElementById("speed-choice").hidden = this.isLive && !this.remote;
    this.speed = speed ?? nearest(model.end / SECONDS);
    const speeds = [...new Set([...SPEEDS, this.speed])].sort((one, other) => one - other);
    this.speeds.replaceChildren(...speeds.map((speed) => element("option", { value: speed }, speedWords(speed))));
    this.speeds.value = String(this.speed);
    const length = model.length ?? model.end;
    this.slider.step = model.kind === "live" || length > 1000 ? 1 : length / 10_000;
    this.at = this.isLive ? model.end : model.start;
    this.isPlaying = this.isLive;
    this.refresh();
  }

  /** A running switch has said more. */
  grown() {
    if (this.isPlaying) this.at = this.model.end;
    this.at = Math.max(this.at, this.model.start);
    this.refresh();
  }

  /** Runs elsewhere have grown; `speed` is 0 in a pause. */
  follow(speed, isOver) {
    this.isOver = isOver;
    if (speed > 0 && speed !== this.speed) {
      this.speed = speed;
      this.speeds.value = String(speed);
    }
    this.isPlaying = speed > 0 && !isOver && !this.looksBack;
    if (speed > 0 && !this.looksBack) this.at = this.model.end;
    this.refresh();
  }

  setSpeed(speed) {
    this.speed = speed;
    if (this.remote && this.isPlaying) this.remote.setSpeed(speed);
  }

  play() {
    if (!this.model || this.isPlaying) return;
    if (this.remote) {
      this.looksBack = false;
      if (!this.isOver) this.remote.setSpeed(this.speed);
    }
    this.isPlaying = true;
    if (this.isLive) this.at = this.model.end;
    else if (this.at >= this.model.end) this.at = this.model.start;
    this.last = null;
    if (!this.isLive) this.frame = requestAnimationFrame((now) => this.tick(now));
    this.refresh();
  }

  pause() {
    if (this.remote && this.isPlaying) this.remote.setSpeed(0);
    this.isPlaying = false;
    if (this.remote) this.looksBack = true;
    if (this.frame) cancelAnimationFrame(this.frame);
    this.frame = null;
    if (this.model) this.refresh();
  }

  toggle() {
    if (this.isPlaying) this.pause();
    else this.play();
  }

  tick(now) {
    if (!this.isPlaying) return;
    this.at = Math.min(this.model.end, this.at + (this.last == null ? 0 : (now - this.last) / 1000 * this.speed));
    this.last = now;
    if (this.at >= this.model.end) {
      this.pause();
      return;
    }
    this.refresh();
    this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  go(at) {
    if (!this.model) return;
    this.at = Math.min(this.model.end, Math.max(this.model.start, at));
    this.refresh();
  }

  /** To the sample before or after. */
  step(by) {
    if (!this.model) return;
    this.pause();
    const { at } = this.model;
    const here = sampleAt(at, this.at);
    const isOn = here >= 0 && at[here] === this.at;
    this.go(at[Math.max(0, Math.min(at.length - 1, by > 0 || isOn ? here + by : here))] ?? this.at);
  }

  /** To the event before or after; from the last one to the end. */
  toEvent(by) {
    if (!this.model) return;
    this.pause();
    const { events, start, end } = this.model;
    const next = by > 0 ? events.find((event) => event.at > this.at + 1e-9) : events.findLast((event) => event.at < this.at - 1e-9);
    this.go(next ? next.at : by > 0 ? end : start);
  }

  faster(by) {
    const place = Math.max(0, Math.min(this.speeds.length - 1, this.speeds.selectedIndex + by));
    this.speeds.selectedIndex = place;
    this.setSpeed(Number(this.speeds.value));
  }

  key(event) {
    // Lists and the slider have their own keys.
    if (event.ctrlKey || event.altKey || event.metaKey || !this.model) return;
    const on = event.target.tagName;
    if (on === "SELECT" || (on === "INPUT" && event.target !== this.slider) || (on === "BUTTON" && (event.key === " " || event.key === "Enter"))) return;
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (event.key === " ") this.toggle();
    else if (by && event.shiftKey) this.toEvent(by);
    else if (by) this.step(by);
    else if (event.key === "Home") { this.pause(); this.go(this.model.start); }
    else if (event.key === "End") { if (this.isLive) this.play(); else { this.pause(); this.go(this.model.end); } }
    else if (event.key === "+" || event.key === "=") this.faster(1);
    else if (event.key === "-") this.faster(-1);
    else return;
    event.preventDefault();
  }

  refresh() {
    const { start, end, kind } = this.model;
    const last = this.model.length ?? end;
    this.slider.max = last - start;
    this.slider.value = this.at - start;
    const behind = (this.at - end) / 1000;
    this.output.textContent = kind === "live" ? (this.isPlaying ? "now" : `${behind.toFixed(1)} s`) : `${moment(this.at, last)} of ${moment(last, last)}`;
    this.marks.show(this.model.models ?? [this.model], start, last);
    if (!this.isPlaying) this.onRest?.(this.at);
    this.slider.setAttribute("aria-valuetext", this.output.textContent);
    this.button.classList.toggle("playing", this.isPlaying);
    this.button.lastElementChild.textContent = this.isPlaying ? "Pause" : "Play";
    this.show(this.at);
  }
}

/** The last sample up to a moment; -1 before the first. */
export function sampleAt(at, moment) {
  let [low, high] = [0, at.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (at[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

const nearest = (speed) => SPEEDS.reduce((best, one) => Math.abs(Math.log(one / speed)) < Math.abs(Math.log(best / speed)) ? one : best);

function speedWords(speed) {
  if (speed === 1000) return "real time";
  if (speed > 1000) return `${speed / 1000} times real time`;
  return speed < 1 ? `${Math.round(speed * 1000)} µs a second` : `${speed} ms a second`;
}
