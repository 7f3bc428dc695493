// A run that has ended, as the model that the page draws: see `Model` in main.js.

import { element } from "./words.js";

/** Reads run `number`, which the server has. */
export async function readRun(number) {
  const answer = await fetch(`/api/runs/${number}`);
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return recordedModel(await answer.json());
}

export function recordedModel(run) {
  const at = run.at_ms;
  const columns = new Map(Object.entries(run.columns).map(([name, column]) => [name, Array.isArray(column) ? column : new Array(at.length).fill(column.all)]));
  const several = run.topology.switches.length > 1;
  const split = (id) => {
    const dot = several ? id.indexOf(".") : -1;
    return dot < 0 ? [run.topology.switches[0] ?? "", id] : [id.slice(0, dot), id.slice(dot + 1)];
  };
  const idOf = ({ switch: of, port }) => several ? `${of}.${port}` : port;
  const rates = new Map();
  for (const link of run.topology.links) link.ends.forEach((end) => rates.set(idOf(end), link.rate_bps));
  for (const host of run.topology.hosts) rates.set(idOf(host.at), host.rate_bps || null);
  const ports = run.ports.map(({ name, flow_control, lossless }) => {
    const [of, port] = split(name);
    return { id: name, switch: of, name: port, flowControl: flow_control, rate: rates.get(name) ?? null, isClone: false, lossless };
  });
  const place = new Map(ports.map((port, number) => [port.id, number]));
  const queues = [];
  for (const port of ports) {
    for (let cls = 0; cls < 8; cls++) {
      const id = `${port.id}.${cls}`;
      if (!columns.has(`${id}.ingress_bytes`)) continue;
      queues.push({ id, port: place.get(port.id), cls, isLossless: port.lossless.includes(cls) });
    }
  }
  const model = {
    kind: "recorded", about: run.about, start: 0, end: run.duration_ms, at, columns: new Map(), ports, queues,
    switches: run.topology.switches.map((name) => ({ name, policy: run.policy })),
    links: run.topology.links.map(({ ends, outages }) => ({ ends: ends.map((end) => place.get(idOf(end))), outages })),
    hosts: run.topology.hosts.map(({ name, at: end, outages, copies }) => ({ name, port: place.get(idOf(end)), outages, detail: copies > 0 ? `+${copies} copies` : "" })),
    flows: run.flows.filter(({ name }) => columns.has(`${name}.received_bps`)),
    gauges: run.gauges, deadlock: run.deadlock, pauses: [], events: [], losses: run.losses, drops: run.drops ?? [],
  };
  const put = (name, values) => { if (values) model.columns.set(name, values); };
  for (const queue of queues) {
    const column = (name) => columns.get(`${queue.id}.${name}`);
    const headroom = column("headroom_bytes");
    put(`${queue.id}.headroom`, headroom);
    put(`${queue.id}.shared`, column("ingress_bytes").map((all, n) => all == null ? null : Math.max(0, all - (headroom?.[n] ?? 0))));
    put(`${queue.id}.threshold`, column("threshold_bytes"));
    put(`${queue.id}.egress`, column("egress_bytes"));
    put(`${queue.id}.rx`, column("rx_bps"));
    put(`${queue.id}.rate`, column("peer_rate_bps"));
    for (const gauge of run.gauges) put(`${queue.id}.gauge.${gauge.name}`, column(gauge.name));
  }
  for (const { name } of model.switches) {
    const pool = several ? `${name}.pool` : "pool";
    put(`${name}.pool`, columns.get(`${pool}.used_bytes`));
    put(`${name}.capacity`, columns.get(`${pool}.capacity_bytes`));
  }
  ports.forEach((port, number) => {
    const host = model.hosts.find((host) => host.port === number);
    const arriving = queues.filter((queue) => queue.port === number).map((queue) => model.columns.get(`${queue.id}.rx`)).filter(Boolean);
    if (arriving.length > 0) put(`${port.id}.rx`, sum(arriving));
    const to = host && model.flows.filter((flow) => flow.to === host.name).map((flow) => columns.get(`${flow.name}.received_bps`));
    if (to?.length > 0) put(`${port.id}.tx`, sum(to));
  });
  for (const flow of model.flows) put(`flow.${flow.name}`, columns.get(`${flow.name}.received_bps`));
  addPauses(model, run, place);
  return model;
}

function sum(columns) {
  return columns[0].map((_, n) => columns.reduce((all, column) => all + (column[n] ?? 0), 0));
}

/** Pauses by queue, those of the peer at the other end included, and what happened when. */
function addPauses(model, run, place) {
  const peers = new Map();
  for (const { ends: [one, other] } of model.links) {
    peers.set(one, other);
    peers.set(other, one);
  }
  const rows = new Map();
  const row = (port, cls) => {
    const key = `${port}.${cls}`;
    if (!rows.has(key)) rows.set(key, { port, cls, told: [], heard: [] });
    return rows.get(key);
  };
  const spans = (list) => list.map(([from, to]) => [from, to, 1]);
  for (const { port: id, class: cls, to_peer, by_peer, stages, drops } of run.pauses) {
    const port = place.get(id);
    if (port == null) continue;
    const told = spans(to_peer);
    if (told.length > 0) row(port, cls).told = told;
    if (told.length > 0 && peers.has(port)) row(peers.get(port), cls).heard = told;
    if (by_peer.length > 0) row(port, cls).heard = spans(by_peer);
    const note = (at, what) => model.events.push({ at, port: id, cls, what });
    for (const [from, to] of to_peer) {
      note(from, "tells its peer to pause");
      if (to < model.end) note(to, "lets its peer go on");
    }
    for (const [from, to] of by_peer) {
      note(from, "is paused by its peer");
      if (to < model.end) note(to, "may go on");
    }
    // Every change of a stage would be all that there is to see.
    if (stages.length <= 200) stages.forEach(([at, stage]) => note(at, `tells its peer stage ${stage}`));
    const isLossless = model.ports[port].lossless.includes(cls);
    for (const [at] of drops) {
      note(at, "drops frames");
      model.drops.push({ at, port: id, cls, isLossless, frames: null });
    }
  }
  for (const [at, what] of run.marks) model.events.push({ at, port: "", cls: null, what: what.replaceAll("->", "→") });
  model.events.sort((one, other) => one.at - other.at);
  model.pauses = [...rows.values()];
}

export function chooser(runs, select) {
  select.replaceChildren(...runs.map((label, number) => element("option", { value: number }, label)));
}
