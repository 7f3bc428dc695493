// Ports by classes: the links and pauses of a running switch's ports at a glance.

import { element } from "./words.js";

/** Ways in which a class is paused. */
const MARKS = { told: "pauses its peer", heard: "paused by its peer" };

export class PortsView {
  constructor(place, choose) {
    this.place = place;
    this.choose = choose;
  }

  open(model) {
    this.model = model;
    const numbers = model.ports.map((_, number) => number).filter((number) => !model.ports[number].isClone);
    const lossless = new Set(model.queues.filter((queue) => queue.isLossless).map((queue) => `${queue.port}.${queue.cls}`));
    this.rows = model.kind === "live" ? numbers.map((port) => this.row(port, lossless)) : [];
    this.place.replaceChildren(...this.rows.map(({ row }) => row));
  }

  row(port, lossless) {
    const button = element("button", { type: "button", onclick: () => this.choose(port) }, this.model.ports[port].id);
    const link = element("span", { class: "state", "aria-hidden": "true" });
    const cells = [0, 1, 2, 3, 4, 5, 6, 7].map((cls) => element("span", { class: "", "aria-hidden": "true", onclick: () => this.choose(port, cls) }, String(cls)));
    const kinds = cells.map((_, cls) => lossless.has(`${port}.${cls}`) ? "cell lossless" : "cell");
    return { port, row: element("div", { class: "port" }, button, link, ...cells), button, link, cells, kinds, shown: "" };
  }

  show(moment) {
    const lost = new Set(this.rows.length > 0 ? alarming(this.model).map((loss) => loss.port) : []);
    for (const row of this.rows) {
      const { port, button, link, cells, kinds } = row;
      const { id } = this.model.ports[port];
      const isDown = moment.port(port, "up") === 0;
      const paused = { told: moment.paused(port, "told"), heard: moment.paused(port, "heard") };
      const words = [isDown ? "no link" : "link up", lost.has(id) && "lost frames", ...Object.keys(MARKS).map((way) => paused[way].length > 0 && `${MARKS[way]}: class ${paused[way].join(", ")}`)];
      const shown = `${id}: ${words.filter(Boolean).join("; ")}`;
      if (shown === row.shown) continue;
      row.shown = shown;
      button.title = shown;
      button.setAttribute("aria-label", shown);
      row.row.className = ["port", isDown && "down", lost.has(id) && "lost"].filter(Boolean).join(" ");
      link.textContent = isDown ? "\u2715" : lost.has(id) ? "!" : "\u25cf";
      cells.forEach((cell, cls) => {
        cell.className = [kinds[cls], ...Object.keys(MARKS).filter((way) => paused[way].includes(cls))].join(" ");
      });
    }
  }
}

/** How long the loss of lossy frames alarms. */
const LOSSY_MS = 60_000;

/** Losses that raise an alarm: of lossless classes and outside the switch until counters are cleared, others for a minute. */
export const alarming = (model) => model.losses.filter((loss) => loss.frames > 0 && (loss.isLossless || loss.at > model.end - LOSSY_MS));

/** The alarm's text: lossless frames if there are any; empty without a loss. */
export function lossWords(model) {
  if (model.kind !== "live") return "";
  const all = alarming(model);
  const lossless = all.filter((loss) => loss.isLossless && loss.class != null);
  const losses = lossless.length > 0 ? lossless : all;
  if (losses.length === 0) return "";
  const words = losses.slice(0, SHOWN).map(({ port, class: cls, reason, frames }) => `${port}${cls == null ? "" : ` class ${cls}`}: ${frames} (${reason.replaceAll("_", " ")})`);
  const more = losses.length > SHOWN ? `, and ${losses.length - SHOWN} more` : "";
  return `${lossless.length > 0 ? "Lossless frames lost" : "Frames lost"}: ${words.join(", ")}${more}.`;
}

/** Losses that the alarm names. */
const SHOWN = 4;
