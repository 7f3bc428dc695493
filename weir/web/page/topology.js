// Links with the state of both directions, and switches with their pools.

import { LETTER, layoutOf } from "./layout.js";
import { bytes, element, shortRate } from "./words.js";

/** How far the two directions of a link are apart. */
const APART = 9;

export class TopologyView {
  /** A flat drawing is wider and lower. */
  constructor(place, choose, { isFlat = false } = {}) {
    this.place = place;
    this.choose = choose;
    this.isFlat = isFlat;
  }

  open(model) {
    this.model = model;
    const layout = layoutOf(model, this.isFlat);
    const svg = element("svg", {
      viewBox: `0 0 ${layout.width.toFixed(0)} ${layout.height.toFixed(0)}`, role: "img", "aria-label": this.words(),
      style: `min-width:${Math.min(layout.width, layout.width > 1500 ? 1100 : 340).toFixed(0)}px;max-width:${(layout.width * 1.5).toFixed(0)}px`,
    });
    this.lanes = [];
    const numbers = new Map(model.switches.map(({ name }, number) => [name, number]));
    const boxOfPort = (port) => layout.switches[numbers.get(model.ports[port].switch)];
    const drawn = new Map();
    for (const { ends: [one, other], outages } of model.links) {
      const [a, b] = [boxOfPort(one), boxOfPort(other)];
      const key = [a, b].map((box) => layout.switches.indexOf(box)).sort().join("-");
      const nth = drawn.get(key) ?? 0;
      drawn.set(key, nth + 1);
      // Parallel links beside each other.
      const bend = nth === 0 ? 0 : 30 * Math.ceil(nth / 2) * (nth % 2 ? 1 : -1);
      this.lane(svg, a, b, { from: one, to: other, outages }, bend);
      this.lane(svg, b, a, { from: other, to: one, outages }, -bend);
    }
    for (const box of layout.boxes) {
      const at = layout.switches[box.switch];
      if (box.hosts.length > 1) {
        svg.append(element("path", { class: "bundle", d: `M${at.x} ${at.y}L${box.x} ${box.y}` }));
        continue;
      }
      const host = model.hosts[box.hosts[0]];
      this.lane(svg, box, at, { from: null, to: host.port, outages: host.outages }, 0);
      this.lane(svg, at, box, { from: host.port, to: null, outages: host.outages }, 0);
    }
    for (const box of layout.boxes) svg.append(this.node(box, "host", box.label, box.detail));
    this.pools = layout.switches.map((box, number) => {
      const node = this.node(box, "switch", model.switches[number].name, "");
      const [left, top, width] = [box.x - box.width / 2 + 10, box.y + 5, box.width - 20];
      const fill = element("rect", { class: "shared", x: left, y: top, width: 0, height: 8 });
      const title = element("title");
      node.append(fill, element("rect", { class: "frame", x: left, y: top, width, height: 8 }), title);
      svg.append(node);
      return { fill, width, title };
    });
    this.lanes.forEach((lane) => svg.append(lane.sign, lane.label));
    this.place.replaceChildren(svg);
    this.svg = svg;
  }

  words() {
    const { switches, hosts, links } = this.model;
    const of = (n, one, several) => `${n} ${n === 1 ? one : several}`;
    return `${of(switches.length, "switch", "switches")}, ${of(hosts.length, "host", "hosts")}, ${of(links.length, "link between switches", "links between switches")}`;
  }

  node(box, kind, label, detail) {
    const group = element("g", { class: kind });
    const letters = Math.floor(box.width / LETTER);
    group.append(
      element("rect", { x: box.x - box.width / 2, y: box.y - box.height / 2, width: box.width, height: box.height, rx: 5 }),
      element("text", { x: box.x, y: kind === "switch" ? box.y - 4 : box.y + (detail ? -1 : 5) }, label.length > 13 ? `${label.slice(0, 12)}…` : label),
    );
    if (detail) group.append(element("text", { class: "detail", x: box.x, y: box.y + 12 }, detail.length > letters ? `${detail.slice(0, letters - 1)}…` : detail), element("title", {}, `${label}: ${detail}`));
    return group;
  }

