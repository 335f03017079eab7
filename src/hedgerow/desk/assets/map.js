// MAP: where all rows are, placed so that neighbors are together; what was picked, labeled and disputed; a lasso.
import { post } from "./api.js";
import { makeThumbnail } from "./content.js";
import { make, draw, count, percent } from "./dom.js";
import { addressLasso, readLasso } from "./lasso.js";
import { makePanel, makeTable } from "./parts.js";
import { Plane } from "./plane.js";

const WAIT_MS = 90; // before a window is asked for, while somebody moves
const HOVER_MS = 140;
const AGAIN_MS = 600; // until the next look at a map that is being drawn
const NEAR = 14; // pixels
// Every layer has a shape of its own: color alone tells nothing.
const SHAPES = { labeled: "square", picked: "ring", disputed: "triangle" };
const NAMES = { picked: "picked, unfinished", labeled: "labeled", disputed: "disputed" };
const SIZE = 4.5;

class MapScreen extends HTMLElement {
  async start(desk) {
    this.desk = desk;
    this.on = { density: true, labeled: true, picked: true, disputed: true, examples: true };
    const found = await this.#ask(null);
    if (!found) return;
    this.#build(found);
  }

  disconnectedCallback() {
    this.gone?.abort();
    this.plane?.watch.disconnect();
    clearTimeout(this.waiting);
    clearTimeout(this.hovering);
  }

