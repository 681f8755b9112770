// @ts-check
// Calls of an env for another program, in Node (node_worlds.js) and in pages of tests: each returns arrays of its results.
import { Worlds, bytesOf, decode } from "./worlds.js";

/** @typedef {import("./worlds.js").Numbers} Numbers */

/** @type {Worlds} */
let worlds;

/** @type {Record<string, (argument: any) => Numbers[] | Promise<Numbers[]>>} */
export const calls = {
  async load({ plan, module }) {
    worlds = await Worlds.load(plan, module);
    return [];
  },
  reset({ seed, mask }) {
    worlds.reset(seed === null ? null : BigInt(seed), { mask: mask && decode(mask) });
    return Object.values(worlds.outputs);
  },
  step({ actions }) {
    worlds.plan.groups.forEach(({ prefix }, index) => bytesOf(worlds.arrays[`${prefix}action`]).set(decode(actions[index])));
    worlds.step();
    return Object.values(worlds.outputs);
  },
  rollout({ steps }) { return Object.values(worlds.rollout(steps)); },
  copy({ sources }) {
    worlds.copy(new Int32Array(decode(sources).buffer));
    return Object.values(worlds.outputs);
  },
  pool({ fields, size }) {
    for (const name in fields) fields[name] = decode(fields[name]);
    worlds.setPool(fields, size);
    return [];
  },
  state() { return worlds.plan.state.map((name) => worlds.arrays[name]); },
  invalid() { return [worlds.arrays.invalid_actions]; },
};
