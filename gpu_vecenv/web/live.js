// @ts-check
// The live page of a run: it asks the trainer for rollouts of chosen worlds, makes them again, and draws each step.
import { Curves, KINDS, showDecision } from "./live_panels.js";
import { Replay, excerptOf } from "./live_replay.js";
import { Pictures, Scene } from "./scene.js";

/** @typedef {{ name: string, count: number, choices: number[], entries: number }} Role */
/** @typedef {{ env: string, out: string | null, num_worlds: number, num_agents: number, by_role: boolean, roles: Role[],
 * themes: Record<string, import("./scene.js").Palette> }} About */
/** @typedef {import("./live_replay.js").Rollout} Rollout */
/** @typedef {import("./live_replay.js").LivePlan} LivePlan */
/** @typedef {import("./worlds.js").Worlds} Worlds */
/** @typedef {{ figure: HTMLElement, canvas: HTMLCanvasElement, caption: HTMLElement, pictures: Pictures | null }} View */

const MOST_STEPS = 8; // of a frame, so that a slow machine shows fewer steps a second and stays responsive
const AGAIN_MS = 3000;

/** @type {(id: string) => any} */
const $ = (id) => document.getElementById(id);
/** @type {About} */
const about = await (await fetch("about")).json();
const kernels = await (await fetch("kernels.wasm")).arrayBuffer();
const light = matchMedia("(prefers-color-scheme: light)");
const curves = new Curves($("curves"), $("metric"));

/** Worlds of the run that the page shows. */
class Shown {
  /** @type {View[]} */
  views = [];
  /** @type {import("./live_replay.js").Excerpt | null} */
  waiting = null;

  /** @param {number[]} numbers of the worlds @param {[number, number]} agent its world and number */
  constructor(numbers, agent) {
    this.numbers = numbers;
    this.agent = agent;
    this.replay = new Replay(kernels);
    this.request = new AbortController();
    $("views").replaceChildren();
  }

  /** Asks for excerpts, one ahead of the one that is shown, until the run ends or other worlds are shown. */
  async ask() {
    while (!this.request.signal.aborted) {
      if (this.waiting) {
        await new Promise((resolve) => setTimeout(resolve, 50));
        continue;
      }
      const { agent, numbers, replay } = this;
      try {
        const query = `worlds=${numbers.join()}&agent=${agent.join(".")}&plan=${replay.planNumber}&pool=${replay.poolNumber}`;
        const answer = await fetch(`rollout?${query}`, { signal: this.request.signal });
        if (answer.status === 410) return say("The run has ended.");
        if (answer.status === 204) continue;
        if (!answer.ok) throw new Error(await answer.text());
        const excerpt = excerptOf(await answer.arrayBuffer());
        if (agent === this.agent) this.waiting = excerpt;
        say("");
      } catch (error) {
        if (this.request.signal.aborted) return;
        say(error instanceof TypeError ? "The run does not answer: it has ended, or the connection is gone." : String(error));
        await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
      }
    }
  }