  // The whole map, once it is drawn; nothing if there is none, or somebody left.
  async #ask() {
    for (;;) {
      try {
        const found = await post("map", {});
        if (!this.isConnected) return null;
        if (found.density !== undefined) return found;
        this.#showDrawing(found.drawn);
      } catch (error) {
        this.replaceChildren(make("p", { class: "unfit page", text: error.message }));
        return null;
      }
      await new Promise((wake) => setTimeout(wake, AGAIN_MS));
    }
  }

  #showDrawing(share) {
    this.replaceChildren(make("div", { class: "page" }, make("h1", { text: "Map" }),
      make("p", { text: "The map is being drawn from the embeddings. This happens once." }),
      make("progress", { max: 1, value: share, "aria-label": "Drawing the map" })));
  }

  // Building.

  #build(whole) {
    this.plane = new Plane("Map of the pool. Arrows move, plus and minus zoom, 0 shows all, Enter shows the example in the middle.", whole.side, {
      paint: (plane) => this.#paint(plane), moved: () => this.#lookSoon(), pointed: (place, now) => this.#point(place, now), circled: (ring) => this.#circle(ring),
    });
    this.plane.home = findExtent(whole);
    const button = (text, name, act) => make("button", { type: "button", text, title: name, "aria-label": name, on: { click: act } });
    this.lasso = make("button", { type: "button", text: "Lasso", "aria-pressed": "false", title: "Draw around rows; or hold Shift and drag", on: { click: () => this.#switchLasso() } });
    const tools = make("div", { class: "filters", role: "group", "aria-label": "Tools" },
      button("+", "Zoom in", this.plane.zoomIn), button("−", "Zoom out", this.plane.zoomOut), button("All", "Show all", () => this.plane.goHome()),
      this.lasso, make("button", { type: "button", text: "Take all in view", on: { click: () => this.#takeView() } }));
    this.switches = make("div", { class: "filters", role: "group", "aria-label": "Layers" }, Object.keys(this.on).map((name) => this.#makeSwitch(name)));
    this.card = make("div", { class: "card", hidden: true });
    this.taken = make("div", { class: "taken bar", role: "status" });
    this.counts = make("div", { class: "counts" });
    this.examples = make("ol", { class: "examples" });
    this.legend = make("p", { class: "muted small" });
    this.replaceChildren(make("div", { class: "page wide" }, make("h1", { text: "Map" }), make("div", { class: "bar" }, tools, this.switches),
      make("div", { class: "plane" }, this.plane.canvas, this.card), this.taken, this.legend,
      makePanel("in view", this.counts), makePanel("examples from where most rows are", this.examples)));
    this.gone = new AbortController();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => ((this.image = null), this.plane.draw()), { signal: this.gone.signal });
  }

  #makeSwitch(name) {
    const flip = (event) => {
      this.on[name] = !this.on[name];
      event.currentTarget.setAttribute("aria-pressed", String(this.on[name]));
      this.plane.draw();
    };
    return make("button", { type: "button", "aria-pressed": "true", on: { click: flip } }, SHAPES[name] ? drawSign(name) : null, name);
  }

  #switchLasso() {
    this.plane.lasso = !this.plane.lasso;
    this.lasso.setAttribute("aria-pressed", String(this.plane.lasso));
    this.plane.canvas.classList.toggle("lasso", this.plane.lasso);
    if (!this.plane.lasso) this.plane.clear();
  }

  // What is in view.

  #lookSoon() {
    this.#hold(false);
    this.card.hidden = true;
    clearTimeout(this.waiting);
    this.waiting = setTimeout(() => this.#look(), WAIT_MS);
  }

  async #look() {
    const window = this.plane.window;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    try {
      const found = await post("map", { window });
      if (turn !== this.turn || !this.isConnected || found.density === undefined) return;
      Object.assign(this, { found, window, image: null });
      this.plane.draw();
      this.#describe(found);
      const { rows } = await post("examples", { rows: found.examples.rows });
      if (turn === this.turn) this.examples.replaceChildren(...rows.map((row) => make("li", {}, makeThumbnail(row), make("span", { class: "tag", text: nameRow(row), dir: "auto" }))));
      this.dataset.shown = window.join(",");
    } catch (error) {
      this.legend.textContent = error.message;
    }
  }

  #describe({ total, within, way, share, most, points, layers }) {
    const lines = [["rows", within, total], ...Object.entries(layers).map(([name, one]) => [NAMES[name], one.within, one.total])];
    this.counts.replaceChildren(makeTable([["", ([name]) => name], ["in view", ([, here]) => count(here), "number"], ["in all", ([, , all]) => count(all), "number"]], lines, "Rows in view"));
    const shades = points ? "Every dot is a row." : `Stronger color: more rows, up to ${count(most)} in one spot, by the logarithm; zoom in to see single rows.`;
    const some = Object.values(layers).some((one) => one.within > one.x.length) ? " Of large layers an even part is shown." : "";
    this.legend.textContent = `${shades}${some} ${explainPlaces(way, share)}`;
    this.plane.canvas.setAttribute("aria-description", lines.map(([name, here]) => `${count(here)} ${name}`).join(", ") + " in view");
  }

  // Painting.

  #paint(plane) {
    if (!this.found) return;
    const { pen } = plane;
    const { points, layers, examples } = this.found;
    const color = readColors(plane.canvas);
    if (this.on.density) points ? this.#paintPoints(plane, points, color) : this.#paintDensity(plane, color);
    for (const [name, shape] of Object.entries(SHAPES)) {
      if (!this.on[name]) continue;
      eachPoint(plane, layers[name], (x, y) => paintSign(pen, shape, x, y, color[name], color.surface));
    }
    if (this.on.examples) this.#paintNumbers(plane, examples, color);
    this.#paintRing(plane, color);
    if (plane.crosshair) paintCrosshair(plane, color);
  }

  #paintPoints(plane, points, color) {
    plane.pen.fillStyle = color.accent;
    plane.pen.globalAlpha = 0.7;
    const size = points.x.length < 500 ? 4 : 2.5;
    eachPoint(plane, points, (x, y) => (trace(plane.pen, "dot", x, y, size), plane.pen.fill()));
    plane.pen.globalAlpha = 1;
  }

  #paintDensity(plane, color) {
    this.image ??= makeImage(this.found, color.accent);
    const [left, top] = plane.toPixels(this.window[0], this.window[1]);
    const [right, bottom] = plane.toPixels(this.window[2], this.window[3]);
    plane.pen.imageSmoothingEnabled = true;
    plane.pen.drawImage(this.image, left, top, right - left, bottom - top);
  }

  #paintNumbers({ pen, toPixels }, { x, y }, color) {
    Object.assign(pen, { font: "600 11px system-ui, sans-serif", textAlign: "center", textBaseline: "middle" });
    x.forEach((_, at) => {
      const [across, down] = toPixels(x[at], y[at]);
      pen.beginPath();
      pen.arc(across, down, 8.5, 0, 7);
      Object.assign(pen, { fillStyle: color.surface, strokeStyle: color.ink, lineWidth: 1.25 });
      pen.fill();
      pen.stroke();
      pen.fillStyle = color.ink;
      pen.fillText(String(at + 1), across, down + 0.5);
    });
  }

  #paintRing({ pen, ring, toPixels }, color) {
    if (ring.length < 2) return;
    pen.beginPath();
    ring.forEach(([x, y]) => pen.lineTo(...toPixels(x, y)));
    pen.closePath();
    Object.assign(pen, { fillStyle: color.ink, strokeStyle: color.ink, lineWidth: 2, globalAlpha: 0.08 });
    pen.fill();
    pen.globalAlpha = 1;
    pen.setLineDash([6, 4]);
    pen.stroke();
    pen.setLineDash([]);
  }

  // Examples. now: somebody tapped or pressed Enter, and did not just pass by.

  #point(place, now = false) {
    clearTimeout(this.hovering);
    if (this.held && !now) return;
    if (!place) return (this.card.hidden = true);
    this.hovering = setTimeout(() => this.#show(place, now), now ? 0 : HOVER_MS);
  }

  // A card that somebody asked for stays, and its link can be pressed.
  #hold(held) {
    this.held = held;
    this.card.classList.toggle("held", held);
  }

  async #show(place, now) {
    const { plane } = this;
    const reach = Math.round(NEAR * (now ? 2 : 1) * plane.scale);
    const near = plane.toUnits(...place).map(Math.round);
    const { rows } = await post("near", { place: near, reach }).catch(() => ({ rows: [] }));
    this.#hold(now && rows.length > 0);
    if (!rows.length || !this.isConnected) {
      if (now) this.desk.announce("No example is here");
      return (this.card.hidden = true);
    }
    const [row] = rows;
    const link = row.cluster === null ? null : make("a", { href: `#clusters/${row.cluster}`, text: `cluster ${row.cluster}` });
    this.card.replaceChildren(makeThumbnail(row), make("strong", { text: row.label ?? "not labeled", dir: "auto" }), make("span", { class: "muted small", text: row.id, dir: "auto" }), link ?? "");
    this.card.hidden = false;
    const left = place[0] > plane.width / 2 ? place[0] - this.card.offsetWidth - 14 : place[0] + 14;
    const top = Math.min(place[1] + 14, plane.height - this.card.offsetHeight - 8);
    Object.assign(this.card.style, { left: `${Math.max(4, left)}px`, top: `${Math.max(4, top)}px` });
    if (now) this.desk.announce(`${row.text?.slice(0, 200) ?? row.id}: ${row.label ?? "not labeled"}`);
  }

  // The lasso.

  #takeView() {
    const [left, top, right, bottom] = this.plane.window;
    this.plane.ring = [[left, top], [right, top], [right, bottom], [left, bottom]];
    this.plane.draw();
    this.#circle(this.plane.ring);
  }

  async #circle(ring) {
    this.taken.replaceChildren();
    if (!ring) return;
    try {
      const { total } = await readLasso(ring.flat());
      if (ring !== this.plane.ring) return;
      const show = total ? make("button", { type: "button", class: "primary", text: `Show ${count(total)} in Batch`, on: { click: () => this.desk.go(addressLasso(ring)) } }) : null;
      this.taken.replaceChildren(make("span", { text: total === 1 ? "1 row inside." : `${count(total)} rows inside.` }), show ?? "",
        make("button", { type: "button", text: "Clear", on: { click: () => this.plane.clear() } }));
    } catch (error) {
      this.taken.textContent = error.message;
    }
  }
}

