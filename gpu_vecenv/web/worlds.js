// @ts-check
// Worlds that a page or Node steps: memory for the arrays of a plan (plan.py), the argument struct of the kernels, and a method
// for each kernel. It knows no env.

/** @typedef {Float32Array | Float64Array | Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | BigInt64Array |
 * BigUint64Array} Numbers */
/** @typedef {{ dtype: string, shape: number[], data?: string, fill?: number }} ArrayPlan */
/** @typedef {ArrayPlan & { members: string[], previous?: string }} OutputPlan */
/** @typedef {{ env: string, worlds: number, agents: number, bytes: number, members: Record<string, [number, string]>,
 * numbers: Record<string, number>, arrays: Record<string, ArrayPlan>, outputs: Record<string, OutputPlan>, state: string[],
 * groups: { prefix: string, draws: boolean }[] }} Plan */

/** @type {Record<string, any>} */
const KINDS = {
  float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
  int32: Int32Array, int64: BigInt64Array, uint64: BigUint64Array, bool: Uint8Array,
};
const OWN_KEYS = 2n ** 31n; // value of the shared key's world_id that makes each world read its own random key

/** @param {string} text base64 */
export const decode = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/** @param {Numbers} numbers */
export const bytesOf = (numbers) => new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength);

/** @param {ArrayPlan} plan */
const lengthOf = ({ shape }) => shape.reduce((product, extent) => product * extent, 1);

/** Memory of a module, and the argument struct of its kernels. */
export class Kernels {
  /**
   * @param {{ bytes: number, members: Record<string, [number, string]> }} plan of the struct
   * @param {Record<string, any>} kernels exports of the module
   */
  constructor({ bytes, members }, kernels) {
    this.kernels = kernels;
    this.members = members;
    /** @type {Record<string, Numbers>} arrays by member, outputs by name; each allocation replaces them */
    this.arrays = {};
    /** @type {Record<string, Numbers>} */
    this.outputs = {};
    this.places = /** @type {Record<string, { at: number, dtype: string, length: number }>} */ ({});
    this.end = kernels.__heap_base.value;
    this.struct = this.#take(bytes);
  }

  /** @param {number} bytes */
  #take(bytes) {
    const at = (this.end + 63) & ~63, { memory } = this.kernels;
    this.end = at + bytes;
    const missing = this.end - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / 65536));
    return at;
  }

  /**
   * Allocates arrays, once for each place; their memory lasts as long as this object. Typed arrays of earlier calls may be
   * detached: take them anew from `arrays`, `outputs` or `at()`.
   * @param {Record<string, ArrayPlan>} plans
   * @param {string} room in front of their names
   */
  allocate(plans, room) {
    /** @type {[string, ArrayPlan][]} */
    const made = [];
    for (const [name, plan] of Object.entries(plans)) {
      const place = room + name, length = lengthOf(plan), { dtype } = plan;
      if (place in this.places) continue;
      this.places[place] = { at: this.#take(Math.max(8, length * KINDS[dtype].BYTES_PER_ELEMENT)), dtype, length };
      made.push([place, plan]);
    }
    this.arrays = this.room("arrays.");
    this.outputs = this.room("outputs.");
    for (const [place, { data, fill }] of made) {
      const numbers = this.at(place), big = numbers instanceof BigInt64Array || numbers instanceof BigUint64Array;
      if (data) bytesOf(numbers).set(decode(data));
      if (fill) /** @type {any} */ (numbers).fill(big ? BigInt(fill) : fill);
    }
  }

  /** @param {string} place @returns {Numbers} */
  at(place) {
    const { at, dtype, length } = this.places[place];
    return new KINDS[dtype](this.kernels.memory.buffer, at, length);
  }

  /** Arrays of a room by the rest of their names. @param {string} room @returns {Record<string, Numbers>} */
  room(room) {
    const names = Object.keys(this.places).filter((place) => place.startsWith(room));
    return Object.fromEntries(names.map((place) => [place.slice(room.length), this.at(place)]));
  }

  /** @param {string} name */
  address(name) { return this.places[`arrays.${name}`].at; }

  /** Overwrites a member of the argument struct. @param {string} name @param {number | bigint} value */
  set(name, value) {
    const [offset, dtype] = this.members[name], view = new DataView(this.kernels.memory.buffer, this.struct);
    if (dtype === "float32") view.setFloat32(offset, Number(value), true);
    else if (dtype === "float64") view.setFloat64(offset, Number(value), true);
    else if (dtype === "int32") view.setInt32(offset, Number(value), true);
    else view.setBigInt64(offset, BigInt(value), true); // an address, too
  }

  /** Runs a kernel for worlds or parts `from` to `end - 1`. @param {string} kernel @param {number} end @param {number} from */
  launch(kernel, end, from = 0) { this.kernels[kernel](this.struct, from, end); }
}

export class Worlds extends Kernels {
  /**
   * @param {Plan} plan
   * @param {BufferSource} module kernels of the env
   */
  static async load(plan, module) {
    const { instance } = await WebAssembly.instantiate(module, {});
    return new Worlds(plan, instance.exports);
  }

