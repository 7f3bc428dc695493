// What happened up to the moment that is shown, and what was lost.

import { clock, count, element, moment as momentWords } from "./words.js";

const EVENTS_MAX = 12;
const LOSSES_MAX = 40;

export class TablesView {
  constructor(events, losses) {
    [this.events, this.losses] = [events, losses];
  }

  open(model) {
    this.model = model;
    this.shown = null;
    this.lost = null;
  }

  show({ at }) {
    const { model } = this;
    const past = model.events.filter((event) => event.at <= at + 1e-9);
    const last = past.slice(-EVENTS_MAX).reverse();
    const key = `${past.length} ${last[0]?.at} ${last[0]?.what}`;
    if (key !== this.shown) {
      this.shown = key;
      const time = (event) => event.unixMs ? clock(event.unixMs) : momentWords(event.at, model.end);
      const rows = last.map((event) => [time(event), event.port, event.cls ?? "", event.what]);
      const more = past.length > EVENTS_MAX ? `The last ${EVENTS_MAX} of ${count(past.length)}.` : "";
      this.events.replaceChildren(rows.length > 0 ? table(["Time", "Port", "Class", "What"], rows) : note("Nothing yet."), more ? note(more) : "");
    }
    const lost = JSON.stringify(model.losses);
    if (lost !== this.lost) {
      this.lost = lost;
      const places = { switch: "switch", ingress: "switch, ingress", egress: "switch, egress", device_receive: "device, receiving", device_transmit: "device, sending", nic_to_switch: "NIC, to the switch", nic_to_host: "NIC, to the host" };
      const rows = model.losses.slice(0, LOSSES_MAX).map((loss) => [loss.port, places[loss.place] ?? loss.place, loss.class ?? "", loss.reason.replaceAll("_", " "), loss.frames == null ? "can't tell" : count(loss.frames)]);
      const scope = model.kind === "live" ? "" : " In the whole run.";
      this.losses.replaceChildren(rows.length > 0 ? table(["Port", "Where", "Class", "Why", "Frames"], rows) : note(`No frame was lost.${scope}`), rows.length > 0 && scope ? note(scope.trim()) : "");
    }
  }
}

const note = (text) => element("p", { class: "note" }, text);

function table(head, rows) {
  return element("table", {},
    element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
    element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, String(cell)))))));
}
