// A running process as the model that the page draws, fed by the server's stream: see `Model` in main.js.

/** How long the page remembers. */
const REMEMBERED_MS = 120_000;

/** Calls `onModel` with the first model and with a new one when switches or ports change, `onSample` with each sample that is added
 * to the last one, and `onState` with what becomes of the connection. */
export function follow(onModel, onSample, onState) {
  const stream = new EventSource("/api/stream");
  let model = null;
  let before = null;
  stream.onmessage = ({ data }) => {
    const state = JSON.parse(data);
    if (state.error) return onState("late", state.error);
    onState("live", "");
    const known = model && shapeOf(state) === shapeOf(before) && state.process === before.process && state.at_ms >= before.at_ms;
    if (!known) {
      model = emptyModel(state);
      before = null;
    }
    if (before && state.at_ms === before.at_ms) return;
    add(model, state, before);
    before = state;
    if (known) onSample(model);
    else onModel(model);
  };
  stream.onerror = () => onState("lost", "The switch does not answer; the page shows what it knew last, and asks again.");
  return () => stream.close();
}

/** What the model depends on. */
const shapeOf = (state) => JSON.stringify(state.switches.map((of) => [of.switch, of.interfaces.map((port) => [port.port, port.device, port.flow_control]), of.buffer_configuration.policy, of.buffer_configuration.queues.map((queue) => queue.lossless)]));

function emptyModel(state) {
  const several = state.switches.length > 1;
  const ports = [];
  const queues = [];
  const links = new Map();
  const hosts = [];
  for (const of of state.switches) {
    const lossless = new Set(of.buffer_configuration.queues.filter((queue) => queue.lossless).map((queue) => `${queue.port}.${queue.class}`));
    for (const { port: name, device, link, flow_control, rate_bps } of of.interfaces) {
      const number = ports.length;
      const id = several ? `${of.switch}.${name}` : name;
      const isClone = device.startsWith("clone_of");
      ports.push({ id, switch: of.switch, name, flowControl: flow_control, rate: rate_bps, isClone });
      for (let cls = 0; cls < 8; cls++) queues.push({ id: `${id}.${cls}`, port: number, cls, isLossless: lossless.has(`${name}.${cls}`) });
      if (link) links.set(link, [...(links.get(link) ?? []), number]);
      else if (!isClone) hosts.push({ name, port: number, detail: device, outages: [] });
    }
  }
  return {
    kind: "live", about: `process ${state.process}, version ${state.weir_version}`, start: state.at_ms, end: state.at_ms, at: [], columns: new Map(),
    ports, queues, hosts, flows: [], deadlock: null, pauses: [], events: [], losses: [], drops: [], gauges: [], lost: new Map(),
    switches: state.switches.map((of) => ({ name: of.switch, policy: of.buffer_configuration.policy })),
    links: [...links.values()].filter((ends) => ends.length === 2).map((ends) => ({ ends, outages: [] })),
    unixOffset: state.unix_ms - state.at_ms,
  };
}

