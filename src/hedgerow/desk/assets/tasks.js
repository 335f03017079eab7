// The tasks that a page has at hand: claimed ahead, renewed while the page is used, and given back when it is closed.
import { get, post } from "./api.js";
import { makeContent } from "./content.js";

const AHEAD = 10; // tasks whose contents are loaded before they are shown: a second of quick keys
const LOW = 0.5; // of the prefetch: below it more are claimed
const MOST = 2; // times the prefetch: at most so many are claimed

export class Tasks extends EventTarget {
  #queue;
  #prefetch;
  #lease;
  #decide;
  #template;
  #contents = new Map();
  #filling = null;
  #used = Date.now();
  #timer;
  held = []; // the first is shown
  #asked = false;

  constructor(queue, { prefetch, lease, template }, decide) {
    super();
    this.#queue = queue;
    this.#prefetch = prefetch;
    this.#lease = lease * 1000;
    this.#decide = decide;
    this.#template = template;
    this.#timer = setInterval(() => this.#renew(), Math.min(this.#lease / 3, 60000));
  }

  // Whether there is nothing, as far as the server knows.
  get isEmpty() {
    return this.#asked && !this.#filling && !this.held.length;
  }

  get current() {
    return this.held[0] ?? null;
  }

  content(task) {
    if (!this.#contents.has(task.task)) this.#contents.set(task.task, makeContent(task, this.#template));
    return this.#contents.get(task.task);
  }

  // Somebody is at the page. False if they were away for so long that others may have their tasks by now.
  touch() {
    const away = Date.now() - this.#used;
    this.#used = Date.now();
    if (away < this.#lease || this.#queue.state === "offline") return true;
    this.fill();
    return false;
  }

  // The first task is answered.
  next() {
    this.held.shift();
    this.#preload();
    if (this.held.length < LOW * this.#prefetch) this.fill();
  }

  // A task is shown again.
  putBack(task) {
    this.held.unshift({ ...task, again: true });
    this.#preload();
  }

  // Claims more. What the server does not name any more belongs to somebody else by now.
  fill() {
    this.#filling ??= this.#fill().finally(() => {
      this.#filling = null;
      if (!this.held.length) this.dispatchEvent(new CustomEvent("change", { detail: {} }));
    });
    return this.#filling;
  }

  async #fill() {
    const before = new Set(this.held.map((one) => one.task));
    const sending = this.#queue.tasks; // the server still takes these for held
    const n = Math.min(MOST * this.#prefetch, Math.max(this.#prefetch, this.held.length) + sending.size);
    const { tasks, edition } = await post("claim", { n, decide: this.#decide }).catch(() => ({ tasks: null }));
    if (!tasks) return;
    const ours = new Set(tasks.map((one) => one.task));
    this.held = this.held.filter((one) => !before.has(one.task) || ours.has(one.task) || one.again);
    // Those that were answered here before or while the server was asked are not new.
    const old = new Set([...before, ...sending, ...this.#queue.tasks, ...this.held.map((one) => one.task)]);
    this.held.push(...tasks.filter((one) => !old.has(one.task)));
    this.#asked = true;
    this.#preload();
    this.dispatchEvent(new CustomEvent("change", { detail: { edition } }));
  }

  // Gives back what is not answered.
  leave(last = false) {
    clearInterval(this.#timer);
    const tasks = this.held.map((one) => one.task);
    this.held = [];
    if (tasks.length) post("release", { tasks }, { last }).catch(() => {});
  }

  why(task) {
    return get("why", { task: task.task, batch: task.batch });
  }

  #renew() {
    if (Date.now() - this.#used < this.#lease || !this.held.length) this.fill();
  }

  #preload() {
    for (const task of this.held.slice(0, AHEAD)) this.content(task);
    if (this.#contents.size > 60) {
      const needed = new Set(this.held.map((one) => one.task));
      for (const task of [...this.#contents.keys()].slice(0, 20)) if (!needed.has(task)) this.#contents.delete(task);
    }
  }
}