  /** Makes the canvases. */
  see() {
    const { plan, worlds } = this.replay;
    if (!plan || !worlds) return;
    const fields = Object.fromEntries(plan.state.map((name) =>
      [name, { numbers: /** @type {ArrayLike<number | bigint>} */ (worlds.arrays[name]), shape: plan.arrays[name].shape.slice(1) }]));
    const palette = about.themes[light.matches ? "light" : "dark"];
    this.views = this.numbers.map((number, world) => {
      const figure = document.createElement("figure"), canvas = document.createElement("canvas");
      const caption = document.createElement("figcaption"), described = plan.pictures[plan.pictures.length > 1 ? world : 0];
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `world ${number}`);
      canvas.onclick = () => follow([number, this.agent[1]]);
      const pictures = described ? new Pictures(described, fields, palette) : null;
      figure.append(...(pictures ? [canvas] : []), caption);
      return { figure, canvas, caption, pictures };
    });
    $("views").replaceChildren(...this.views.map(({ figure }) => figure));
    $("views").className = this.views.length === 1 ? "one" : this.views.length > 9 ? "many" : "";
    $("legend").replaceChildren(...(this.views.length > 1 ? plan.pictures[0]?.legend ?? [] : []).map(glyph(palette)));
    if (!plan.pictures.length) $("pictures").textContent = "This env has no pictures as data. Its worlds are stepped and compared.";
  }

  /** Makes the next step, if the trainer has sent one. */
  async step() {
    const { replay } = this;
    if (!replay.playing && !replay.rollouts.length && this.waiting) {
      const excerpt = this.waiting;
      this.waiting = null;
      if (await replay.take(excerpt)) this.see();
    }
    if (!replay.playing) {
      if (!replay.begin()) return;
      this.look(true);
    }
    const rollout = replay.step(), { worlds, plan } = replay;
    if (!rollout || !worlds || !plan) return;
    this.look(false);
    this.tell(worlds, plan, rollout);
    $("iteration").textContent = rollout.iteration.toLocaleString("en");
    $("status").textContent = "";
    $("equal").textContent = `${replay.equal} of ${replay.made}`;
    $("equal").className = replay.equal < replay.made ? "wrong" : "";
  }

  /** Returns the role of the agent, its number in the role, and its place in arrays of all agents. @param {LivePlan} plan */
  place(plan) {
    let number = this.agent[1];
    const role = about.roles.find(({ count }) => number < count || ((number -= count), false)) ?? about.roles[0];
    const { [`${role.name}_row`]: first, [`${role.name}_stride`]: stride } = plan.numbers;
    return { role, number, place: first + this.numbers.indexOf(this.agent[0]) * stride + number };
  }

  /** Shows what the agent did in the last step. @param {Worlds} worlds @param {LivePlan} plan @param {Rollout} rollout */
  tell(worlds, plan, { decisions, steps }) {
    const { role, number, place } = this.place(plan), { outputs } = worlds;
    const group = plan.groups[about.by_role ? about.roles.indexOf(role) : 0];
    const row = about.by_role ? this.numbers.indexOf(this.agent[0]) * role.count + number : place;
    const actions = /** @type {Float32Array | Int32Array} */ (worlds.arrays[`${group.prefix}action`]);
    const taken = actions.slice(row * role.entries, (row + 1) * role.entries);
    const reward = Number((outputs.agent_reward ?? outputs.reward)[place]), left = outputs.agent_alive && !outputs.agent_alive[place];
    const who = `${role.name} ${number} of world ${this.agent[0]}`;
    const by = decisions ? `${KINDS[decisions.kind]} of policy ${decisions.policy}` : "the policy gives no probabilities";
    $("decision").textContent = `${who}: ${left ? "out of the game" : `reward ${reward.toPrecision(3)}`}; ${by}`;
    const step = this.replay.playing ? this.replay.t - 1 : steps - 1;
    if (decisions) showDecision($("probabilities"), decisions, step, steps, role.choices, taken);
    else $("probabilities").replaceChildren();
  }

  /** Takes the present state into the pictures. @param {boolean} jumped the state does not follow from the last one */
  look(jumped) {
    const { worlds } = this.replay;
    if (!worlds) return;
    const { t: times, episode } = worlds.arrays;
    this.views.forEach(({ pictures, caption, figure }, world) => {
      const [time, number] = [Number(times[world]), Number(episode[world])];
      if (jumped && pictures && time !== pictures.time) pictures.reset();
      pictures?.follow(world, time, number);
      caption.replaceChildren(span(`world ${this.numbers[world]}`), span(`episode ${number}, step ${time}`));
      figure.classList.toggle("followed", this.views.length > 1 && this.numbers[world] === this.agent[0]);
    });
  }

  draw() {
    const kind = this.views.length > 1 ? "scene" : "frame";
    this.views.forEach(({ canvas, pictures }, world) => {
      if (!pictures) return;
      const [width, height] = pictures.size(kind);
      canvas.style.aspectRatio = `${width} / ${height}`;
      const scale = (canvas.clientWidth * Math.min(2, devicePixelRatio)) / width;
      const [across, down] = [Math.round(width * scale), Math.round(height * scale)];
      if (canvas.width !== across || canvas.height !== down) [canvas.width, canvas.height] = [across, down];
      const context = canvas.getContext("2d");
      if (context && across) pictures.draw(context, kind, { x: 0, y: 0, scale }, world);
    });
  }
}

/** Makes an entry of the legend. @param {import("./scene.js").Palette} palette */
const glyph = (palette) => (/** @type {[string, any]} */ [word, shapes]) => {
  const entry = document.createElement("li"), canvas = document.createElement("canvas"), scene = new Scene(shapes, {}, palette);
  const scale = Math.min(2, devicePixelRatio), context = canvas.getContext("2d");
  [canvas.width, canvas.height] = [scene.width * scale, scene.height * scale];
  canvas.style.width = `${scene.width}px`;
  if (context) scene.draw(context, { x: 0, y: 0, scale }, scene.memory(), 0);
  entry.append(canvas, word);
  return entry;
};

/** @param {string} text */
function span(text) {
  const made = document.createElement("span");
  made.textContent = text;
  return made;
}

/** @param {string} text */
function say(text) { $("message").textContent = text; }

