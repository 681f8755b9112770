// @ts-check
// Draws pictures that are data (render/scene.py) on a canvas, as render/scene_renderer.py draws them with Pillow.

/** @typedef {any} Json */
/** @typedef {[number, number, number]} Colour */
/** @typedef {Record<string, Colour>} Palette */
/** @typedef {{ numbers: ArrayLike<number | bigint>, shape: number[] }} Field numbers of all worlds; shape in one world */
/** @typedef {() => number} Value */
/** @typedef {{ x: number, y: number, scale: number }} Place of the left upper corner on the canvas, in its pixels */
/** @typedef {{ values: Float64Array[], before: Float64Array[] | null, kept: Float64Array[], points: Map<object, any[]> }} Memory
 * values of the entries of a scene's memory, those of the state before, times of events and held numbers, points */

/** @type {Record<string, (...given: number[]) => number>} */
const OPERATIONS = {
  "+": (x, y) => x + y, "-": (x, y) => x - y, "*": (x, y) => x * y, "/": (x, y) => x / y,
  "%": (x, y) => x - y * Math.floor(x / y),
  "<": (x, y) => +(x < y), "<=": (x, y) => +(x <= y), "==": (x, y) => +(x === y), "&": (x, y) => +(!!x && !!y),
  "|": (x, y) => +(!!x || !!y), "!": (x) => +!x, neg: (x) => -x, abs: Math.abs, floor: Math.floor, sin: Math.sin, cos: Math.cos,
  sqrt: Math.sqrt, log: Math.log, least: Math.min, most: Math.max,
};
/** @type {Record<string, [number, (x: number, y: number) => number]>} */
const REDUCTIONS = { sum: [0, (x, y) => x + y], min: [Infinity, Math.min], max: [-Infinity, Math.max] };
const OPACITIES = [0.15, 0.3, 0.48, 0.7]; // of the parts of a trail, the oldest first
const KEPT = ["trail", "curve", "columns", "path"]; // shapes that follow the states of an episode
const LEGIBLE = 4; // pixels; smaller letters are not drawn among many worlds
const FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif"; // about as wide as the letters of Pillow
const NEVER = 1e9, TURN = 2 * Math.PI;
const NOWHERE = { x: 0, y: 0, scale: 1 };

/** A number as Python's format() writes it. @param {number} number @param {string} form such as ",d" or "+z.2f" */
export function written(number, form) {
  const [, sign, zero, comma, digits] = /** @type {string[]} */ (/^(\+?)(z?)(,?)(?:d|\.(\d)f)$/.exec(form));
  const [whole, rest] = Math.abs(number).toFixed(Number(digits ?? 0)).split(".");
  const text = (comma ? whole.replace(/\B(?=(\d{3})+$)/g, ",") : whole) + (rest === undefined ? "" : `.${rest}`);
  const negative = (number < 0 || Object.is(number, -0)) && !((zero || digits === undefined) && /^[0,.]*$/.test(text));
  return (negative ? "-" : sign) + text;
}

/** Tells if a part of a description reads the state or follows it. @param {Json} json @returns {boolean} */
function moves(json) {
  if (Array.isArray(json)) return json[0] === "field" || json[0] === "remembered" || json.some(moves);
  return !!json && typeof json === "object" && (KEPT.includes(json.op) || Object.values(json).some(moves));
}

export class Scene {
  /** @type {Record<number, number>} values of variables */
  #variables = {};
  #world = 0;
  /** @type {Memory | null} */
  #memory = null;
  #stamp = 0; // changes with the state, the world and the variables
  /** @type {Map<string, Value>} by their descriptions */
  #parts = new Map();
  /** @type {Place} where paths are put, beside the transform of the canvas, which is slow to change within a path */
  #place = NOWHERE;
  #shift = 0; // Pillow counts places of lines and polygons from the middle of its pixels, which are half as large

