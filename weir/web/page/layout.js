// Where switches and hosts go in the drawing: switches in layers above their hosts, or in a ring.

const SWITCH = { width: 104, height: 46 };
const HOST = { width: 74, height: 34 };
/** Width of a letter of a host's detail. */
export const LETTER = 5.1;
const MARGIN = 10;
const BETWEEN_LAYERS = 130;
/** A switch with more hosts than this has them in one box, and so have all switches of a fabric with more than this many. */
const HOSTS_MAX = 10;
const ALL_HOSTS_MAX = 24;

/** Boxes with `x` and `y` of their middles, by the model's switches and hosts. Hosts of a switch may share a box. A flat layout is wider and lower. */
export function layoutOf(model, isFlat = false) {
  const place = new Map(model.switches.map(({ name }, number) => [name, number]));
  const switchOf = (port) => place.get(model.ports[port].switch);
  const neighbours = model.switches.map(() => []);
  for (const { ends: [one, other] } of model.links) {
    neighbours[switchOf(one)].push(switchOf(other));
    neighbours[switchOf(other)].push(switchOf(one));
  }
  const boxes = [];
  model.switches.forEach((_, number) => {
    const own = model.hosts.map((host, n) => ({ host, n })).filter(({ host }) => switchOf(host.port) === number);
    const together = own.length > HOSTS_MAX || (model.hosts.length > ALL_HOSTS_MAX && own.length > 1);
    if (together) {
      const detail = `${own[0].host.name}…${own.at(-1).host.name}`;
      const width = Math.max(HOST.width, Math.min(SWITCH.width + 16, LETTER * detail.length + 8));
      boxes.push({ ...HOST, width, switch: number, hosts: own.map(({ n }) => n), label: `${own.length} hosts`, detail });
    }
    else own.forEach(({ host, n }) => boxes.push({ ...HOST, switch: number, hosts: [n], label: host.name, detail: host.detail ?? "" }));
  });
  const levels = levelsOf(neighbours, model.hosts.map(({ port }) => switchOf(port)));
  const top = Math.max(0, ...levels);
  const count = model.switches.length;
  const isRing = top === 0 && count > 2 && count <= 12;
  const switches = model.switches.map(() => ({ ...SWITCH, x: 0, y: 0 }));
  if (isRing) ring(switches, boxes, isFlat ? [1.7, 0.7] : [1, 1]);
  else {
    // Links within a layer need room between switches.
    const hasLevelLinks = neighbours.some((others, number) => others.some((other) => levels[other] === levels[number]));
    layers(switches, boxes, levels, top, hasLevelLinks ? 110 : 16);
  }
  const all = [...switches, ...boxes];
  const [left, right] = [Math.min(...all.map((box) => box.x - box.width / 2)), Math.max(...all.map((box) => box.x + box.width / 2))];
  const [upper, lower] = [Math.min(...all.map((box) => box.y - box.height / 2)), Math.max(...all.map((box) => box.y + box.height / 2))];
  all.forEach((box) => { box.x += MARGIN - left; box.y += MARGIN - upper; });
  return { switches, boxes, width: right - left + 2 * MARGIN, height: lower - upper + 2 * MARGIN };
}

/** How far each switch is from hosts: 0 with some of its own. */
function levelsOf(neighbours, atHosts) {
  const levels = neighbours.map(() => null);
  let reached = [...new Set(atHosts)];
  reached.forEach((number) => { levels[number] = 0; });
  while (reached.length > 0) {
    const next = [];
    for (const number of reached) {
      for (const other of neighbours[number]) {
        if (levels[other] != null) continue;
        levels[other] = levels[number] + 1;
        next.push(other);
      }
    }
    reached = next;
  }
  return levels.map((level) => level ?? 0);
}

/** Puts switches on an ellipse, that is a circle stretched by both factors. */
function ring(switches, boxes, [wider, higher]) {
  const count = switches.length;
  const radius = 70 + 24 * count;
  const far = radius + 125;
  const put = (box, angle, distance) => Object.assign(box, { x: wider * distance * Math.sin(angle), y: -higher * distance * Math.cos(angle) });
  const turn = 2 * Math.PI / count;
  switches.forEach((box, number) => {
    put(box, number * turn, radius);
    const own = boxes.filter((other) => other.switch === number);
    // No further than to the neighbours' hosts.
    const apart = Math.min(turn / Math.max(1, own.length), 90 / far);
    own.forEach((other, n) => put(other, number * turn + apart * (n - (own.length - 1) / 2), far));
  });
}

function layers(switches, boxes, levels, top, apart) {
  const bottom = switches.map((_, number) => number).filter((number) => levels[number] === 0);
  const slots = (number) => Math.max(SWITCH.width + apart, boxes.filter((box) => box.switch === number).length * (HOST.width + 10) + apart - 16);
  let x = 0;
  for (const number of bottom) {
    const own = boxes.filter((box) => box.switch === number);
    const width = slots(number);
    Object.assign(switches[number], { x: x + width / 2, y: top * BETWEEN_LAYERS });
    own.forEach((box, n) => Object.assign(box, { x: x + width / 2 + (n - (own.length - 1) / 2) * (HOST.width + 10), y: top * BETWEEN_LAYERS + BETWEEN_LAYERS }));
    x += width;
  }
  for (let level = 1; level <= top; level++) {
    const own = switches.filter((_, number) => levels[number] === level);
    const width = Math.max(x, own.length * (SWITCH.width + apart));
    own.forEach((box, n) => Object.assign(box, { x: x / 2 + ((n + 0.5) / own.length - 0.5) * width, y: (top - level) * BETWEEN_LAYERS }));
  }
}