// ---- choices of the user ----------------------------------------------------------------------------------------------------

/** Numbers in a text such as "0-3, 17"; null if it is none. @param {string} text @returns {number[] | null} */
function numbersIn(text) {
  const numbers = new Set();
  for (const part of text.split(",")) {
    const [, first, last] = /^\s*(\d+)\s*(?:-\s*(\d+)\s*)?$/.exec(part) ?? [];
    if (first === undefined || Number(last ?? first) - Number(first) > 1000) return null;
    for (let number = Number(first); number <= Number(last ?? first); ++number) numbers.add(number);
  }
  const list = [...numbers];
  return list.every((number) => number < about.num_worlds) && list.length <= 36 ? list : null;
}

/** @type {Shown} */
let shown;

/** @param {number[]} numbers @param {string} text that names them */
function show(numbers, text = numbers.join(", ")) {
  const agent = shown?.agent[1] ?? 0;
  shown?.request.abort();
  $("worlds").value = text;
  $("agentWorld").replaceChildren(...numbers.map((number) => new Option(String(number))));
  shown = new Shown(numbers, [numbers[0], agent]);
  shown.ask();
}

/** @param {[number, number]} agent */
function follow(agent) {
  shown.agent = agent;
  $("agentWorld").value = String(agent[0]);
  shown.waiting = null;
  const { rollouts, playing } = shown.replay;
  for (const rollout of [...rollouts, ...(playing ? [playing] : [])]) rollout.decisions = null; // those of another agent
}

function followChosen() {
  const role = about.roles[$("role").selectedIndex], before = about.roles.slice(0, $("role").selectedIndex);
  const number = Math.max(0, Math.min(role.count - 1, Math.floor(Number($("agent").value) || 0)));
  $("agent").max = String(role.count - 1);
  $("agent").value = String(number);
  follow([Number($("agentWorld").value), before.reduce((sum, { count }) => sum + count, number)]);
}

let paused = matchMedia("(prefers-reduced-motion: reduce)").matches, owed = 0, last = performance.now(), busy = false;

/** @param {boolean} now */
function pause(now) {
  paused = now;
  $("pause").setAttribute("aria-pressed", String(now));
}

async function stepOnce() {
  busy = true;
  try {
    await shown.step();
    shown.draw();
  } finally {
    busy = false;
  }
}

/** @param {number} now milliseconds */
async function frame(now) {
  requestAnimationFrame(frame);
  owed = Math.min(MOST_STEPS, owed + ((now - last) / 1000) * Number($("rate").value));
  last = now;
  if (paused || busy || owed < 1) return;
  busy = true;
  try {
    for (; owed >= 1; --owed) await shown.step();
    shown.draw();
  } finally {
    busy = false;
  }
}

async function askMetrics() {
  try {
    if (!document.hidden) {
      /** @type {import("./live_panels.js").Point[]} */
      const points = await (await fetch(`metrics?after=${curves.last}`)).json();
      curves.add(points);
      const newest = points[points.length - 1];
      if (newest) $("speed").textContent = Math.round(newest.steps_per_second).toLocaleString("en");
    }
    setTimeout(askMetrics, 1000);
  } catch {
    setTimeout(askMetrics, AGAIN_MS); // Shown.ask() says that the run does not answer
  }
}

document.title = `${about.env}, live`;
$("title").textContent = `${about.env}, training live`;
$("number").textContent = `of ${about.num_worlds.toLocaleString("en")}`;
$("role").replaceChildren(...about.roles.map(({ name }) => new Option(name)));
$("choice").onsubmit = (/** @type {Event} */ event) => {
  event.preventDefault();
  const numbers = numbersIn($("worlds").value);
  if (numbers) show(numbers, $("worlds").value);
  else say(`Worlds: expected at most 36 numbers from 0 to ${about.num_worlds - 1}, such as 0-3, 7.`);
};
$("others").onclick = () => {
  const count = Math.min(shown.numbers.length, about.num_worlds), numbers = new Set();
  while (numbers.size < count) numbers.add(Math.floor(Math.random() * about.num_worlds));
  show([...numbers]);
};
$("pause").onclick = () => pause(!paused);
$("step").onclick = () => {
  pause(true);
  if (!busy) stepOnce();
};
$("rate").oninput = () => ($("rateText").textContent = $("rate").value);
for (const id of ["agentWorld", "role", "agent"]) $(id).onchange = followChosen;
light.onchange = () => shown.see();
pause(paused);
show(Array.from({ length: Math.min(4, about.num_worlds) }, (_, world) => world));
askMetrics();
requestAnimationFrame(frame);
