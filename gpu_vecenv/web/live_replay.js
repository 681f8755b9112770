// @ts-check
// Rollouts of a run in progress, made again: worlds start from the state that the trainer sent, take its actions, and must end in
// the state that it sent, to the bit.
import { Worlds, bytesOf } from "./worlds.js";

/** @typedef {import("./worlds.js").Plan & { pictures: any[] }} LivePlan */
/** @typedef {import("./live_panels.js").Decisions} Decisions */
/** @typedef {{ iteration: number, steps: number, start: Uint8Array, actions: Uint8Array, end: Uint8Array,
 * decisions: Decisions | null }} Rollout */
/** @typedef {{ plan: number, pool: number, newPlan: LivePlan | null, newPool: Record<string, Uint8Array> | null,
 * rollouts: Rollout[] }} Excerpt */

const START = ["reset_bounds", "may_be_finished", "pool_size"]; // arrays behind the state fields in the start of a rollout

/** Reads an answer of the trainer, see _message() in live.py. @param {ArrayBuffer} buffer @returns {Excerpt} */
export function excerptOf(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let at = 4 + length;
  const parts = head.bytes.map((/** @type {number} */ size) => new Uint8Array(buffer, (at += size) - size, size));
  const newPool = head.newPool ? Object.fromEntries(head.newPool.map((/** @type {string} */ name) => [name, parts.shift()])) : null;
  const rollouts = head.rollouts.map((/** @type {any} */ { iteration, steps, decisions }) => {
    const [start, actions, end] = parts.splice(0, 3);
    const numbers = decisions && new Float32Array(parts.shift().slice().buffer);
    return { iteration, steps, start, actions, end, decisions: decisions ? { ...decisions, numbers } : null };
  });
  return { plan: head.plan, pool: head.pool, newPlan: head.newPlan ?? null, newPool, rollouts };
}

export class Replay {
  /** @type {Worlds | null} */
  worlds = null;
  /** @type {LivePlan | null} */
  plan = null;
  /** @type {Record<string, Uint8Array> | null} */
  pool = null;
  /** @type {Rollout[]} that wait */
  rollouts = [];
  /** @type {Rollout | null} */
  playing = null;
  planNumber = 0;
  poolNumber = 0;
  t = 0; // steps of the rollout that are made
  equal = 0; // rollouts that ended in the same bits
  made = 0;

  /** @param {BufferSource} kernels */
  constructor(kernels) { this.kernels = kernels; }

  /** Takes an excerpt. Returns true if the worlds are new, because the run has other parameters or another pool.
   * @param {Excerpt} excerpt */
  async take(excerpt) {
    this.rollouts = excerpt.rollouts;
    this.plan = excerpt.newPlan ?? this.plan;
    this.pool = excerpt.newPool ?? this.pool;
    if (!this.plan || !(excerpt.newPlan || excerpt.newPool)) return false;
    this.worlds = await Worlds.load(this.plan, this.kernels);
    const [size] = new Int32Array(this.rollouts[0].start.slice(-4).buffer);
    if (this.pool) this.worlds.setPool(this.pool, size);
    [this.planNumber, this.poolNumber] = [excerpt.plan, excerpt.pool];
    return true;
  }

  /** Starts the next rollout that waits. Returns false without one. */
  begin() {
    const { worlds, plan } = this, rollout = this.rollouts.shift();
    if (!worlds || !plan || !rollout) return false;
    let at = 0;
    worlds.setState(Object.fromEntries([...plan.state, ...START].map((name) => {
      const size = worlds.arrays[name].byteLength;
      return [name, rollout.start.subarray(at, (at += size))];
    })));
    this.playing = rollout;
    this.t = 0;
    return true;
  }

  /** Makes a step of the rollout, and behind the last one compares the state. Returns the rollout. @returns {Rollout | null} */
  step() {
    const { worlds, plan, playing } = this;
    if (!worlds || !plan || !playing) return null;
    let at = 0;
    for (const { prefix } of plan.groups) {
      const bytes = bytesOf(worlds.arrays[`${prefix}action`]), size = bytes.length;
      bytes.set(playing.actions.subarray(at + this.t * size, at + (this.t + 1) * size));
      at += playing.steps * size;
    }
    worlds.step();
    this.t += 1;
    if (this.t < playing.steps) return playing;
    let place = 0;
    const same = plan.state.every((name) => bytesOf(worlds.arrays[name]).every((byte) => byte === playing.end[place++]));
    this.made += 1;
    this.equal += Number(same && place === playing.end.length);
    this.playing = null;
    return playing;
  }
}
