// A canvas that shows a part of a square map: moved, zoomed and circled by pointer, wheel and keys. It knows nothing of
// what is drawn: `paint` is called with itself, and people's wishes go to `moved`, `pointed`, `circled`.
import { make } from "./dom.js";

const FINEST = 256; // units of the map across the canvas at the least
const STEP = 1.6; // of one zoom by key or button
const PIXELS = 4; // a pointer that moved less has tapped
const MOST_CORNERS = 120;

export class Plane {
  #pointers = new Map();
  #scene = 0;

  constructor(label, side, { paint, moved, pointed, circled }) {
    Object.assign(this, { side, paint, moved, pointed, circled, lasso: false, ring: [], crosshair: false });
    this.canvas = make("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": label });
    this.pen = this.canvas.getContext("2d");
    this.home = { left: 0, top: 0, right: side, bottom: side };
    const on = (name, listen, options) => this.canvas.addEventListener(name, listen, options);
    on("wheel", (event) => this.#wheel(event), { passive: false });
    on("pointerdown", (event) => this.#down(event));
    on("pointermove", (event) => this.#move(event));
    on("pointerup", (event) => this.#up(event));
    on("pointercancel", (event) => (this.#pointers.delete(event.pointerId), (this.ring = []), this.draw()));
    on("pointerleave", () => this.pointed(null));
    on("keydown", (event) => this.#press(event));
    on("blur", () => ((this.crosshair = false), this.draw()));
    this.watch = new ResizeObserver(() => this.#resize());
    this.watch.observe(this.canvas);
  }

  #resize() {
    const { clientWidth, clientHeight } = this.canvas;
    if (!clientWidth) return;
    const first = !this.width;
    Object.assign(this, { width: clientWidth, height: clientHeight, ratio: devicePixelRatio || 1 });
    this.canvas.width = Math.round(clientWidth * this.ratio);
    this.canvas.height = Math.round(clientHeight * this.ratio);
    first ? this.goHome() : this.#changed();
  }

  // Where things are. Units are those of the map, pixels those of the page.

  get window() {
    const [wide, high] = [(this.width * this.scale) / 2, (this.height * this.scale) / 2];
    return [this.x - wide, this.y - high, this.x + wide, this.y + high].map(Math.round);
  }

  toPixels = (x, y) => [(x - this.x) / this.scale + this.width / 2, (y - this.y) / this.scale + this.height / 2];
  toUnits = (across, down) => [this.x + (across - this.width / 2) * this.scale, this.y + (down - this.height / 2) * this.scale];

  get #widest() {
    const { left, top, right, bottom } = this.home;
    return Math.max((right - left) / this.width, (bottom - top) / this.height, FINEST / this.width) * 1.08;
  }

  goHome() {
    const { left, top, right, bottom } = this.home;
    Object.assign(this, { x: (left + right) / 2, y: (top + bottom) / 2, scale: this.#widest });
    this.#changed();
  }

  // Zooms by a factor and keeps a place of the canvas, by default its middle, where it is.
  zoom(factor, across = this.width / 2, down = this.height / 2) {
    const [x, y] = this.toUnits(across, down);
    this.scale = Math.min(this.#widest * 1.5, Math.max(FINEST / this.width, this.scale / factor));
    this.x = x - (across - this.width / 2) * this.scale;
    this.y = y - (down - this.height / 2) * this.scale;
    this.#changed();
  }

  pan(across, down) {
    this.x += across * this.scale;
    this.y += down * this.scale;
    this.#changed();
  }

  #changed() {
    this.x = Math.min(this.side, Math.max(0, this.x));
    this.y = Math.min(this.side, Math.max(0, this.y));
    this.draw();
    this.moved();
  }

  // At most once per frame.
  draw() {
    this.#scene ||= requestAnimationFrame(() => {
      this.#scene = 0;
      if (!this.width) return;
      this.pen.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
      this.pen.clearRect(0, 0, this.width, this.height);
      this.paint(this);
    });
  }

  // Pointers.

  #wheel(event) {
    event.preventDefault();
    this.pointed(null);
    const lines = event.deltaMode ? 30 : 1;
    this.zoom(Math.exp(-event.deltaY * lines * 0.0018), event.offsetX, event.offsetY);
  }

  #down(event) {
    if (event.button) return;
    this.canvas.focus({ preventScroll: true });
    this.canvas.setPointerCapture(event.pointerId);
    this.#pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    this.tapping = this.#pointers.size === 1 ? [event.offsetX, event.offsetY] : null;
    this.circling = this.#pointers.size === 1 && (this.lasso || event.shiftKey);
    this.ring = this.circling ? [this.toUnits(event.offsetX, event.offsetY)] : this.#pointers.size > 1 ? [] : this.ring;
  }

  #move(event) {
    const here = [event.offsetX, event.offsetY];
    const before = this.#pointers.get(event.pointerId);
    if (!before) return this.pointed(event.pointerType === "mouse" ? here : null);
    if (this.tapping && Math.hypot(here[0] - this.tapping[0], here[1] - this.tapping[1]) < PIXELS) return;
    this.tapping = null;
    this.pointed(null);
    if (this.#pointers.size > 1) this.#pinch(event.pointerId, before, here);
    else if (this.circling) this.ring.push(this.toUnits(...here)), this.draw();
    else this.pan(before[0] - here[0], before[1] - here[1]);
    this.#pointers.set(event.pointerId, here);
  }

  #pinch(moving, before, here) {
    const other = [...this.#pointers].find(([id]) => id !== moving)[1];
    const apart = (one) => Math.max(10, Math.hypot(one[0] - other[0], one[1] - other[1]));
    const middle = (one, axis) => (one[axis] + other[axis]) / 2;
    this.pan(middle(before, 0) - middle(here, 0), middle(before, 1) - middle(here, 1));
    this.zoom(apart(here) / apart(before), middle(here, 0), middle(here, 1));
  }

  #up(event) {
    if (!this.#pointers.delete(event.pointerId)) return;
    if (this.circling && this.ring.length > 2) this.#finish();
    else if (this.tapping) (this.ring = []), this.draw(), this.circled(null), this.pointed(this.tapping, true);
    this.circling = false;
    this.tapping = null;
  }

  #finish() {
    const every = Math.ceil(this.ring.length / MOST_CORNERS);
    this.ring = this.ring.filter((_, at) => at % every === 0).map((corner) => corner.map(Math.round));
    this.draw();
    this.circled(this.ring);
  }

  clear() {
    this.ring = [];
    this.circled(null);
    this.draw();
  }

  // Keys.

  #press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const far = Math.min(this.width, this.height) / 6;
    const actions = {
      ArrowLeft: () => this.pan(-far, 0), ArrowRight: () => this.pan(far, 0), ArrowUp: () => this.pan(0, -far), ArrowDown: () => this.pan(0, far),
      "+": () => this.zoom(STEP), "=": () => this.zoom(STEP), "-": () => this.zoom(1 / STEP), 0: () => this.goHome(),
      Enter: () => this.pointed([this.width / 2, this.height / 2], true), Escape: () => this.clear(),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    this.crosshair = true;
    actions[event.key]();
    this.draw();
  }

  zoomIn = () => this.zoom(STEP);
  zoomOut = () => this.zoom(1 / STEP);
}
