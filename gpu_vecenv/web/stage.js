// @ts-check
// The canvases of a page: one world with its agent, or a wall of many worlds. What no state changes is drawn once, on the lower
// canvas.
import { Pictures } from "./scene.js";

/** @typedef {import("./scene.js").Place} Place */
/** @typedef {"frame" | "scene"} Kind */

const GAP = 2, NARROW = 640, RING = 14; // pixels

export class Stage {
  /**
   * @param {HTMLElement} box
   * @param {import("./worlds.js").Worlds} worlds
   * @param {Record<string, import("./scene.js").Field>} fields
   */
  constructor(box, worlds, fields) {
    this.box = box;
    this.worlds = worlds;
    this.fields = fields;
    this.canvases = [...box.querySelectorAll("canvas")];
    this.contexts = this.canvases.map((canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")));
    this.wall = false;
    /** @type {Pictures[]} of the worlds that are shown */
    this.pictures = [];
    /** @type {Place[]} */
    this.places = [];
    /** @type {Kind} */
    this.kind = "frame";
    this.columns = this.rows = 1;
    this.drawn = 0; // rows of the wall that show the present states
    this.size = ""; // what the canvases are arranged for
    this.visible = true;
    new ResizeObserver(() => this.arrange()).observe(box);
    new IntersectionObserver((seen) => { this.visible = seen[seen.length - 1].isIntersecting; }).observe(box);
  }

  /** Shows pictures in a theme from now on, those of one world or of all. @param {any} json @param {any} palette
   * @param {boolean} wall */
  show(json, palette, wall) {
    const first = new Pictures(json, this.fields, palette);
    this.palette = palette;
    this.wall = wall;
    this.pictures = Array.from({ length: wall ? this.worlds.worlds : 1 }, (_, world) => (world ? first.twin() : first));
    this.follow();
    this.size = "";
    this.arrange();
  }

  /** Takes the present states. */
  follow() {
    const { t, episode } = this.worlds.arrays;
    this.pictures.forEach((pictures, world) => pictures.follow(world, Number(t[world]), Number(episode[world])));
    this.changed = true;
    this.drawn = 0;
  }

  /** Sizes the canvases for the width of the page, and places the worlds. */
  arrange() {
    if (!this.pictures.length) return;
    const [first] = this.pictures, dots = Math.min(2, devicePixelRatio), across = this.box.clientWidth;
    const tall = Math.max(300, Math.min(innerHeight - 96, 1.2 * across));
    this.kind = first.json.scene.length && (this.wall || across < NARROW) ? "scene" : "frame";
    const [width, height] = first.size(this.kind), count = this.pictures.length, gap = GAP * dots;
    const shown = this.wall ? tall : Math.min(tall, (across * height) / width);
    const size = `${across} ${shown} ${dots}`;
    if (size === this.size) return;
    this.size = size;
    const [w, h] = [Math.round(across * dots), Math.round(shown * dots)];
    for (const canvas of this.canvases) [canvas.width, canvas.height] = [w, h];
    const scaleOf = (/** @type {number} */ columns) => {
      const rows = Math.ceil(count / columns);
      return Math.min((w - (columns - 1) * gap) / (columns * width), (h - (rows - 1) * gap) / (rows * height));
    };
    let columns = 1;
    for (let k = 2; k <= count; ++k) if (scaleOf(k) > scaleOf(columns)) columns = k;
    const scale = scaleOf(columns), rows = Math.ceil(count / columns);
    this.columns = columns;
    this.rows = rows;
    this.drawn = 0;
    const left = (w - columns * (scale * width + gap) + gap) / 2, top = this.wall ? 0 : (h - scale * height) / 2;
    const [right, down] = [scale * width + gap, scale * height + gap];
    this.places = Array.from({ length: count }, (_, k) => ({
      x: Math.round(left + (k % columns) * right), y: Math.round(top + Math.floor(k / columns) * down), scale,
    }));
    if (this.wall) {
      const used = Math.ceil(rows * down);
      for (const canvas of this.canvases) canvas.height = used;
    }
    this.#paint(0, "still");
    this.changed = true;
  }

  /** Draws worlds in whole rows. @param {number} layer @param {"still" | "moving"} part @param {number} lo first row
   * @param {number} hi last row, exclusive */
  #paint(layer, part, lo = 0, hi = this.rows) {
    const context = this.contexts[layer], { width, height } = this.canvases[layer];
    const [from, to] = [lo, hi].map((row) => row * this.columns), top = lo ? this.places[from].y : 0;
    context.clearRect(0, top, width, hi < this.rows ? this.places[to].y - top : height);
    if (!this.wall) this.pictures[0].draw(context, this.kind, this.places[0], 0, part);
    else Pictures.drawMany(context, this.pictures.slice(from, to), this.kind, this.places.slice(from, to), from, part);
  }

  /** Draws the states that were followed, with a ring around a place of the first scene. A call draws the next row of a wall.
   * @param {[number, number] | null} ring */
  draw(ring = null) {
    this.#paint(1, "moving", this.drawn, ++this.drawn);
    this.drawn %= this.rows;
    this.changed = this.drawn > 0;
    if (!ring || this.wall) return;
    const [, context] = this.contexts, { x, y, scale } = this.places[0], [right, down] = this.#first();
    context.strokeStyle = `rgb(${this.palette.ink.join()})`;
    context.lineWidth = Math.max(2, 2 * scale);
    context.beginPath();
    context.arc(x + (ring[0] + right) * scale, y + (ring[1] + down) * scale, Math.max(RING * scale, 10), 0, 2 * Math.PI);
    context.stroke();
  }

  /** Where the first scene of the frame begins in the picture that is shown. @returns {[number, number]} */
  #first() {
    const { json, scenes } = this.pictures[0];
    if (this.kind === "frame") return [0, 0];
    const before = json.scene.slice(0, Math.max(0, json.scene.indexOf(json.frame[0])));
    return [0, before.reduce((/** @type {number} */ sum, /** @type {number} */ k) => sum + scenes[k].height, 0)];
  }

  /** The middle of the first scene, in its pixels. */
  get middle() {
    const { json, scenes } = this.pictures[0], { width, height } = scenes[json.frame[0]];
    return [width / 2, height / 2];
  }

  /** A place of the first scene, in its pixels. @param {PointerEvent} event @returns {[number, number]} */
  point(event) {
    const box = this.canvases[1].getBoundingClientRect(), dots = this.canvases[1].width / box.width;
    const { x, y, scale } = this.places[0], [right, down] = this.#first();
    return [((event.clientX - box.left) * dots - x) / scale - right, ((event.clientY - box.top) * dots - y) / scale - down];
  }
}