  /** One direction of a link, from the edge of a box to that of another. */
  lane(svg, a, b, of, bend) {
    const [dx, dy] = [b.x - a.x, b.y - a.y];
    const length = Math.hypot(dx, dy) || 1;
    const [ux, uy] = [dx / length, dy / length];
    // To the right of its way, as on a road.
    const shift = APART / 2 + bend / 2;
    const edge = (box) => Math.min(box.width / 2 / Math.max(1e-6, Math.abs(ux)), box.height / 2 / Math.max(1e-6, Math.abs(uy))) + 2;
    const [start, end] = [edge(a), length - edge(b)];
    const point = (along) => [a.x + ux * along - uy * shift, a.y + uy * along + ux * shift];
    const [[x1, y1], [x2, y2]] = [point(start), point(end)];
    const [hx, hy] = point(end - 9);
    const path = element("path", { class: "lane", d: `M${x1.toFixed(1)} ${y1.toFixed(1)}L${hx.toFixed(1)} ${hy.toFixed(1)}` });
    const corner = (side) => `${(hx - side * uy * 5).toFixed(1)} ${(hy + side * ux * 5).toFixed(1)}`;
    const head = element("path", { class: "head", d: `M${x2.toFixed(1)} ${y2.toFixed(1)}L${corner(1)}L${corner(-1)}Z` });
    const title = element("title");
    const port = of.to ?? of.from;
    const group = element("g", { class: "link", onclick: () => this.choose(port) }, title, element("path", { class: "touch", d: path.getAttribute("d") }), path, head);
    svg.append(group);
    const [sx, sy] = point(start + (end - start) * 0.3);
    const [lx, ly] = point(start + (end - start) * 0.62);
    const sign = element("g", { class: "sign", transform: `translate(${sx.toFixed(1)} ${sy.toFixed(1)})`, visibility: "hidden" }, element("circle", { r: 7 }), element("path", { d: "M-2.3 -3.5V3.5M2.3 -3.5V3.5" }));
    const label = element("text", { class: "lane-label", x: (lx - uy * 11).toFixed(1), y: (ly + ux * 11 + 4).toFixed(1) });
    this.lanes.push({ ...of, group, path, head, sign, label, title, shown: "" });
  }

  /** `moment` knows the model at an instant: see main.js. */
  show(moment) {
    const { model } = this;
    const cycle = moment.deadlock ? new Set(moment.deadlock.ports) : new Set();
    for (const lane of this.lanes) {
      const [from, to] = [lane.from, lane.to];
      const isDown = lane.outages.some(({ from_ns, until_ns }) => moment.at >= from_ns / 1e6 && (until_ns == null || moment.at < until_ns / 1e6)) || (to ?? from) != null && moment.port(to ?? from, "up") === 0;
      // By which class, as the receiver has it; of a host, as the sender has heard it.
      const paused = to != null ? moment.paused(to, "told") : moment.paused(from, "heard");
      const isOfCycle = from != null && cycle.has(model.ports[from].id);
      const rate = to != null ? moment.slowestRate(to) : null;
      const line = (to != null ? model.ports[to] : model.ports[from]).rate;
      const isSlowed = rate != null && line != null && rate < line * 0.999;
      const passing = to != null ? moment.port(to, "rx") : moment.port(from, "tx");
      const share = passing != null && line ? Math.min(1, passing / line) : passing > 0 ? 0.3 : 0;
      const state = isDown ? "down" : isOfCycle ? "cycle" : paused.length > 0 ? "paused" : isSlowed ? "slowed" : "";
      const width = isDown ? 1.5 : isOfCycle ? 6 : 1.5 + 4 * share;
      const name = (port, other) => port != null ? model.ports[port].id : `the host at ${model.ports[other].id}`;
      const told = [isDown && "no link", paused.length > 0 && `paused: class ${paused.join(", ")}`, isOfCycle && "part of the deadlock", isSlowed && `slowed to ${shortRate(rate)}b/s`, passing != null && `${shortRate(passing)}b/s pass`];
      const words = `${name(from, to)} to ${name(to, from)}: ${told.filter(Boolean).join(", ") || "nothing known"}`;
      const label = isDown ? "✕" : paused.length > 0 ? `P${paused.join(",")}` : isSlowed ? shortRate(rate) : "";
      const shown = [state, width.toFixed(1), label, words].join("|");
      if (shown === lane.shown) continue;
      lane.shown = shown;
      lane.group.setAttribute("class", `link ${state}`);
      lane.path.setAttribute("class", `lane ${state}`);
      lane.path.setAttribute("stroke-width", width.toFixed(1));
      lane.sign.setAttribute("visibility", paused.length > 0 ? "visible" : "hidden");
      lane.label.textContent = label;
      lane.title.textContent = words;
    }
    this.pools.forEach(({ fill, width, title }, number) => {
      const { name } = model.switches[number];
      const [used, capacity] = [moment.value(`${name}.pool`), moment.value(`${name}.capacity`)];
      fill.setAttribute("width", (capacity ? Math.min(1, used / capacity) * width : 0).toFixed(1));
      title.textContent = capacity ? `${name}: ${bytes(used)} of ${bytes(capacity)} shared buffer used` : name;
    });
  }
}