  /**
   * @param {Json} json
   * @param {Record<string, Field>} fields of the state
   * @param {Palette} palette
   * @param {string} font family of letters
   */
  constructor(json, fields, palette, font = FONT) {
    this.width = /** @type {number} */ (json.size[0]);
    this.height = /** @type {number} */ (json.size[1]);
    this.fields = fields;
    this.palette = palette;
    this.font = font;
    this.entries = json.memory.map((/** @type {Json} */ entry) =>
      ({ ...entry, value: this.#number(entry.number), event: this.#number(entry.event ?? 0) }));
    /** @type {Json[]} */
    const blocks = json.blocks.flatMap((/** @type {Json} */ block) =>
      "count" in block ? [block] : block.shapes.map((/** @type {Json} */ shape) => ({ shapes: [shape] })));
    this.still = blocks.findIndex(moves);
    if (this.still < 0) this.still = blocks.length;
    this.blocks = blocks.map(({ count = 1, variable = 0, shapes }) =>
      ({ count, variable, shapes: shapes.map((/** @type {Json} */ shape) => this.#shape(shape)) }));
    const keeps = (/** @type {Json} */ { op }) => KEPT.includes(op);
    this.follows = this.entries.length > 0 || blocks.some(({ shapes }) => shapes.some(keeps));
  }

  // ---- descriptions to functions ------------------------------------------------------------------------------------------

  /** @param {Json} json @returns {Value} */
  #number(json) {
    const { factor, part, constant } = this.#linear(json);
    if (!part) return () => constant;
    return factor === 1 && constant === 0 ? part : () => factor * part() + constant;
  }

  /** A number as `factor * part + constant`; shapes have many that differ in the constant alone. @param {Json} json
   * @returns {{ factor: number, part: Value | null, constant: number }} */
  #linear(json) {
    if (!Array.isArray(json)) return { factor: 0, part: null, constant: Number(json) };
    const [name, ...given] = json;
    if (["+", "-", "*", "neg"].includes(name)) {
      const [x, y] = given.map((/** @type {Json} */ one) => this.#linear(one));
      if (name === "neg") return { factor: -x.factor, part: x.part, constant: -x.constant };
      if (name === "*" && !(x.part && y.part)) {
        const [one, times] = x.part ? [x, y.constant] : [y, x.constant];
        return { factor: one.factor * times, part: one.part, constant: one.constant * times };
      }
      const sign = name === "-" ? -1 : 1;
      if (name !== "*" && !y.part) return { ...x, constant: x.constant + sign * y.constant };
      if (name !== "*" && !x.part) return { factor: sign * y.factor, part: y.part, constant: x.constant + sign * y.constant };
    }
    return { factor: 1, part: this.#part(json), constant: 0 };
  }

  /** An operation, computed once for all shapes that have it. @param {Json} json @returns {Value} */
  #part(json) {
    const text = JSON.stringify(json), known = this.#parts.get(text);
    if (known) return known;
    const compute = this.#operation(json);
    let stamp = -1, value = 0;
    const part = json[0] === "field" || json[0] === "i" ? compute : () => {
      if (stamp !== this.#stamp) {
        stamp = this.#stamp;
        value = compute();
      }
      return value;
    };
    this.#parts.set(text, part);
    return part;
  }

  /** @param {Json} json @returns {Value} */
  #operation(json) {
    const [name, ...given] = json;
    if (name === "field") return this.#field(given[0], given.slice(1).map((/** @type {Json} */ one) => this.#number(one)));
    if (name === "remembered") {
      const index = this.#number(given[1]);
      return () => /** @type {Memory} */ (this.#memory).values[given[0]][index()];
    }
    if (name === "table") {
      const index = this.#number(given[1]);
      return () => given[0][index()];
    }
    if (name === "i") return () => this.#variables[given[0]];
    if (name in REDUCTIONS) {
      const [variable, count, body] = given, [start, join] = REDUCTIONS[name], value = this.#number(body);
      return () => {
        let result = start;
        for (let i = 0; i < count; ++i) {
          this.#set(variable, i);
          result = join(result, value());
        }
        return result;
      };
    }
    const parts = given.map((/** @type {Json} */ one) => this.#number(one));
    if (name === "if") return () => (parts[0]() ? parts[1]() : parts[2]());
    const operation = OPERATIONS[name], [x, y] = parts;
    return y ? () => operation(x(), y()) : () => operation(x());
  }

  /** @param {number} variable @param {number} value */
  #set(variable, value) {
    this.#variables[variable] = value;
    ++this.#stamp;
  }

  /** Makes numbers those of a world. @param {Memory} memory @param {number} world */
  #look(memory, world) {
    this.#world = world;
    this.#memory = memory;
    ++this.#stamp;
  }

  /** @param {string} name @param {Value[]} index */
  #field(name, index) {
    const field = this.fields[name], { shape } = field, size = shape.reduce((product, extent) => product * extent, 1);
    const strides = shape.map((_, axis) => shape.slice(axis + 1).reduce((product, extent) => product * extent, 1));
    return () => {
      let at = this.#world * size;
      for (let axis = 0; axis < index.length; ++axis) at += index[axis]() * strides[axis];
      return Number(field.numbers[at]);
    };
  }

  /** @param {Json} json @returns {() => Colour} */
  #colour([name, ...given]) {
    if (name === "ink") return () => this.palette[given[0]];
    if (name === "if") {
      const [test, one, other] = [this.#number(given[0]), this.#colour(given[1]), this.#colour(given[2])];
      return () => (test() ? one() : other());
    }
    const [top, ground, share] = [this.#colour(given[0]), this.#colour(given[1]), this.#number(given[2])];
    const before = { top: /** @type {Colour} */ ([0, 0, 0]), below: /** @type {Colour} */ ([0, 0, 0]), opacity: NaN };
    let mixed = before.top;
    return () => {
      const colour = top(), below = ground(), opacity = share();
      if (colour === before.top && below === before.below && opacity === before.opacity) return mixed;
      Object.assign(before, { top: colour, below, opacity });
      mixed = /** @type {Colour} */ (colour.map((part, k) => Math.round(below[k] + (part - below[k]) * opacity)));
      return mixed;
    };
  }

  /** @param {Json} shape @returns {Json} */
  #shape(shape) {
    const made = { ...shape, id: shape, ink: this.#colour(shape.ink), when: this.#number(shape.when ?? 1) };
    made.alike = ![shape.ink, shape.when, shape.radius].some(moves); // colour, size and presence in all states
    const numbers = (/** @type {Json[]} */ parts) => parts.map((part) => this.#number(part));
    for (const name of ["radius", "width", "corner", "size", "share", "value", "joined"]) {
      if (name in shape) made[name] = this.#number(shape[name]);
    }
    for (const name of ["at", "box", "seen"]) if (name in shape) made[name] = numbers(shape[name]);
    if ("area" in shape) made.area = this.#colour(shape.area);
    if ("points" in shape) made.points = shape.points.map(numbers);
    if ("words" in shape) made.words = shape.words.map((/** @type {Json} */ part) => this.#words(part));
    return made;
  }

  /** @param {Json} part @returns {() => string} */
  #words(part) {
    if (typeof part === "string") return () => part;
    const number = this.#number(part[0]), form = part[1];
    return Array.isArray(form) ? () => form[number()] : () => written(number(), form);
  }

  // ---- the episode ----------------------------------------------------------------------------------------------------------

  /** What the scene remembers of the episode of a world; make it anew when an episode starts. @returns {Memory} */
  memory() {
    const kept = this.entries.map((/** @type {Json} */ { count }) => new Float64Array(count).fill(-Infinity));
    return { values: [], before: null, kept, points: new Map() };
  }

  /** Takes the next state of a world. @param {Memory} memory @param {number} world @param {number} time @param {boolean} again */
  follow(memory, world, time, again) {
    if (!this.follows) return;
    this.#look(memory, world);
    memory.values = [];
    /** @type {Float64Array[]} */
    const present = [];
    this.entries.forEach((/** @type {Json} */ { kind, count, variable, value, event }, /** @type {number} */ place) => {
      const now = Float64Array.from({ length: count }, (_, i) => (this.#set(variable, i), value()));
      present.push(now);
      const kept = memory.kept[place];
      if (kind === "age") {
        now.forEach((event, i) => { if (event) kept[i] = time; });
        memory.values.push(kept.map((since) => Math.min(time - since, NEVER)));
      } else if (kind === "held") {
        now.forEach((number, i) => {
          this.#set(variable, i);
          if (!memory.before || event()) kept[i] = number;
        });
        memory.values.push(kept);
      } else if (kind === "highest") {
        now.forEach((number, i) => { kept[i] = Math.max(kept[i], number); });
        memory.values.push(kept);
      } else memory.values.push(kind === "before" && memory.before ? memory.before[place] : now);
    });
    memory.before = present;
    ++this.#stamp; // what is remembered has changed
    for (const { count, variable, shapes } of this.blocks) {
      for (const shape of shapes) {
        if (!KEPT.includes(shape.op) || !shape.when()) continue;
        const value = () => this.#seen(shape);
        this.#keep(memory, shape, again, this.#each(count, variable, value));
      }
    }
  }

  /** What a shape keeps of a state. @param {Json} shape @returns {number[]} */
  #seen(shape) {
    if (shape.op === "trail") return shape.at.map(call);
    return shape.op === "path" ? [...shape.seen.map(call), shape.joined()] : [shape.share(), shape.value()];
  }

  /** @param {number} count @param {number} variable @param {() => number[]} value */
  #each(count, variable, value) { return Array.from({ length: count }, (_, i) => (this.#set(variable, i), value())); }

  /** @param {Memory} memory @param {Json} shape @param {boolean} again @param {number[][]} points */
  #keep(memory, shape, again, points) {
    const kept = memory.points.get(shape.id) ?? [], last = kept[kept.length - 1];
    if (again && shape.op === "path") points.forEach((point, i) => { point[2] = last[i][2]; }); // as it was to the state before
    if (shape.op === "trail" || shape.op === "path" ? again : last && last.every((/** @type {number[]} */ [share],
      /** @type {number} */ i) => share === points[i][0])) kept.pop();
    kept.push(points);
    if (shape.op === "trail" && kept.length > shape.steps + 1) kept.shift();
    memory.points.set(shape.id, kept);
  }

  // ---- drawing --------------------------------------------------------------------------------------------------------------

  /**
   * Draws a state that was followed.
   * @param {CanvasRenderingContext2D} context
   * @param {Place} place
   * @param {Memory} memory
   * @param {number} world
   * @param {"all" | "still" | "moving"} part still: what no state changes, which lies below the rest
   */
  draw(context, { x, y, scale }, memory, world, part = "all") {
    this.#look(memory, world);
    context.save();
    context.beginPath();
    context.rect(x, y, this.width * scale, this.height * scale);
    context.clip();
    context.translate(x, y);
    context.scale(scale, scale);
    context.lineJoin = "bevel";
    this.#shift = 0.25 / scale;
    if (part !== "moving") this.#fill(context, this.palette.page, () => context.rect(0, 0, this.width, this.height));
    for (const { count, variable, shapes } of this.#blocks(part)) {
      for (const shape of shapes) if (shape.op === "trail") this.#trail(context, shape, variable);
      for (let i = 0; i < count; ++i) {
        this.#set(variable, i);
        for (const shape of shapes) {
          if (shape.op === "curve") this.#curve(context, shape, i);
          else if (shape.op === "columns") this.#columns(context, shape, i, scale);
          else if (shape.op === "path") this.#path(context, shape, i);
          else if (shape.op !== "trail" && shape.when()) this.#draw(context, shape, scale);
        }
      }
    }
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {Colour} colour @param {() => void} path */
  #fill(context, colour, path) {
    context.fillStyle = `rgb(${colour.join()})`;
    context.beginPath();
    path();
    context.fill();
  }

  /** @param {CanvasRenderingContext2D} context @param {Colour} colour @param {number} width @param {() => void} path */
  #stroke(context, colour, width, path) {
    context.strokeStyle = `rgb(${colour.join()})`;
    context.lineWidth = width;
    context.beginPath();
    path();
    context.stroke();
  }

  /** @param {CanvasRenderingContext2D} context @param {number[][]} points */
  #trace(context, points) {
    const { x: left, y: top, scale } = this.#place, shift = this.#shift;
    points.forEach(([x, y], k) => {
      const [across, down] = [left + scale * (x + shift), top + scale * (y + shift)];
      if (k) context.lineTo(across, down);
      else context.moveTo(across, down);
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {Json} shape @param {number} scale */
  #draw(context, shape, scale) {
    const ink = shape.ink();
    if (shape.op === "text") {
      const [x, y] = shape.at.map(call);
      this.#text(context, shape, ink, { x, y, scale });
      return;
    }
    context.beginPath();
    this.#finish(context, ink, this.#outline(context, shape, scale));
  }

  /** Fills or strokes what was outlined. @param {CanvasRenderingContext2D} context @param {Colour} ink @param {number} thick */
  #finish(context, ink, thick) {
    context.strokeStyle = context.fillStyle = `rgb(${ink.join()})`;
    context.lineWidth = thick;
    if (thick) context.stroke();
    else context.fill();
  }

  /** Adds a shape to the path, and returns how thick its line is, 0 to fill it. @param {CanvasRenderingContext2D} context
   * @param {Json} shape @param {number} scale */
  #outline(context, shape, scale) {
    const { x: left, y: top, scale: zoom } = this.#place, { op, points } = shape;
    // As thick as Pillow draws it: whole halves of a pixel, at least one.
    const thick = shape.width ? Math.max(1, Math.round(2 * scale * shape.width())) / (2 * scale) : 0;
    if (op === "line" || op === "polygon") {
      const shift = this.#shift;
      for (let k = 0; k < points.length; ++k) {
        const across = left + zoom * (points[k][0]() + shift), down = top + zoom * (points[k][1]() + shift);
        if (k) context.lineTo(across, down);
        else context.moveTo(across, down);
      }
    } else if (op === "disc") this.#circle(context, shape, shape.radius());
    else if (op === "ring") this.#circle(context, shape, Math.max(0, shape.radius() - thick / 2));
    else if (op === "cross") {
      const x = shape.at[0](), y = shape.at[1](), arm = 0.7071 * shape.radius();
      this.#trace(context, [[x - arm, y - arm], [x + arm, y + arm]]);
      this.#trace(context, [[x - arm, y + arm], [x + arm, y - arm]]);
    } else {
      const round = shape.corner(), place = (/** @type {Value} */ edge) => (round ? edge() : snapped(edge(), scale));
      const [from, over, to, under] = shape.box.map(place), width = to - from, height = under - over;
      const corner = Math.min(round, width / 2, height / 2) * zoom;
      if (!(width > 0 && height > 0)) return 0;
      if (corner < 0.5) context.rect(left + zoom * from, top + zoom * over, zoom * width, zoom * height);
      else context.roundRect(left + zoom * from, top + zoom * over, zoom * width, zoom * height, corner);
    }
    return zoom * thick;
  }

  /** @param {CanvasRenderingContext2D} context @param {Json} shape @param {number} size */
  #circle(context, { at }, size) {
    const { x: left, y: top, scale: zoom } = this.#place, across = left + zoom * at[0](), down = top + zoom * at[1]();
    context.moveTo(across + zoom * size, down);
    context.arc(across, down, zoom * size, 0, TURN);
  }

  /**
   * Draws states of many worlds that were followed, shape by shape, so that one call of the canvas fills those of one colour.
   * Letters and discs that are too small to be seen are left out.
   * @param {CanvasRenderingContext2D} context
   * @param {Place[]} places of the worlds, all of one scale
   * @param {Memory[]} memories
   * @param {number} first number of the first of these worlds
   * @param {"all" | "still" | "moving"} part
   */
  drawMany(context, places, memories, first, part) {
    const { scale } = places[0], put = (/** @type {number} */ k) => {
      this.#look(memories[k], first + k);
      this.#place = places[k];
    };
    this.#shift = 0.25 / scale;
    context.lineJoin = "bevel";
    if (part !== "moving") {
      const [width, height] = [this.width * scale, this.height * scale];
      this.#fill(context, this.palette.page, () => places.forEach(({ x, y }) => context.rect(x, y, width, height)));
    }
    for (const { count, variable, shapes } of this.#blocks(part)) {
      for (let i = 0; i < count; ++i) {
        for (const shape of shapes) this.#drawShapes(context, shape, { variable, i, places }, put);
      }
    }
    this.#place = NOWHERE;
  }

  /** Draws a shape of all worlds. @param {CanvasRenderingContext2D} context @param {Json} shape
   * @param {{ variable: number, i: number, places: Place[] }} at @param {(world: number) => void} put */
  #drawShapes(context, shape, { variable, i, places }, put) {
    const { scale } = places[0], alone = shape.op === "text" || KEPT.includes(shape.op);
    /** @type {Map<Colour, number[]>} */
    const alike = new Map(); // a colour is one array as long as it does not change
    for (let world = 0; world < places.length; ++world) {
      put(world);
      this.#set(variable, i);
      if (alone) {
        this.#drawAlone(context, shape, i, variable, places[world]);
        continue;
      }
      if (!shape.when() || scale * (shape.radius?.() ?? 1 / scale) < 0.5) continue;
      const ink = shape.ink(), same = alike.get(ink);
      if (same) same.push(world);
      else alike.set(ink, [world]);
      if (shape.alike) break; // all worlds are as this one
    }
    for (const [ink, several] of alike) {
      const all = shape.alike ? places.keys() : several;
      context.beginPath();
      let thick = 0;
      for (const world of all) {
        put(world);
        thick = this.#outline(context, shape, scale);
      }
      this.#finish(context, ink, thick);
    }
  }

  /** Draws a text or what follows the states of one of many worlds. @param {CanvasRenderingContext2D} context @param {Json} shape
   * @param {number} i @param {number} variable @param {Place} place */
  #drawAlone(context, shape, i, variable, { x, y, scale }) {
    if (shape.op === "text" && (scale * shape.size() < LEGIBLE || !shape.when())) return;
    this.#place = NOWHERE;
    context.beginPath(); // a transform also changes the path so far
    context.setTransform(scale, 0, 0, scale, x, y);
    if (shape.op === "text") this.#draw(context, shape, scale);
    else if (shape.op === "curve") this.#curve(context, shape, i);
    else if (shape.op === "columns") this.#columns(context, shape, i, scale);
    else if (shape.op === "path") this.#path(context, shape, i);
    else if (i === 0) this.#trail(context, shape, variable);
    context.beginPath();
    context.resetTransform();
  }

  /** The blocks that no state changes, or all others. @param {"all" | "still" | "moving"} part */
  #blocks(part) {
    return this.blocks.slice(part === "moving" ? this.still : 0, part === "still" ? this.still : this.blocks.length);
  }