const nameRow = (row) => row.label ?? (row.text ? "not labeled" : row.id);

// What being close or far apart means.
function explainPlaces(way, share) {
  if (way === "axes") return `The axes are the two directions along which the few different rows vary most; they show ${percent(share)} of the variance.`;
  return `Rows that are alike tend to be close: of the ten nearest of a row, ${percent(share)} are among its ten nearest on the map. ` +
    "Close rows need not be alike, how far apart groups are means little, and the axes mean nothing.";
}

// The smallest rectangle with all rows, in bins of the whole map.
function findExtent({ side, bins: [, bins], density, points }) {
  const size = side / bins;
  const levels = density && readBytes(density);
  const xs = points ? points.x : [...levels.keys()].filter((at) => levels[at]).map((at) => (at % bins) * size);
  const ys = points ? points.y : [...levels.keys()].filter((at) => levels[at]).map((at) => Math.floor(at / bins) * size);
  const least = (found) => found.reduce((one, other) => Math.min(one, other), side);
  const most = (found) => found.reduce((one, other) => Math.max(one, other), 0);
  return { left: least(xs), top: least(ys), right: most(xs) + size, bottom: most(ys) + size };
}

const readBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

function makeImage({ bins: [lines, columns], density }, color) {
  const image = make("canvas", { width: columns, height: lines });
  const pen = image.getContext("2d");
  const pixels = pen.createImageData(columns, lines);
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(color.slice(at, at + 2), 16));
  readBytes(density).forEach((level, at) => level && pixels.data.set([red, green, blue, 60 + 0.76 * level], 4 * at));
  pen.putImageData(pixels, 0, 0);
  return image;
}

