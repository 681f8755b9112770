// @ts-check
// A visitor steers one agent of world 0: keys and fingers give a direction, and the controls of its env (render/controls.py) turn
// the direction into an action. Entries of the action may also be chosen one by one.
import { Scene } from "./scene.js";

/** @typedef {{ name: string, group: number, first: number, agents: number, number: number }} Role first agent's number in its
 * group, how many, and the first one's number in the world */
/** @typedef {{ entries: any[], at: [any, any] | null, rests: boolean }} Controls */

/** @type {Record<string, [number, number]>} */
const DIRECTIONS = {
  ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1], d: [1, 0], a: [-1, 0], w: [0, 1], s: [0, -1],
};
const PRESS = "e";
const NEAR = 6, ON = 24; // pixels of the picture from the agent, within which a finger gives no direction, or presses

export class Steering {
  /**
   * @param {{ roles: Role[], groups: any[], controls: Record<string, Controls> }} data
   * @param {import("./worlds.js").Worlds} worlds
   * @param {Record<string, import("./scene.js").Field>} fields
   */
  constructor(data, worlds, fields) {
    this.data = data;
    this.worlds = worlds;
    this.held = [0, 0, 0, 0]; // right, up, agent, press
    this.fields = { ...fields, held: { numbers: this.held, shape: [4] } };
    /** @type {Set<string>} */
    this.keys = new Set();
    /** @type {[number, number] | null} where a finger is, in pixels of the picture */
    this.finger = null;
    this.middle = [0, 0]; // of the picture, for agents whose place is not known
    /** @type {(number | null)[]} entries that the visitor chose; null leaves one to keys or the policy */
    this.chosen = [];
    this.role = data.roles[0];
    this.agent = 0; // in its role
    this.active = false;
    /** @type {Map<string, Scene>} */
    this.scenes = new Map();
  }

  get group() { return this.data.groups[this.role.group]; }
  get controls() { return this.data.controls[this.role.name]; }
  get presses() { return JSON.stringify(this.controls?.entries ?? []).includes('["field","held",3]'); }

  /** Takes over an agent. @param {Role} role @param {number} agent number in its role */
  take(role, agent) {
    this.role = role;
    this.agent = agent;
    this.active = true;
    this.held[2] = role.number + agent;
    this.chosen = Array(this.group.entries).fill(null);
  }

  release() {
    this.active = false;
    this.keys.clear();
    this.finger = null;
  }

  /** Notes a key; tells if it steers. @param {string} key @param {boolean} down */
  key(key, down) {
    const name = key.length === 1 ? key.toLowerCase() : key;
    if (!(name in DIRECTIONS) && !(this.presses && name === PRESS)) return false;
    if (down) this.keys.add(name);
    else this.keys.delete(name);
    return true;
  }

  /** The controls of the role as numbers of the state. @returns {Scene | null} */
  #scene() {
    const { role, group, controls } = this;
    if (!controls) return null;
    const known = this.scenes.get(role.name);
    if (known) return known;
    const numbers = [...controls.entries, ...(controls.at ?? [])];
    const memory = numbers.map((number, k) =>
      ({ kind: "now", count: k < controls.entries.length && !group.continuous ? group.choices[k] : 1, variable: 0, number }));
    const scene = new Scene({ size: [1, 1], blocks: [], memory }, this.fields, {});
    this.scenes.set(role.name, scene);
    return scene;
  }

  /** @returns {Float64Array[]} */
  #values() {
    const scene = this.#scene();
    if (!scene) return [];
    const memory = scene.memory();
    scene.follow(memory, 0, 0, false);
    return memory.values;
  }

  /** Where the agent is in the first scene of the frame, in its pixels; null if that is not known.
   * @returns {[number, number] | null} */
  place() {
    if (!this.controls?.at) return null;
    const values = this.#values(), first = this.controls.entries.length;
    return [values[first][0], values[first + 1][0]];
  }

  /** The agent of the role that is nearest to a place and in the game. @param {[number, number]} place */
  nearest([x, y]) {
    const alive = this.worlds.outputs.agent_alive;
    let [best, least] = [this.agent < this.role.agents ? this.agent : 0, Infinity];
    for (let agent = 0; agent < this.role.agents; ++agent) {
      if (alive && !alive[this.role.number + agent]) continue;
      this.held[2] = this.role.number + agent;
      const at = this.place(), distance = at ? Math.hypot(at[0] - x, at[1] - y) : Infinity;
      if (distance < least) [best, least] = [agent, distance];
    }
    this.held[2] = this.role.number + this.agent;
    return best;
  }

  /** Sets the direction and the press from keys or from the finger, and tells if there is one. */
  #direct() {
    let [right, up, press] = [0, 0, 0];
    for (const key of this.keys) {
      const [across, over] = DIRECTIONS[key] ?? [0, 0];
      right += across;
      up += over;
      if (key === PRESS) press = 1;
    }
    if (this.finger) {
      const [x, y] = this.place() ?? this.middle, [across, down] = [this.finger[0] - x, this.finger[1] - y];
      const length = Math.hypot(across, down);
      if (this.presses && this.place() && length < ON) press = 1;
      else [right, up] = length > NEAR ? [across / length, -down / length] : [0, 0];
    }
    this.held[3] = press;
    this.held[0] = Math.sign(right) * Math.min(1, Math.abs(right));
    this.held[1] = Math.sign(up) * Math.min(1, Math.abs(up));
    return this.held[0] !== 0 || this.held[1] !== 0 || press === 1;
  }

  /** Overwrites the action that the policy chose for the agent. */
  act() {
    if (!this.active) return;
    const { prefix, entries, continuous } = this.group, actions = this.worlds.arrays[`${prefix}action`];
    const first = (this.role.first + this.agent) * entries, held = this.#direct();
    if (this.controls && (held || this.controls.rests)) {
      this.#values().slice(0, this.controls.entries.length).forEach((scores, entry) => {
        actions[first + entry] = continuous ? scores[0] : scores.indexOf(Math.max(...scores));
      });
    }
    this.chosen.forEach((choice, entry) => { if (choice !== null) actions[first + entry] = choice; });
  }
}
