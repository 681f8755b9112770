// @ts-check
// Worlds in Node for node_worlds.py: a line of JSON from the input is a call, and the bytes of its results go to the output.
import { readFileSync, writeSync } from "node:fs";
import { createInterface } from "node:readline";
import { Worlds, bytesOf, decode } from "./worlds.js";

/** @param {import("./worlds.js").Numbers[]} arrays */
function write(arrays) {
  for (const array of arrays) {
    const bytes = bytesOf(array);
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
  }
}

/** @type {Worlds} */
let worlds;

/** @type {Record<string, (argument: any) => import("./worlds.js").Numbers[] | Promise<import("./worlds.js").Numbers[]>>} */
const calls = {
  async load({ plan, module }) {
    worlds = await Worlds.load(JSON.parse(readFileSync(plan, "utf8")), readFileSync(module));
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

for await (const line of createInterface({ input: process.stdin })) {
  const { call, ...argument } = JSON.parse(line);
  write(await calls[call](argument));
}