function readColors(canvas) {
  const style = getComputedStyle(canvas);
  const names = ["accent", "surface", "ink", "picked", "labeled", "disputed"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim().replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3")]));
}

function eachPoint(plane, { x, y }, act) {
  for (let at = 0; at < x.length; at++) {
    const [across, down] = plane.toPixels(x[at], y[at]);
    if (across > -9 && down > -9 && across < plane.width + 9 && down < plane.height + 9) act(across, down);
  }
}

function trace(pen, shape, x, y, size = SIZE + 2) {
  pen.beginPath();
  if (shape === "square") pen.rect(x - SIZE + 0.5, y - SIZE + 0.5, 2 * SIZE - 1, 2 * SIZE - 1);
  else if (shape === "triangle") pen.moveTo(x, y - SIZE - 1.5), pen.lineTo(x + SIZE + 1, y + SIZE), pen.lineTo(x - SIZE - 1, y + SIZE), pen.closePath();
  else pen.arc(x, y, size, 0, 7);
}

// A ring leaves what is inside of it to see: a row may be labeled and wait for more answers.
function paintSign(pen, shape, x, y, color, around) {
  trace(pen, shape, x, y);
  Object.assign(pen, { fillStyle: color, strokeStyle: around, lineWidth: shape === "ring" ? 4 : 1.5 });
  pen.stroke();
  if (shape !== "ring") return pen.fill();
  Object.assign(pen, { strokeStyle: color, lineWidth: 2 });
  pen.stroke();
}

function paintCrosshair({ pen, width, height }, color) {
  Object.assign(pen, { strokeStyle: color.ink, lineWidth: 1.5 });
  pen.beginPath();
  for (const [x, y] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) pen.moveTo(width / 2 + 5 * x, height / 2 + 5 * y), pen.lineTo(width / 2 + 15 * x, height / 2 + 15 * y);
  pen.stroke();
}

// The shape of a layer, for its switch.
function drawSign(name) {
  const shapes = {
    ring: () => draw("circle", { cx: 6, cy: 6, r: SIZE }), square: () => draw("rect", { x: 2, y: 2, width: 8, height: 8 }),
    triangle: () => draw("path", { d: "M6 0.5 11.5 10.5 0.5 10.5Z" }),
  };
  return draw("svg", { class: `sign ${name}`, viewBox: "0 0 12 12", "aria-hidden": "true" }, shapes[SHAPES[name]]());
}

customElements.define("desk-map", MapScreen);