  /**
   * @param {Plan} plan
   * @param {Record<string, any>} kernels exports of the module
   */
  constructor(plan, kernels) {
    super(plan, kernels);
    this.plan = plan;
    this.worlds = plan.worlds;
    this.allocate(plan.arrays, "arrays.");
    this.allocate(plan.outputs, "outputs.");
    for (const [name, value] of Object.entries(plan.numbers)) this.set(name, value);
    for (const name of Object.keys(plan.arrays)) this.set(name, this.address(name));
    this.set("reset_mask", 0);
    this.#point("outputs.");
    for (const [name, { previous }] of Object.entries(plan.outputs)) {
      if (previous) this.set(previous, this.places[`outputs.${name}`].at);
    }
  }

  /** Makes steps write the outputs of a room. @param {string} room */
  #point(room) {
    for (const [name, { members }] of Object.entries(this.plan.outputs)) {
      for (const member of members) this.set(member, this.places[room + name].at);
    }
  }

  // ---- kernels --------------------------------------------------------------------------------------------------------------

  /**
   * Starts new episodes.
   * @param {number | bigint | null} seed of all worlds; null keeps their random keys
   * @param {{ firstWorld?: number, mask?: Uint8Array | null, count?: number }} [options] mask: 1 for each world to reset,
   * null for all of the first `count`
   */
  reset(seed, { firstWorld = 0, mask = null, count = this.worlds } = {}) {
    const { seed: seeds, world_id: ids, episode, shared_key: key } = this.arrays;
    if (seed !== null) {
      for (let world = 0; world < count; ++world) {
        if (mask && !mask[world]) continue;
        seeds[world] = BigInt(seed);
        ids[world] = firstWorld + world;
        episode[world] = -1;
      }
      key[0] = BigInt(seed);
      key[1] = mask ? OWN_KEYS : BigInt(firstWorld);
    }
    if (mask) /** @type {Uint8Array} */ (this.arrays.reset_mask).set(mask);
    this.set("reset_mask", mask ? this.address("reset_mask") : 0);
    this.launch("gv_reset", count);
  }

  /**
   * Overwrites arrays, among them the state, and observes the new state. Each world reads its own random key from now on.
   * @param {Record<string, Uint8Array>} arrays bytes by member
   */
  setState(arrays) {
    for (const [name, bytes] of Object.entries(arrays)) bytesOf(this.arrays[name]).set(bytes);
    this.arrays.shared_key[1] = OWN_KEYS;
    this.launch("gv_observe", this.worlds);
  }

  /** Steps the first worlds, by default all, with the actions in `arrays.action`, or `arrays.ROLE_action` by role. */
  step(count = this.worlds) { this.launch("gv_step", count); }

  /**
   * Steps all worlds with random actions, which the kernel draws.
   * @param {number} steps
   * @returns {Record<string, Numbers>} outputs of all steps, and the actions as `PREFIXaction`; the next rollout overwrites them
   */
  rollout(steps) {
    const { groups, outputs, arrays } = this.plan, room = `rollout ${steps}.`;
    if (!groups.every(({ draws }) => draws)) throw new RangeError(`${this.plan.env}: no bounds to draw actions between.`);
    const long = (/** @type {ArrayPlan} */ { dtype, shape }) => ({ dtype, shape: [steps, ...shape] });
    const plans = Object.fromEntries(Object.entries(outputs).map(([name, plan]) => [name, long(plan)]));
    for (const { prefix } of groups) plans[`${prefix}action`] = long(arrays[`${prefix}action`]);
    this.allocate(plans, room);
    this.set("num_steps", steps);
    for (const { prefix } of groups) {
      this.set(`${prefix}drawn_actions`, this.places[`${room}${prefix}action`].at);
      this.set(`${prefix}action_stride`, this.arrays[`${prefix}action`].byteLength);
    }
    this.#point(room);
    this.launch("gv_rollout", this.worlds);
    this.#point("outputs.");
    const results = this.room(room);
    for (const [name, array] of Object.entries(this.outputs)) {
      const last = results[name].subarray((steps - 1) * array.length);
      /** @type {any} */ (array).set(last);
    }
    return results;
  }

  /**
   * Copies worlds onto others, with their random keys. All sources are read before a target is written.
   * @param {Int32Array} sources the world to copy into each world, -1 for none
   */
  copy(sources) {
    const { state, arrays } = this.plan;
    this.allocate(Object.fromEntries(state.map((name) => [name, { ...arrays[name], fill: 0 }])), "copies.");
    state.forEach((name, index) => {
      /** @type {any} */ (this.at(`copies.${name}`)).set(this.arrays[name]);
      this.arrays.copy_fields[index] = BigInt(this.places[`copies.${name}`].at);
    });
    /** @type {Int32Array} */ (this.arrays.copy_source).set(sources);
    this.arrays.shared_key[1] = OWN_KEYS;
    this.launch("gv_copy", this.worlds);
  }

  /**
   * Makes resets draw their start from a pool from now on. The env draws the fields that it does not have.
   * @param {Record<string, Uint8Array>} fields bytes of state fields, leading axis the entries
   * @param {number} size entries
   */
  setPool(fields, size) {
    const { state, arrays } = this.plan, room = `pool of ${Object.keys(fields).join()} ${size}.`;
    for (const [name, bytes] of Object.entries(fields)) {
      const { dtype, shape } = arrays[name];
      this.allocate({ [name]: { dtype, shape: [size, ...shape.slice(1)] } }, room);
      bytesOf(this.at(room + name)).set(bytes);
    }
    state.forEach((name, index) => {
      this.arrays.pool_fields[index] = BigInt(name in fields ? this.places[room + name].at : 0);
    });
    this.arrays.pool_size[0] = size;
  }
}
