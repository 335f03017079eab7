// Class search: type a part of the name, Enter takes the first. Recent classes come first while nothing is typed.
import { make, count } from "./dom.js";
import { nameKey } from "./keys.js";

const MOST_SHOWN = 30;

// Classes that match, best first: the same, then beginnings, beginnings of words, anywhere.
export function search(classes, typed, recent = []) {
  const text = typed.trim().toLowerCase();
  if (!text) return [...recent, ...classes.filter((name) => !recent.includes(name))];
  const rank = (name) => {
    const lower = name.toLowerCase();
    if (lower === text) return 0;
    if (lower.startsWith(text)) return 1;
    return lower.split(/[\s_./:-]+/).some((word) => word.startsWith(text)) ? 2 : lower.includes(text) ? 3 : 4;
  };
  const ranked = classes.map((name) => [rank(name), name]).filter(([place]) => place < 4);
  return ranked.sort((one, other) => one[0] - other[0]).map(([, name]) => name);
}

export class Finder {
  // take: called with the name of the class; keys: those of classes are shown; isOn: of classes that are chosen.
  constructor({ classes, recent, take, keys, isOn }) {
    Object.assign(this, { classes, recent, take, keys, isOn, at: 0, shown: [] });
    this.input = make("input", {
      type: "text", role: "combobox", "aria-label": "Find a class", "aria-controls": "found", "aria-expanded": "true",
      "aria-autocomplete": "list", placeholder: "Find a class", autocomplete: "off", spellcheck: "false",
      on: { input: () => this.refresh(0), keydown: (event) => this.#press(event) },
    });
    this.list = make("ul", { id: "found", role: "listbox", "aria-label": "Classes", class: "found" });
    this.more = make("p", { class: "muted small" });
    this.element = make("div", { class: "finder" }, this.input, this.list, this.more);
    this.refresh(0);
  }

  focus() {
    this.input.focus();
    this.input.select();
  }

  clear() {
    this.input.value = "";
    this.refresh(0);
  }

  refresh(at = this.at) {
    const all = search(this.classes, this.input.value, this.recent());
    this.shown = all.slice(0, MOST_SHOWN);
    this.at = Math.max(0, Math.min(at, this.shown.length - 1));
    this.list.replaceChildren(...this.shown.map((name, place) => this.#makeOption(name, place)));
    this.input.setAttribute("aria-activedescendant", this.shown.length ? `found-${this.at}` : "");
    const rest = all.length - this.shown.length;
    this.more.textContent = all.length ? (rest ? `and ${count(rest)} more: type to narrow` : "") : "No class has that in its name.";
  }

  #makeOption(name, place) {
    const key = this.keys.find(`class:${name}`);
    return make(
      "li",
      {
        id: `found-${place}`, role: "option", "aria-selected": String(place === this.at), class: this.isOn(name) ? "on" : null,
        on: { mousedown: (event) => event.preventDefault(), click: () => this.#choose(name) },
      },
      make("span", { text: name, class: "name", dir: "auto" }),
      key ? make("kbd", { text: nameKey(key) }) : null,
    );
  }

  #choose(name) {
    this.take(name);
    this.clear();
  }

  #press(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.refresh(this.at + step);
    else if (event.key === "Enter" && this.shown.length) this.#choose(this.shown[this.at]);
    else if (event.key === "Escape") {
      this.clear();
      this.input.blur();
    } else return;
    event.preventDefault();
    event.stopPropagation();
    this.list.children[this.at]?.scrollIntoView({ block: "nearest" });
  }
}