  /**
   * Writes a text. Letters are as far apart as those of Pillow, whose widths are whole halves of a pixel.
   * @param {CanvasRenderingContext2D} context @param {Json} shape @param {Colour} ink @param {Place} place
   */
  #text(context, shape, ink, { x, y, scale }) {
    const [across, down] = shape.anchor, words = shape.words.map(call).join("");
    context.fillStyle = `rgb(${ink.join()})`;
    const font = `${Math.max(1, Math.round(2 * scale * shape.size())) / (2 * scale)}px ${this.font}`, letters = Array.from(words);
    context.font = font;
    context.textRendering = "geometricPrecision"; // places of letters are not rounded
    const { widths: known, ascent, descent } = lettersOf(context, font);
    const measured = (/** @type {string} */ text) => {
      const width = known.get(text) ?? context.measureText(text).width;
      known.set(text, width);
      return width;
    };
    const rounded = (/** @type {number} */ width) => Math.round(2 * scale * width) / (2 * scale);
    const widths = letters.map((letter, k) => {
      const next = letters[k + 1] ?? "";
      return rounded(measured(letter)) + measured(letter + next) - measured(letter) - measured(next);
    });
    const width = widths.reduce((sum, one) => sum + one, 0);
    let at = across === "l" ? x : across === "m" ? x - width / 2 : x - width;
    letters.forEach((letter, k) => {
      context.fillText(letter, at, down === "m" ? y + (ascent - descent) / 2 : y);
      at += widths[k];
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {Json} shape @param {number} variable */
  #trail(context, shape, variable) {
    const kept = this.#memory?.points.get(shape.id) ?? [], part = shape.steps / OPACITIES.length, size = shape.size();
    OPACITIES.forEach((opacity, k) => {
      const stop = kept.length - part * (OPACITIES.length - 1 - k);
      const piece = kept.slice(Math.max(0, stop - part - 1), Math.max(0, stop));
      if (piece.length < 2) return;
      for (let i = 0; i < piece[0].length; ++i) {
        this.#set(variable, i);
        const points = piece.map((places) => places[i]), surface = this.palette.surface;
        if (points.every(([x, y]) => x === points[0][0] && y === points[0][1])) continue;
        const colour = /** @type {Colour} */ (shape.ink().map((/** @type {number} */ one, /** @type {number} */ band) =>
          Math.round(surface[band] + (one - surface[band]) * opacity)));
        this.#stroke(context, colour, Math.max(1, 0.4 * size * opacity), () => this.#trace(context, points));
      }
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {Json} shape @param {number} i @param {number} scale */
  #columns(context, shape, i, scale) {
    const [left, top, right, bottom] = shape.box.map(call);
    for (const entries of this.#memory?.points.get(shape.id) ?? []) {
      const [share, value] = entries[i], at = left + share * (right - left), height = Math.min(1, value) * (bottom - top);
      const edges = [at, bottom - height, at + shape.width() * (right - left), bottom];
      const [x, y, end, low] = edges.map((edge) => snapped(edge, scale));
      this.#fill(context, shape.ink(), () => context.rect(x, y, end - x, low - y));
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {Json} shape @param {number} i */
  #path(context, shape, i) {
    const [[, one], [, two]] = shape.variables;
    /** @type {number[][][]} */
    const pieces = [];
    for (const entries of this.#memory?.points.get(shape.id) ?? []) {
      const [x, y, joined] = entries[i];
      this.#set(one, x);
      this.#set(two, y);
      if (!joined || !pieces.length) pieces.push([]);
      pieces[pieces.length - 1].push(shape.at.map(call));
    }
    const lines = pieces.filter((piece) => piece.length > 1);
    this.#stroke(context, shape.ink(), shape.width(), () => lines.forEach((line) => this.#trace(context, line)));
  }

  /** @param {CanvasRenderingContext2D} context @param {Json} shape @param {number} i */
  #curve(context, shape, i) {
    const points = (this.#memory?.points.get(shape.id) ?? []).map((entries) => entries[i]);
    if (!points.length) return;
    const [left, top, right, bottom] = shape.box.map(call), stride = 1 + Math.floor(points.length / Math.floor(right - left));
    const highest = shape.highest || points.reduce((most, [, value]) => Math.max(most, value), shape.floor);
    const up = (bottom - top - shape.inset) / highest;
    const shown = points.filter((_, k) => k % stride === 0 && k < points.length - 1).concat([points[points.length - 1]]);
    const line = shown.map(([share, value]) => [left + Math.min(1, share) * (right - left), bottom - value * up]);
    const [start, end] = [line[0], line[line.length - 1]];
    const around = [[start[0], bottom], ...line, [end[0], bottom]];
    if (shape.area) this.#fill(context, shape.area(), () => this.#trace(context, around));
    if (line.length > 1) this.#stroke(context, shape.ink(), shape.width(), () => this.#trace(context, line));
    this.#fill(context, shape.ink(), () => context.arc(end[0], end[1], shape.dot, 0, TURN));
  }
}

/** @type {Map<string, { widths: Map<string, number>, ascent: number, descent: number }>} */
const FONTS = new Map();

/** Widths of letters and of pairs of letters that were measured, and heights of a font, which the canvas has.
 * @param {CanvasRenderingContext2D} context @param {string} font */
function lettersOf(context, font) {
  let letters = FONTS.get(font);
  if (!letters) {
    const { fontBoundingBoxAscent: ascent, fontBoundingBoxDescent: descent } = context.measureText("");
    letters = { widths: new Map(), ascent, descent };
    FONTS.set(font, letters);
  }
  return letters;
}

/** An edge where Pillow has it: at half a pixel. @param {number} edge @param {number} scale */
const snapped = (edge, scale) => Math.floor(2 * scale * edge + 1e-6) / (2 * scale);

/** @param {() => any} value */
const call = (value) => value();

/** The pictures of one world: its frame, and its scene, which is the frame without a panel. */
export class Pictures {
  /**
   * @param {Json} json
   * @param {Record<string, Field>} fields
   * @param {Palette} palette
   * @param {string} [font]
   */
  constructor(json, fields, palette, font) {
    this.json = json;
    /** @type {Scene[]} */
    this.scenes = json.scenes.map((/** @type {Json} */ scene) => new Scene(scene, fields, palette, font));
    /** @type {Memory[]} */
    this.memories = [];
    this.time = -1;
    this.episode = 0;
    this.reset();
  }

  /** Pictures of another world, which share what no state changes. @returns {Pictures} */
  twin() {
    const twin = Object.create(Pictures.prototype, Object.getOwnPropertyDescriptors(this));
    twin.reset();
    return twin;
  }

  /** Draws states of worlds that their pictures followed. @param {CanvasRenderingContext2D} context @param {Pictures[]} pictures
   * @param {"frame" | "scene"} kind @param {Place[]} places @param {number} first number of the first of these worlds
   * @param {"all" | "still" | "moving"} part */
  static drawMany(context, pictures, kind, places, first, part) {
    const { parts, across } = pictures[0].parts(kind);
    let [right, down] = [0, 0];
    for (const k of parts) {
      const scene = pictures[0].scenes[k];
      const moved = places.map(({ x, y, scale }) => ({ x: x + right * scale, y: y + down * scale, scale }));
      scene.drawMany(context, moved, pictures.map(({ memories }) => memories[k]), first, part);
      if (across) right += scene.width;
      else down += scene.height;
    }
  }

  /** Forgets the states of the episode. */
  reset() {
    this.memories = this.scenes.map((scene) => scene.memory());
    this.time = -1;
    this.episode = 0;
  }

  /** Takes the next state of a world. @param {number} world @param {number} time @param {number} episode */
  follow(world, time, episode) {
    if (time < this.time || episode !== this.episode) this.reset();
    this.scenes.forEach((scene, k) => scene.follow(this.memories[k], world, time, time === this.time));
    this.time = time;
    this.episode = episode;
  }

  /** Width and height. @param {"frame" | "scene"} kind */
  size(kind) {
    const { parts, across } = this.parts(kind);
    const widths = parts.map((k) => this.scenes[k].width), heights = parts.map((k) => this.scenes[k].height);
    const sum = (/** @type {number[]} */ sizes) => sizes.reduce((one, other) => one + other, 0);
    return across ? [sum(widths), heights[0]] : [widths[0], sum(heights)];
  }

  /** Numbers of the scenes of a picture, and how they are put together. @param {"frame" | "scene"} kind
   * @returns {{ parts: number[], across: boolean }} */
  parts(kind) {
    const parts = kind === "scene" && this.json.scene.length ? this.json.scene : this.json.frame;
    return { parts, across: parts === this.json.frame && !this.json.stacked };
  }

  /** Draws a state that was followed. @param {CanvasRenderingContext2D} context @param {"frame" | "scene"} kind
   * @param {Place} place @param {number} world @param {"all" | "still" | "moving"} [part] */
  draw(context, kind, { x, y, scale }, world, part) {
    const { parts, across } = this.parts(kind);
    for (const k of parts) {
      this.scenes[k].draw(context, { x, y, scale }, this.memories[k], world, part);
      if (across) x += this.scenes[k].width * scale;
      else y += this.scenes[k].height * scale;
    }
  }
}