function add(model, state, before) {
  const at = state.at_ms;
  const since = before ? at - before.at_ms : null;
  const several = state.switches.length > 1;
  model.at.push(at);
  model.end = at;
  const put = (name, value) => {
    let column = model.columns.get(name);
    if (!column) {
      column = new Array(model.at.length - 1).fill(null);
      model.columns.set(name, column);
    }
    column.push(value ?? null);
  };
  const gauges = new Set(model.gauges.map((gauge) => gauge.name));
  model.losses = [];
  const lost = new Map();
  state.switches.forEach((of, number) => {
    const last = before?.switches[number];
    const prefix = several ? `${of.switch}.` : "";
    const pool = of.buffer_pools.find((pool) => pool.pool === "shared");
    put(`${of.switch}.pool`, pool?.used_bytes);
    put(`${of.switch}.capacity`, pool?.size_bytes);
    const limits = new Map(of.buffer_configuration.queues.map((queue) => [`${queue.port}.${queue.class}`, queue]));
    const told = new Map(of.policy.queues.map((queue) => [`${queue.port}.${queue.class}`, queue]));
    const control = new Map(of.flow_control.flatMap((port) => port.classes.map((queue) => [`${port.port}.${queue.class}`, queue])));
    const groups = byPort(of.priority_groups);
    const egress = byPort(of.queues);
    const pfc = byPort(of.pfc_counters);
    const [lastGroups, lastEgress, lastPfc] = [byPort(last?.priority_groups), byPort(last?.queues), byPort(last?.pfc_counters)];
    for (const { port: name, link_up, state: admin } of of.interfaces) {
      const id = `${prefix}${name}`;
      const group = groups.get(name);
      put(`${id}.up`, link_up && admin !== "down" ? 1 : 0);
      const perSecond = (now, then) => now != null && then != null && since > 0 ? Math.max(0, now - then) * 8000 / since : null;
      let [rx, tx] = [0, 0];
      for (let cls = 0; cls < 8; cls++) {
        const queue = `${id}.${cls}`;
        const key = `${name}.${cls}`;
        const limit = limits.get(key);
        put(`${queue}.shared`, group.private_bytes[cls] + group.shared_bytes[cls]);
        put(`${queue}.headroom`, group.headroom_bytes[cls]);
        put(`${queue}.threshold`, limit?.lossless ? limit.threshold_bytes : null);
        put(`${queue}.egress`, egress.get(name)?.held_bytes[cls] ?? 0);
        const arriving = perSecond(group.bytes[cls], lastGroups.get(name)?.bytes[cls]);
        put(`${queue}.rx`, arriving);
        rx += arriving ?? 0;
        tx += perSecond(egress.get(name)?.bytes[cls], lastEgress.get(name)?.bytes[cls]) ?? 0;
        const policy = told.get(key);
        put(`${queue}.off`, policy ? (policy.port_off ? 2 : policy.off ? 1 : 0) : null);
        put(`${queue}.rate`, control.get(key)?.rate_rx_bps);
        for (const [gauge, value] of Object.entries({ ...policy?.gauges, ...control.get(key)?.gauges })) {
          put(`${queue}.gauge.${gauge}`, value);
          if (!gauges.has(gauge)) {
            gauges.add(gauge);
            model.gauges.push({ name: gauge, on: gauge === "victim" ? "victim" : null });
          }
        }
        const now = pfc.get(name);
        const then = lastPfc.get(name);
        if (now && then && since > 0) {
          const share = (key) => Math.min(1, Math.max(0, now[key][cls] - then[key][cls]) / 1000 / since);
          addPause(model, id, cls, at - since, at, share("tx_paused_us"), share("rx_paused_us"));
        }
      }
      put(`${id}.rx`, since ? rx : null);
      put(`${id}.tx`, since ? tx : null);
    }
    for (const loss of of.losses) {
      const key = [of.switch, loss.port, loss.place, loss.class, loss.reason].join(" ");
      const known = model.lost.get(key) ?? { frames: before ? 0 : loss.frames, at: -Infinity };
      const grown = loss.frames > known.frames ? at : known.at;
      if (grown === at && loss.class != null) model.drops.push({ at, port: `${prefix}${loss.port}`, cls: loss.class, isLossless: limits.get(`${loss.port}.${loss.class}`)?.lossless === true, frames: loss.frames - known.frames });
      lost.set(key, { frames: loss.frames, at: grown });
      const isLossless = loss.class == null || limits.get(`${loss.port}.${loss.class}`)?.lossless === true;
      model.losses.push({ ...loss, port: `${prefix}${loss.port}`, isLossless, at: grown });
    }
  });
  model.lost = lost;
  for (const column of model.columns.values()) {
    // A gauge that is not told this time.
    while (column.length < model.at.length) column.push(null);
  }
  model.events = state.events.map((event) => ({
    at: event.unix_ms - model.unixOffset, unixMs: event.unix_ms, port: event.port ? (several ? `${event.switch}.${event.port}` : event.port) : several ? event.switch : "",
    cls: event.class, what: `${event.event.replaceAll("_", " ")} ${event.detail}`.trim(),
  }));
  forget(model, at - REMEMBERED_MS);
}

const byPort = (rows) => new Map((rows ?? []).map((row) => [row.port, row]));

/** A pause is known by how much of the time between two samples it took. */
function addPause(model, id, cls, from, to, told, heard) {
  if (told === 0 && heard === 0 && !model.pauses.some((row) => model.ports[row.port].id === id && row.cls === cls)) return;
  const port = model.ports.findIndex((port) => port.id === id);
  let row = model.pauses.find((row) => row.port === port && row.cls === cls);
  if (!row) {
    row = { port, cls, told: [], heard: [] };
    model.pauses.push(row);
    model.pauses.sort((one, other) => one.port - other.port || one.cls - other.cls);
  }
  if (told > 0) row.told.push([from, to, told]);
  if (heard > 0) row.heard.push([from, to, heard]);
}

function forget(model, before) {
  let old = 0;
  while (old < model.at.length && model.at[old] < before) old += 1;
  if (old < 20) return;
  model.at.splice(0, old);
  for (const column of model.columns.values()) column.splice(0, old);
  model.start = model.at[0];
  for (const row of model.pauses) {
    for (const list of [row.told, row.heard]) {
      let gone = 0;
      while (gone < list.length && list[gone][1] < before) gone += 1;
      list.splice(0, gone);
    }
  }
}
