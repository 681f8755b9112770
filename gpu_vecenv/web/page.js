// @ts-check
// A page in which worlds of an env run: policies act, a visitor may steer an agent, and a recorded trajectory is repeated.
// It knows no env: all that it shows is in its data (page_data.py, page_params.py, train/runner/page.py).
import { Sha256 } from "./sha256.js";
import { Params, buildEntries, element } from "./panel.js";
import { Policy } from "./policy.js";
import { Stage } from "./stage.js";
import { Steering } from "./steering.js";
import { Worlds, bytesOf, decode } from "./worlds.js";

/** @typedef {{ seed: number, steps: number, hashed: string[], sha256: string }} PageRecord */

const END_MS = 900; // for which the end of an episode is shown
const MOST_STEPS = 4; // in a frame
const MOST_RATE_APART = 30; // steps a second, up to which a step is made in one frame and drawn in the next
const WALL_MS = 2; // of a frame, in which parts of a step of a wall are begun
const PART = 100; // agents of a wall for which policies act in a part
const FOLLOW = "All agents follow their policies.";

/** @param {string} id @returns {any} */
const $ = (id) => document.getElementById(id);

/** A file of the page: an element of it, compressed unless it is text, or else beside it. @param {string} name
 * @returns {Promise<Uint8Array<ArrayBuffer>>} */
