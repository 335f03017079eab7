// Keys: what each of them does, changed by people as they like and kept in their browser.
// An action is "class:NAME" or one of ACTIONS.

export const ACTIONS = {
  yes: ["y", "Yes"],
  no: ["n", "No"],
  finish: ["Enter", "Finish (several classes)"],
  find: ["/", "Find a class"],
  skip: [" ", "Skip: ask somebody else"],
  unsure: ["u", "Unsure"],
  none: ["o", "None of these"],
  broken: ["b", "Broken: cannot be judged"],
  undo: ["Backspace", "Undo the last answer"],
  back: ["ArrowLeft", "Look back at your answers"],
  forward: ["ArrowRight", "Look forward again"],
  why: ["w", "Why was it picked?"],
  zoom: ["z", "Zoom"],
  play: ["p", "Play or pause"],
  help: ["?", "Keys"],
};
// Kinds of campaigns in which an action means nothing: its key is free there.
const ELSEWHERE = {
  yes: ["multi-class", "multi-label"], no: ["multi-class", "multi-label"], finish: ["multi-class", "pairs"], find: ["pairs"], none: ["pairs"],
};
const DIGITS = [..."1234567890"];
const FIXED = new Set(["Tab", "Escape", "Shift", "Control", "Alt", "Meta", "g", "AltGraph", "CapsLock", "Dead"]);
const NAMES = { " ": "Space", ArrowLeft: "←", ArrowRight: "→", Backspace: "⌫", Enter: "↵" };

export const nameKey = (key) => NAMES[key] ?? key;

export class Keys {
  #place;
  #held;
  #isPairs;

  constructor(campaign, person, kind, classes) {
    this.actions = Object.keys(ACTIONS).filter((action) => !ELSEWHERE[action]?.includes(kind));
    this.#isPairs = kind === "pairs";
    this.#place = `hedgerow:keys:${campaign}:${person}`;
    this.#held = readStored(this.#place);
    this.setClasses(classes);
  }

  setClasses(classes) {
    const defaults = Object.fromEntries(this.actions.map((action) => [action, ACTIONS[action][0]]));
    this.classes = this.#isPairs ? [] : classes; // classes that have keys
    this.classes.slice(0, DIGITS.length).forEach((name, at) => (defaults[`class:${name}`] = DIGITS[at]));
    this.defaults = defaults;
  }

  get on() {
    return this.#held.on !== false;
  }

  // Single keys can be switched off, for people whose devices type by accident (WCAG 2.1.4).
  switch(on) {
    this.#held.on = on;
    this.#store();
  }

  get map() {
    const known = new Set(this.classes.map((name) => `class:${name}`));
    const own = Object.entries(this.#held.map ?? {}).filter(([action]) => this.actions.includes(action) || known.has(action));
    const taken = new Set(own.map(([, key]) => key));
    const rest = Object.entries(this.defaults).filter(([, key]) => !taken.has(key));
    return { ...Object.fromEntries(rest), ...Object.fromEntries(own.filter(([, key]) => key)) };
  }

  // The key of an action, or undefined.
  find(action) {
    const own = this.#held.map ?? {};
    return action in own ? own[action] || undefined : this.map[action];
  }

  // The action of a key, or undefined.
  read(key) {
    const lower = key.length === 1 ? key.toLowerCase() : key;
    return Object.entries(this.map).find(([action, held]) => held === lower && this.find(action) === held)?.[0];
  }

  // Gives an action another key; what is wrong with that, or null.
  change(action, pressed) {
    const key = pressed.length === 1 ? pressed.toLowerCase() : pressed;
    if (FIXED.has(key)) return `${nameKey(key)} cannot be used`;
    const other = this.read(key);
    if (other && other !== action) return `${nameKey(key)} is the key of “${nameAction(other)}”`;
    this.#held.map = { ...this.#held.map, [action]: key };
    this.#store();
    return null;
  }

  reset() {
    this.#held.map = {};
    this.#store();
  }

  #store() {
    try {
      localStorage.setItem(this.#place, JSON.stringify(this.#held));
    } catch {
      // Without storage the keys last as long as the page.
    }
  }
}

export const nameAction = (action) =>
  action.startsWith("class:") ? action.slice(6) : (ACTIONS[action]?.[1] ?? action);

function readStored(place) {
  try {
    return JSON.parse(localStorage.getItem(place)) ?? {};
  } catch {
    return {};
  }
}
