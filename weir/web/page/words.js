// Numbers as people read them.

/** Three digits, no more than it needs. */
function digits(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2);
}

function scaled(value, units) {
  if (value == null || Number.isNaN(value)) return "–";
  let step = 0;
  while (step < units.length - 1 && Math.abs(value) >= 999.5) {
    value /= 1000;
    step += 1;
  }
  return `${step === 0 ? Math.round(value) : digits(value)} ${units[step]}`;
}

export const bytes = (value) => scaled(value, ["B", "KB", "MB", "GB"]);
export const rate = (value) => scaled(value, ["b/s", "Kb/s", "Mb/s", "Gb/s", "Tb/s"]);
/** Without the unit's end: `4.98G`. */
export const shortRate = (value) => rate(value).replace(" ", "").replace("b/s", "");
export const count = (value) => value == null ? "–" : value.toLocaleString("en-US");

/** A time of a run that is so long, both in ms. */
export function moment(ms, length) {
  if (length >= 20_000) return `${(ms / 1000).toFixed(length >= 200_000 ? 0 : 1)} s`;
  return `${ms.toFixed(length >= 2_000 ? 0 : length >= 100 ? 2 : 3)} ms`;
}

/** Time of day of a moment in ms since 1970. */
export const clock = (unixMs) => new Date(unixMs).toISOString().slice(11, 23);

/** Numbers in a name count: `p2` before `p10`. */
export const inOrder = (a, b) => a.localeCompare(b, "en", { numeric: true });

/** An element with attributes and children; `on…` attributes are listeners, and text is text. */
export function element(name, attributes = {}, ...children) {
  const isSvg = ["svg", "g", "path", "rect", "circle", "text", "title", "line", "polygon"].includes(name);
  const made = isSvg ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}