async function load(name) {
  const inside = $(name);
  if (!inside) return new Uint8Array(await (await fetch(name)).arrayBuffer());
  if (name.endsWith(".json")) return new TextEncoder().encode(inside.textContent);
  const stream = new Blob([decode(inside.textContent)]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Repeats the recorded trajectory of random actions, and says if its hash is the recorded one. @param {any} data
 * @param {BufferSource} kernels */
async function repeat({ plan, record }, kernels) {
  if (!record) return "Its actions have no bounds to draw between, so there is no recorded trajectory.";
  const worlds = await Worlds.load(plan, kernels), hash = new Sha256();
  worlds.reset(record.seed);
  for (let step = 0; step < record.steps; ++step) {
    const results = worlds.rollout(1);
    for (const name of plan.state) hash.update(bytesOf(worlds.arrays[name]));
    for (const name of record.hashed) hash.update(bytesOf(results[name]));
    if (step % 10 === 9) await new Promise((go) => setTimeout(go));
  }
  const hex = hash.hex(), worldsText = plan.worlds.toLocaleString("en");
  const text = `${record.steps} random steps of ${worldsText} worlds: SHA-256 ${hex.slice(0, 16)}`;
  return hex === record.sha256 ? `${text}, equal to the one recorded by the CPU build.`
    : `${text} differs from the recorded ${record.sha256.slice(0, 16)}.`;
}

class Page {
  /** @param {any} data @param {Worlds} worlds @param {Policy[]} policies */
  constructor(data, worlds, policies) {
    this.data = data;
    this.worlds = worlds;
    this.policies = policies;
    const { plan } = data, given = new URLSearchParams(location.hash.slice(1));
    this.theme = given.get("theme");
    this.wall = given.has("wall");
    /** @type {Record<string, import("./scene.js").Field>} */
    this.fields = Object.fromEntries(plan.state.map((/** @type {string} */ name) =>
      [name, { numbers: worlds.arrays[name], shape: plan.arrays[name].shape.slice(1) }]));
    this.stage = new Stage($("stage"), worlds, this.fields);
    this.steering = new Steering(data, worlds, this.fields);
    this.params = new Params(data, worlds, (pictures) => this.show(pictures));
    this.pictures = data.pictures;
    this.paused = matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.over = 0; // time until which the end of an episode is shown
    this.total = 0;
    this.acted = 0; // worlds whose next actions are computed
    const agents = data.roles.reduce((/** @type {number} */ sum, /** @type {any} */ role) => sum + role.agents, 0);
    this.together = Math.ceil(PART / agents); // worlds of a part
    this.owed = 0;
    this.frames = /** @type {number[]} */ ([]);
    this.scripts = /** @type {number[]} */ ([]);
    worlds.set("autoreset", data.modes.disabled);
  }

  get count() { return this.wall ? this.worlds.worlds : 1; }

  // ---- pictures -------------------------------------------------------------------------------------------------------------

  show(pictures = this.pictures) {
    this.pictures = pictures;
    const dark = this.theme ? this.theme === "dark" : !matchMedia("(prefers-color-scheme: light)").matches;
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    this.stage.show(pictures, this.data.palettes[dark ? "dark" : "light"], this.wall);
  }

  /** @param {string} text */
  say(text) { $("status").textContent = text; }

  write() {
    const { role, agent, active } = this.steering;
    $("whose").textContent = ` of ${active ? `${role.name} ${agent}` : "the first agent"}`;
    $("return").textContent = this.wall ? "-" : this.total.toFixed(2);
  }

  // ---- steps ----------------------------------------------------------------------------------------------------------------

  start() {
    this.worlds.reset(Math.max(0, Math.floor(+$("seed").value || 0)), { count: this.count });
    /** @type {Uint8Array} */ (this.worlds.outputs.finished).fill(0);
    this.over = this.total = this.owed = this.acted = 0;
    this.show();
    this.write();
  }

  /** Computes the actions of the next worlds for the next step. @param {number} worlds */
  act(worlds) {
    const from = this.acted;
    this.acted = Math.min(this.count, from + worlds);
    for (const policy of this.policies) policy.act(this.acted, $("likeliest").checked, from);
  }

  /** @param {number} now in milliseconds */
  step(now) {
    const { worlds, steering, count } = this, { outputs } = worlds;
    const finished = /** @type {Uint8Array} */ (outputs.finished);
    if (finished.subarray(0, count).some(Boolean)) {
      if (this.over && now < this.over) return;
      const mask = new Uint8Array(worlds.worlds);
      mask.set(finished.subarray(0, count));
      worlds.reset(null, { mask });
      finished.fill(0);
      this.over = this.total = this.acted = 0;
      this.stage.follow();
      return;
    }
    this.act(count);
    this.acted = 0;
    const alive = this.alive();
    if (!this.wall) steering.act();
    worlds.step(count);
    this.total += Number((outputs.agent_reward ?? outputs.reward)[steering.active ? steering.held[2] : 0]);
    this.stage.follow();
    if (!this.wall) this.tell(now, alive);
  }

  alive() { return this.worlds.outputs.agent_alive?.[this.steering.held[2]] ?? 1; }

  /** Says what happened to the agent. @param {number} now @param {number | bigint} before 1 if it was in the game before */
  tell(now, before) {
    const { active, role, agent } = this.steering, step = Number(this.worlds.arrays.t[0]);
    if (this.worlds.outputs.finished[0]) {
      this.over = now + END_MS;
      this.say(`The episode ended at step ${step}${active ? `, with a return of ${this.total.toFixed(2)}` : ""}.`);
    } else if (active && before && !this.alive()) this.say(`${role.name} ${agent} left the game at step ${step}.`);
    this.write();
  }

  /** @param {number} now */
  frame(now) {
    const begin = performance.now(), since = now - (this.last ?? now);
    this.last = now;
    requestAnimationFrame((time) => this.frame(time));
    if (!this.stage.visible) return;
    const rate = +$("rate").value, apart = rate <= MOST_RATE_APART, stepped = this.stage.changed && apart;
    if (!this.paused) this.owed = Math.min(this.wall ? 1 : MOST_STEPS, this.owed + (Math.min(since, 250) * rate) / 1000);
    if (this.wall) while (performance.now() - begin < WALL_MS && this.part(now));
    else {
      if (!this.paused && !stepped) for (; this.owed >= 1; --this.owed) this.step(now);
      const ringed = this.steering.active && this.alive();
      if (this.stage.changed && (stepped || !apart)) this.stage.draw(ringed ? this.steering.place() : null);
    }
    this.measure(since, performance.now() - begin);
  }

  /** Makes a part of a wall's step: draws a row, lets policies act for some worlds or steps all of them; false if none is due.
   * @param {number} now */
  part(now) {
    if (this.stage.changed) this.stage.draw();
    else if (this.paused || this.owed < 1) return false;
    else if (this.acted < this.count) this.act(this.together);
    else {
      this.step(now);
      --this.owed;
    }
    return true;
  }

  /** Shows frames a second and times of scripts. @param {number} since @param {number} script milliseconds */
  measure(since, script) {
    if (since > 0) this.frames.push(since);
    this.scripts.push(script);
    if (this.frames.reduce((sum, one) => sum + one, 0) < 2000) return;
    const rate = (1000 * this.frames.length) / this.frames.reduce((sum, one) => sum + one, 0);
    const sorted = this.scripts.sort((x, y) => x - y), late = sorted[Math.floor(0.95 * (sorted.length - 1))];
    $("speed").textContent = `${rate.toFixed(1)} frames a second; scripts take ${late.toFixed(1)} ms of 95 % of them at most`;
    this.frames = [];
    this.scripts = [];
  }

  // ---- what the visitor does ------------------------------------------------------------------------------------------------

  /** @param {boolean} paused */
  pause(paused) {
    this.paused = paused;
    $("pause").textContent = paused ? "Play" : "Pause";
    $("pause").setAttribute("aria-pressed", String(paused));
  }

  /** Steers the agent of the list from now on, or no longer. @param {boolean} active */
  steer(active) {
    const [role, agent] = $("agent").value.split(" ").map(Number), { steering } = this;
    if (active && this.wall) this.toggleWall();
    if (active) steering.take(this.data.roles[role], agent);
    else steering.release();
    $("take").textContent = active ? "Let go" : "Steer";
    $("take").setAttribute("aria-pressed", String(active));
    $("entries").hidden = !active;
    if (active) buildEntries($("entries"), steering.group, steering.chosen);
    const name = `${steering.role.name} ${agent}`, { controls } = steering;
    const idle = controls?.rests ? "" : " Otherwise its policy acts.";
    const pressed = steering.presses ? " E or a finger on it presses." : "";
    const by = `Arrow keys or W A S D steer ${name}, or a finger on the picture.${pressed}${idle}`;
    this.say(!active ? FOLLOW : controls ? by : `Choose the action of ${name} below, entry by entry.`);
    this.total = 0;
    this.stage.changed = true;
    this.write();
  }

  toggleWall() {
    this.wall = !this.wall;
    if (this.wall && this.steering.active) this.steer(false);
    $("wall").setAttribute("aria-pressed", String(this.wall));
    $("who").hidden = this.wall;
    this.start();
    this.say(this.wall ? `${this.count.toLocaleString("en")} worlds side by side.` : FOLLOW);
  }

  build() {
    const { data } = this;
    $("seed").value = data.seed;
    $("rate").value = data.rate;
    $("rateText").textContent = data.rate;
    $("wall").textContent = `${data.plan.worlds.toLocaleString("en")} worlds`;
    $("wall").setAttribute("aria-pressed", String(this.wall));
    $("who").hidden = this.wall;
    $("stage").lastElementChild.setAttribute("aria-label", `${data.env}, one world or several, as a picture that moves`);
    data.roles.forEach((/** @type {any} */ role, /** @type {number} */ k) => {
      for (let agent = 0; agent < role.agents; ++agent) {
        const selected = role.name === data.role && !agent;
        $("agent").append(element("option", `${role.name} ${agent}`, { value: `${k} ${agent}`, selected }));
      }
    });
    $("policies").textContent = data.spans.map((/** @type {import("./policy.js").Span & { role: string }} */ span) =>
      `${span.role}: ${span.policy.split("/")[0] === "random" ? "random actions" : `policy ${span.policy}`}`).join("; ");
    $("help").textContent = "Space pauses and a full stop makes one step while the picture has the focus.";
    this.params.build($("params"));
    this.pause(this.paused);
    $("pause").onclick = () => this.pause(!this.paused);
    $("step").onclick = () => {
      this.pause(true);
      this.over = 0;
      this.step(performance.now());
    };
    $("new").onclick = () => { $("seed").value = Math.floor(+$("seed").value || 0) + 1; this.start(); };
    $("seed").onchange = () => this.start();
    $("wall").onclick = () => this.toggleWall();
    $("take").onclick = () => this.steer(!this.steering.active);
    $("agent").onchange = () => { if (this.steering.active) this.steer(true); };
    $("rate").oninput = () => { $("rateText").textContent = $("rate").value; };
    matchMedia("(prefers-color-scheme: light)").addEventListener("change", () => this.show());
    this.#listen();
  }

  #listen() {
    const { steering } = this, canvas = /** @type {HTMLCanvasElement} */ (this.stage.canvases[1]);
    addEventListener("keydown", (event) => {
      const inField = /** @type {HTMLElement} */ (event.target).closest?.("input, select");
      const focused = document.activeElement === canvas;
      if (inField || event.ctrlKey || event.altKey || event.metaKey || !(focused || steering.active)) return;
      if (focused && event.key === " ") this.pause(!this.paused);
      else if (focused && event.key === ".") $("step").click();
      else if (!this.wall && steering.key(event.key, true)) { if (!steering.active) this.steer(true); }
      else return;
      event.preventDefault();
    });
    addEventListener("keyup", (event) => steering.key(event.key, false));
    addEventListener("blur", () => steering.keys.clear());
    canvas.addEventListener("pointerdown", (event) => {
      if (this.wall) return;
      canvas.setPointerCapture(event.pointerId);
      const place = this.stage.point(event), [role, agent] = $("agent").value.split(" ").map(Number);
      if (!steering.active) {
        steering.role = this.data.roles[role];
        steering.agent = agent; // if places are not known
        $("agent").value = `${role} ${steering.nearest(place)}`;
        this.steer(true);
      }
      steering.middle = this.stage.middle;
      steering.finger = place;
    });
    canvas.addEventListener("pointermove", (event) => { if (steering.finger) steering.finger = this.stage.point(event); });
    for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { steering.finger = null; });
  }
}

const data = JSON.parse(new TextDecoder().decode(await load("data.json")));
const [kernels, program, weights] = await Promise.all(["kernels.wasm", "policy.wasm", "weights.bin"].map(load));
const worlds = await Worlds.load(data.plan, kernels), compiled = await WebAssembly.compile(program);
const numbers = new Float32Array(weights.buffer, weights.byteOffset, weights.byteLength / 4);
const policies = await Promise.all(data.spans.map(async (/** @type {import("./policy.js").Span} */ span) => {
  const { exports } = await WebAssembly.instantiate(compiled, {});
  return new Policy(data.program, data.policies[span.policy], numbers, span, data.groups[span.group], worlds, exports);
}));
const page = Object.assign(window, { page: new Page(data, worlds, policies) }).page; // for consoles
document.body.classList.toggle("embedded", parent !== window);
$("play").hidden = false;
page.build();
page.start();
page.steer(data.plays && !page.wall);
requestAnimationFrame((now) => page.frame(now));
document.body.dataset.ready = String(Math.round(performance.now()));
$("record").textContent = await repeat(data, kernels);
