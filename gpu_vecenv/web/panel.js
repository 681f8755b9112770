// @ts-check
// Sliders for parameters that may change while worlds run, and choices of an action, entry by entry.
import { bytesOf, decode } from "./worlds.js";

/** @typedef {import("./worlds.js").ArrayPlan} ArrayPlan */
/** @typedef {{ numbers: Record<string, number>, arrays: Record<string, ArrayPlan>, pictures: [number, any][] }} Change */
/** @typedef {{ name: string, doc: string, unit: string, values: (number | boolean)[], at: number, changes: Change[] }} Slider */

/** An element with text and attributes. @param {string} name @param {string} text @param {Record<string, any>} attributes
 * @param {(Node | string)[]} children */
export function element(name, text = "", attributes = {}, children = []) {
  const made = Object.assign(document.createElement(name), attributes);
  made.append(...(text ? [text] : []), ...children);
  return made;
}

/** Data with other leaves; `leaves` of page_params.py counts them in the same way. @param {any} json
 * @param {Map<number, any>} changes */
export function withLeaves(json, changes) {
  let place = 0;
  /** @param {any} part @returns {any} */
  const walk = (part) => {
    if (Array.isArray(part)) return part.map(walk);
    if (part && typeof part === "object") {
      return Object.fromEntries(Object.entries(part).map(([key, value]) => [key, walk(value)]));
    }
    const at = place++;
    return changes.has(at) ? changes.get(at) : part;
  };
  return walk(json);
}

export class Params {
  /**
   * @param {{ plan: import("./worlds.js").Plan, pictures: any, sliders: Slider[] }} data
   * @param {import("./worlds.js").Worlds} worlds
   * @param {(pictures: any) => void} redraw called with the pictures of new values
   */
  constructor(data, worlds, redraw) {
    this.data = data;
    this.worlds = worlds;
    this.redraw = redraw;
    this.at = data.sliders.map(({ at }) => at);
  }

  /** What each slider changes, at any of its values. @param {number} k @returns {Set<string>} */
  #members(k) {
    return new Set(this.data.sliders[k].changes.flatMap(({ numbers, arrays, pictures }) =>
      [...Object.keys(numbers), ...Object.keys(arrays), ...pictures.map(([leaf]) => `leaf ${leaf}`)]));
  }

  /** Sets a parameter to one of its values. One that computes the same numbers returns to its first value.
   * @param {number} k @param {number} at @returns {number[]} sliders that returned */
  set(k, at) {
    const members = this.#members(k), { sliders, plan, pictures } = this.data;
    const back = sliders.flatMap((slider, other) =>
      other !== k && this.at[other] !== slider.at && [...this.#members(other)].some((name) => members.has(name)) ? [other] : []);
    for (const other of back) this.at[other] = sliders[other].at;
    this.at[k] = at;
    /** @type {Map<number, any>} */
    const leaves = new Map();
    sliders.forEach((_, one) => {
      for (const name of this.#members(one)) this.#write(name, plan.numbers[name], plan.arrays[name]);
    });
    sliders.forEach((slider, one) => {
      const change = slider.changes[this.at[one]];
      for (const [name, value] of Object.entries(change.numbers)) this.#write(name, value, undefined);
      for (const [name, array] of Object.entries(change.arrays)) this.#write(name, undefined, array);
      for (const [leaf, value] of change.pictures) leaves.set(leaf, value);
    });
    this.redraw(withLeaves(pictures, leaves));
    return back;
  }

  /** @param {string} name @param {number | undefined} value @param {ArrayPlan | undefined} array */
  #write(name, value, array) {
    if (value !== undefined) this.worlds.set(name, value);
    if (array?.data) bytesOf(this.worlds.arrays[name]).set(decode(array.data));
  }

  /** Adds the sliders to a part of the page. @param {HTMLElement} place */
  build(place) {
    const { sliders } = this.data;
    place.hidden = !sliders.length;
    const inputs = sliders.map(({ name, doc, unit, values, at }, k) => {
      const shown = element("span", "", { className: "value" });
      const input = element("input", "", { type: "range", min: 0, max: values.length - 1, step: 1, value: at });
      const say = () => {
        const value = values[this.at[k]];
        shown.textContent = `${typeof value === "number" ? +value.toPrecision(4) : value}${unit === "-" ? "" : ` ${unit}`}`;
        input.setAttribute("aria-valuetext", shown.textContent);
      };
      input.oninput = () => {
        for (const other of this.set(k, +input.value)) inputs[other].back();
        say();
      };
      say();
      place.append(element("label", `${name} `, { title: doc }, [shown, input]));
      return { back: () => { input.value = String(this.at[k]); say(); } };
    });
  }
}

/** Fills a part of the page with the entries of an agent's action. @param {HTMLElement} place @param {any} group
 * @param {(number | null)[]} chosen */
export function buildEntries(place, group, chosen) {
  place.replaceChildren(element("summary", "Action, entry by entry"));
  for (let entry = 0; entry < group.entries; ++entry) {
    const numbers = { type: "number", step: "any", placeholder: "policy" };
    const input = group.continuous ? element("input", "", numbers) : element("select", "", {}, [
      element("option", "keys or policy", { value: "" }),
      ...Array.from({ length: group.choices[entry] }, (_, choice) => element("option", String(choice), { value: choice })),
    ]);
    input.onchange = () => { chosen[entry] = input.value === "" ? null : +input.value; };
    place.append(element("label", `entry ${entry} `, {}, [input]));
  }
}
