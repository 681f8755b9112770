// @ts-check
// Parts of the live page beside its worlds: the decision of an agent, and curves of metrics.

/** @typedef {{ policy: string, kind: "probabilities" | "values" | "normal" | "number", numbers: Float32Array }} Decisions
 * numbers of all steps, one after the other; see distributions() in live_decisions.py */
/** @typedef {Record<string, number>} Point metrics of an iteration by name */

const LINES = ["#d55e00", "#0f82bd", "#009e73", "#8d6bb8", "#a07800", "#7a8594"]; // legible on both themes
const [WIDTH, HEIGHT, LEFT, BOTTOM, MOST] = [380, 190, 52, 20, 1200];
/** Words for what decisions hold. */
export const KINDS = { probabilities: "probabilities", values: "values", normal: "means and deviations", number: "likeliest numbers" };
const FEW = 12; // choices of an entry that have room for a number below each

/** @param {string} tag @param {string} [name] class @param {string} [text] */
function element(tag, name = "", text = "") {
  const made = document.createElement(tag);
  if (name) made.className = name;
  made.textContent = text;
  return made;
}

/**
 * Shows what the policy of an agent gave each choice in a step, and which it took.
 * @param {HTMLElement} place
 * @param {Decisions} decisions
 * @param {number} step
 * @param {number} steps
 * @param {number[]} choices numbers of choices of the entries of an action; empty for numbers
 * @param {ArrayLike<number>} taken the action
 */
export function showDecision(place, { kind, numbers }, step, steps, choices, taken) {
  const size = numbers.length / steps, now = numbers.subarray(step * size, (step + 1) * size);
  if (kind === "normal" || kind === "number") {
    const count = taken.length, shown = (/** @type {number} */ x) => x.toPrecision(3);
    place.replaceChildren(...Array.from(taken, (number, k) => {
      const spread = kind === "normal" ? ` ± ${shown(now[count + k])}` : "";
      return element("div", "number", `${k}: ${shown(now[k])}${spread}, took ${shown(number)}`);
    }));
    return;
  }
  let at = 0;
  place.replaceChildren(...choices.map((count, entry) => {
    const values = now.subarray(at, (at += count)), low = Math.min(...values), high = Math.max(...values);
    const share = (/** @type {number} */ x) => (kind === "probabilities" ? x : (x - low) / (high - low || 1));
    const row = element("div", count > FEW ? "entry many" : "entry");
    const text = (/** @type {number} */ x) => (kind === "probabilities" ? `${(100 * x).toFixed(0)} %` : x.toPrecision(3));
    values.forEach((value, k) => {
      const choice = element("div", k === taken[entry] ? "choice taken" : "choice"), bar = element("div", "bar"), fill = element("i");
      fill.style.height = `${Math.max(0, Math.min(100, 100 * share(value)))}%`;
      bar.append(fill);
      choice.append(bar, ...(count > FEW ? [] : [element("div", "", text(value))]));
      choice.title = `entry ${entry}, choice ${k}: ${text(value)}`;
      row.append(choice);
    });
    return row;
  }));
}

/** Curves of the metrics of a run: one metric at a time, with a line for each policy. */
export class Curves {
  /** @param {HTMLElement} place @param {HTMLSelectElement} choice */
  constructor(place, choice) {
    this.place = place;
    this.choice = choice;
    /** @type {Point[]} */
    this.points = [];
    this.chosen = false; // by the user; until then the first metric is shown
    choice.onchange = () => ((this.chosen = true), this.draw());
  }

  /** Iteration of the newest point; 0 without one. */
  get last() { return this.points.length ? this.points[this.points.length - 1].iteration : 0; }

  /** @param {Point[]} points of later iterations */
  add(points) {
    if (!points.length) return;
    this.points.push(...points);
    if (this.points.length > MOST) this.points = this.points.filter((_, k) => k % 2 === 0 || k === this.points.length - 1);
    const metrics = new Set(this.points.slice(-50).flatMap((point) => Object.keys(point).map((name) => name.split("/")[0])));
    for (const name of ["iteration", "steps"]) metrics.delete(name);
    const names = [...metrics].sort((a, b) => Number(b === "recent_return") - Number(a === "recent_return") || (a < b ? -1 : 1));
    if (names.join() !== Array.from(this.choice.options, (option) => option.value).join()) {
      const chosen = this.choice.value;
      this.choice.replaceChildren(...names.map((name) => new Option(name.replaceAll("_", " "), name)));
      if (this.chosen && names.includes(chosen)) this.choice.value = chosen;
    }
    this.draw();
  }

  draw() {
    const metric = this.choice.value, names = new Set(this.points.flatMap((point) => Object.keys(point)));
    const shown = [...names].filter((name) => name.split("/")[0] === metric);
    const lines = shown.map((name) => this.points.filter((point) => name in point).map((point) => [point.steps, point[name]]));
    const all = lines.flat();
    if (!all.length) return;
    const bounds = (/** @type {number} */ axis) => all.reduce(([low, high], point) =>
      [Math.min(low, point[axis]), Math.max(high, point[axis])], [Infinity, -Infinity]);
    const [[first, last], [low, high]] = [bounds(0), bounds(1)];
    const x = (/** @type {number} */ steps) => LEFT + ((WIDTH - LEFT) * (steps - first)) / (last - first || 1);
    const y = (/** @type {number} */ value) => 6 + (HEIGHT - BOTTOM - 6) * (1 - (value - low) / (high - low || 1));
    const short = (/** @type {number} */ value) => value.toLocaleString("en", { maximumSignificantDigits: 4 });
    const steps = new Intl.NumberFormat("en", { notation: "compact" });
    const drawing = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    drawing.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", `${metric.replaceAll("_", " ")} over ${steps.format(last)} steps`);
    const add = (/** @type {string} */ tag, /** @type {Record<string, string | number>} */ attributes, text = "") => {
      const made = drawing.appendChild(document.createElementNS("http://www.w3.org/2000/svg", tag));
      for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
      made.textContent = text;
    };
    for (const value of new Set([low, high])) {
      add("line", { class: "frame", x1: LEFT, x2: WIDTH, y1: y(value), y2: y(value) });
      add("text", { class: "axis", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, short(value));
    }
    add("text", { class: "axis", x: LEFT, y: HEIGHT - 4 }, `${steps.format(first)} steps`);
    if (last > first) add("text", { class: "axis", x: WIDTH, y: HEIGHT - 4, "text-anchor": "end" }, steps.format(last));
    lines.forEach((points, k) => add("polyline", {
      points: points.map(([at, value]) => `${x(at).toFixed(1)},${y(value).toFixed(1)}`).join(" "),
      fill: "none", stroke: LINES[k % LINES.length], "stroke-width": 2, "stroke-linejoin": "round",
    }));
    const list = element("ul");
    shown.forEach((name, k) => {
      const item = list.appendChild(element("li", "", `${name.split("/")[1] ?? name} ${short(lines[k][lines[k].length - 1][1])}`));
      item.style.setProperty("--line", LINES[k % LINES.length]);
    });
    this.place.replaceChildren(drawing, list);
  }
}
