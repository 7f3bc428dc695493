// Marks on the time slider: deadlocks, storms, drops, and settings that were changed.

import { element, moment } from "./words.js";

/** Kinds of marks, the most important last: it is drawn above the others. */
const KINDS = [["change", "◆", "setting changed"], ["drop", "▼", "frames dropped"], ["storm", "ϟ", "PFC storm"], ["deadlock", "✖", "deadlock"]];
/** Marks of a kind that are nearer than this share of the slider are one. */
const APART = 1 / 150;

/** All marks of a model: instants with kinds and words. */
export function marksOf(model) {
  const marks = [];
  // A deadlock is told when it has lasted; its mark is at its beginning.
  const isOf = (what) => model.deadlock && what.includes(model.deadlock.cycle.replaceAll("->", "→"));
  for (const { at, port, cls, what } of model.events) {
    const at_port = port ? `${port}${cls == null ? "" : `, class ${cls}`}: ` : "";
    if (what.startsWith("deadlock")) marks.push({ at: isOf(what) ? model.deadlock.since_ms : at, kind: "deadlock", words: what });
    else if (/storm (detected|restored)/.test(what)) marks.push({ at, kind: "storm", words: at_port + what });
    else if (what.startsWith("set ")) marks.push({ at, kind: "change", words: what });
  }
  if (model.deadlock && !marks.some((mark) => mark.kind === "deadlock")) marks.push({ at: model.deadlock.since_ms, kind: "deadlock", words: `deadlock: ${model.deadlock.cycle}` });
  for (const { at, port, cls } of model.drops) marks.push({ at, kind: "drop", words: `${port}, class ${cls}: frames dropped` });
  return marks;
}

export class MarksView {
  /** `seek(at)` goes to a mark's moment. */
  constructor(place, legend, seek) {
    [this.place, this.legend, this.seek] = [place, legend, seek];
    this.shown = "";
  }

  /** Draws the marks of models whose slider goes from `start` to `end`. */
  show(models, start, end) {
    const kinds = KINDS.map(([kind, sign, name]) => ({ kind, sign, name, marks: apart(models.flatMap(marksOf).filter((mark) => mark.kind === kind && mark.at >= start && mark.at <= end), (end - start) * APART) }));
    const shown = JSON.stringify([start, end, kinds]);
    if (shown === this.shown) return;
    this.shown = shown;
    const button = (kind, sign) => ({ at, words, count }) => element("button", {
      type: "button", class: `mark ${kind}`, tabindex: -1, style: `--at:${((at - start) / (end - start || 1)).toFixed(4)}`,
      title: `${moment(at, end)}: ${words}${count > 1 ? `, and ${count - 1} more` : ""}`, onclick: () => this.seek(at),
    }, sign);
    this.place.replaceChildren(...kinds.flatMap(({ kind, sign, marks }) => marks.map(button(kind, sign))));
    this.legend.replaceChildren(...kinds.filter(({ marks }) => marks.length > 0).map(({ kind, sign, name }) => element("li", {}, element("span", { class: `mark ${kind}` }, sign), ` ${name}`)));
  }
}

/** Joins marks that are nearer than `least`; the first counts. */
function apart(marks, least) {
  const joined = [];
  for (const mark of marks.sort((one, other) => one.at - other.at)) {
    const last = joined.at(-1);
    if (last && mark.at - last.at < least) last.count += 1;
    else joined.push({ ...mark, count: 1 });
  }
  return joined;
}
