// @ts-check
// Policies of pages: from what agents observe to their actions, by the kernel of policy.cu in a memory of its own. The draws are
// those of the trainer's evaluation: they depend on the random key of a world, its episode, its step and the agent.
import { Kernels } from "./worlds.js";

/** @typedef {import("./worlds.js").ArrayPlan} ArrayPlan */
/** @typedef {{ bytes: number, members: Record<string, [number, string]> }} ProgramPlan */
/** @typedef {{ numbers: Record<string, number>, arrays: Record<string, ArrayPlan>, first: number, count: number }} PolicyPlan
 * first and count: floats of its weights in the file of weights */
/** @typedef {{ policy: string, group: number, first: number, agents: number, number: number }} Span
 * agents that a policy acts for: the first one's number in its group, how many, and the first one's number in the world */
/** @typedef {{ prefix: string, count: number, features: number, shared: number, maskColumns: number, entries: number,
 * obs: string, sharedObs: string, mask: string, continuous: boolean }} Group shared: features of the part of the observations
 * that all agents have in common */

const COUNTERS = ["seed", "world_id", "episode", "t"];

/** A policy with the agents that it acts for in some worlds. */
export class Policy extends Kernels {
  /**
   * @param {ProgramPlan} program
   * @param {PolicyPlan} plan
   * @param {Float32Array} weights those of all policies
   * @param {Span} span
   * @param {Group} group
   * @param {import("./worlds.js").Worlds} worlds
   * @param {Record<string, any>} exports of the module
   */
  constructor(program, plan, weights, span, group, worlds, exports) {
    super(program, exports);
    const { numbers } = plan, count = worlds.worlds, rows = count * span.agents;
    this.span = span;
    this.group = group;
    this.worlds = worlds;
    /** @type {(dtype: string, ...shape: number[]) => ArrayPlan} */
    const empty = (dtype, ...shape) => ({ dtype, shape });
    this.allocate({
      ...plan.arrays,
      weights: empty("float32", plan.count), obs: empty("float32", rows, numbers.features),
      mask: { ...empty("uint8", rows, numbers.mask_columns), fill: 1 },
      hidden: empty("float32", rows, 2 * numbers.widest), outputs: empty("float32", rows, numbers.columns),
      action: empty(group.continuous ? "float32" : "int32", rows, numbers.entries),
      "draw.seed": empty("uint64", count), "draw.world_id": empty("int32", count), "draw.episode": empty("int32", count),
      "draw.t": empty("int32", count), "draw.world": empty("int32", rows), "draw.agent": empty("int32", rows),
    }, "arrays.");
    for (const [name, value] of Object.entries({ ...numbers, rows })) this.set(name, value);
    for (const name of Object.keys(this.arrays)) this.set(name, this.address(name));
    /** @type {any} */ (this.arrays.weights).set(weights.subarray(plan.first, plan.first + plan.count));
    for (let row = 0; row < rows; ++row) {
      this.arrays["draw.world"][row] = Math.floor(row / span.agents);
      this.arrays["draw.agent"][row] = span.number + (row % span.agents);
    }
  }

  /**
   * Writes the next actions of its agents in some worlds to the arrays of the env.
   * @param {number} end last world, exclusive
   * @param {boolean} likeliest actions in place of draws
   * @param {number} from first world
   */
  act(end, likeliest = false, from = 0) {
    const { arrays, outputs } = this.worlds, { agents, first } = this.span, { group } = this;
    const { features, shared, maskColumns, entries } = group, own = /** @type {Float32Array} */ (outputs[group.obs]);
    const obs = /** @type {Float32Array} */ (this.arrays.obs), mask = /** @type {Uint8Array} */ (this.arrays.mask);
    for (const name of COUNTERS) /** @type {any} */ (this.arrays[`draw.${name}`]).set(arrays[name]);
    for (let world = from; world < end; ++world) {
      const row = world * group.count + first, to = world * agents;
      if (!shared) obs.set(own.subarray(row * features, (row + agents) * features), to * features);
      else this.#beside(own, world, row, to);
      if (maskColumns) {
        const allowed = /** @type {Uint8Array} */ (outputs[group.mask]);
        mask.set(allowed.subarray(row * maskColumns, (row + agents) * maskColumns), to * maskColumns);
      }
    }
    this.set("likeliest", likeliest ? 1 : 0);
    this.launch("gv_act", end * agents, from * agents);
    const chosen = /** @type {any} */ (this.arrays.action), actions = /** @type {any} */ (arrays[`${group.prefix}action`]);
    for (let world = from; world < end; ++world) {
      const row = world * agents;
      actions.set(chosen.subarray(row * entries, (row + agents) * entries), (world * group.count + first) * entries);
    }
  }

  /** Puts the shared part before each agent's own. @param {Float32Array} own @param {number} world @param {number} from
   * @param {number} to */
  #beside(own, world, from, to) {
    const { features, shared, sharedObs } = this.group, obs = /** @type {Float32Array} */ (this.arrays.obs);
    const common = /** @type {Float32Array} */ (this.worlds.outputs[sharedObs]).subarray(world * shared, (world + 1) * shared);
    for (let k = 0; k < this.span.agents; ++k) {
      const at = (to + k) * (shared + features);
      obs.set(common, at);
      obs.set(own.subarray((from + k) * features, (from + k + 1) * features), at + shared);
    }
  }
}
