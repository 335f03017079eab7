// The shell: who is here, which screen is shown, the keys, and what is on its way to the server.
import { get, post, Failure } from "./api.js";
import { make, count } from "./dom.js";
import { Keys } from "./keys.js";
import { Queue } from "./queue.js";
import { openKeys } from "./settings.js";
import "./label.js";
import "./batch.js";
import "./clusters.js";
import "./map.js";
import "./curves.js";
import "./people.js";
import { makeNextRound } from "./parts.js";

// Where each screen is: its letter after g, its name, the role that sees it, and its element.
const SCREENS = {
  label: { letter: "l", title: "Label", role: "label", tag: "desk-label" },
  batch: { letter: "b", title: "Batch", role: "own", tag: "desk-batch" },
  clusters: { letter: "c", title: "Clusters", role: "own", tag: "desk-clusters" },
  map: { letter: "m", title: "Map", role: "own", tag: "desk-map" },
  curves: { letter: "v", title: "Curves", role: "label", tag: "desk-curves" },
  people: { letter: "p", title: "People", role: "adjudicate", tag: "desk-people" },
};
const ROLES = ["label", "adjudicate", "own"];
const COUNT_MS = 15000;

class DeskApp extends HTMLElement {
  async connectedCallback() {
    try {
      this.me = await get("me");
    } catch (error) {
      return this.#explain(error);
    }
    const { campaign, person, kind, classes } = this.me;
    this.keys = new Keys(campaign, person, kind, classes);
    this.queue = new Queue(campaign, person);
    this.mine = 0; // answers given in this visit
    this.#build();
    this.queue.addEventListener("change", () => {
      this.#showState();
      if (this.queue.state === "saved") this.#recountSoon();
    });
    await this.queue.open();
    this.channel = new BroadcastChannel(`hedgerow:${campaign}:${person}`);
    this.channel.onmessage = ({ data }) => this.screen?.drop?.(data);
    addEventListener("hashchange", () => this.#route());
    addEventListener("keydown", (event) => this.#press(event));
    addEventListener("pagehide", () => this.queue.flushLast());
    this.counting = setInterval(() => document.hidden || this.recount(), COUNT_MS);
    this.#route();
    this.recount();
  }

  #explain(error) {
    const known = error instanceof Failure && error.status === 401;
    const text = known
      ? "Open the desk with your link: the terminal in which it runs shows one, or whoever runs it gave you one."
      : "The desk cannot be reached. Is it still running?";
    this.replaceChildren(
      make("main", { class: "notice" }, make("h1", { text: known ? "Who are you?" : "No answer" }), make("p", { text }),
        make("button", { type: "button", text: "Try again", on: { click: () => location.reload() } })),
    );
  }

  // Building.

  #build() {
    document.title = `${this.me.title} · hedgerow desk`;
    this.nav = make("nav", { "aria-label": "Screens" }, this.#visible().map(([name, one]) => make("a", { href: `#${name}`, text: one.title, "data-screen": name })));
    this.progress = make("div", { class: "progress" });
    this.state = make("span", { class: "state", role: "status" });
    const help = make("button", { type: "button", class: "icon", title: "Keys", "aria-label": "Keys", text: "?", on: { click: () => openKeys(this) } });
    const leave = make("button", { type: "button", class: "icon", text: "Sign out", on: { click: () => this.#leave() } });
    const person = make("details", { class: "person" }, make("summary", { text: this.me.person }), make("div", { class: "menu" }, make("p", { class: "muted", text: `role: ${this.me.role}` }), leave));
    this.main = make("main", { id: "main", tabindex: "-1" });
    this.live = make("div", { class: "hidden", "aria-live": "polite", role: "log" });
    this.toast = make("div", { class: "toast", hidden: true });
    this.refusals = make("div", { class: "refusals" });
    this.replaceChildren(
      make("a", { class: "skip-link", href: "#main", text: "Skip to the example", on: { click: (event) => (event.preventDefault(), this.main.focus()) } }),
      make("header", {}, make("span", { class: "brand", text: this.me.title, title: "hedgerow desk" }), this.nav, this.progress, this.state, help, person),
      this.refusals, this.main, this.live, this.toast,
    );
  }

  #visible() {
    const mine = ROLES.indexOf(this.me.role);
    return Object.entries(SCREENS).filter(([, one]) => ROLES.indexOf(one.role) <= mine);
  }

  // Screens.

  async #route() {
    const [name, ...rest] = location.hash.slice(1).split("/");
    const known = Object.fromEntries(this.#visible());
    const chosen = known[name] ? name : "label";
    for (const link of this.nav.children) {
      link.dataset.screen === chosen ? link.setAttribute("aria-current", "page") : link.removeAttribute("aria-current");
    }
    this.nav.querySelector("[aria-current]").scrollIntoView({ block: "nearest", inline: "nearest" }); // on phones
    this.screen = document.createElement(known[chosen].tag);
    this.main.replaceChildren(this.screen);
    this.screen.start(this, ...(chosen === "label" ? [rest[0] === "decide"] : rest));
  }

  go(where) {
    location.hash = where;
  }

  // What to do when nothing is left to label.
  suggest(decide) {
    if (decide) return make("a", { href: "#label", text: "Label instead" });
    return this.me.role === "own" ? makeNextRound(this, () => this.#route()) : null;
  }

  // Classes have changed.
  async refresh() {
    this.me = await get("me").catch(() => this.me);
    this.keys.setClasses(this.me.classes);
    this.screen?.buildChoices?.();
  }

  // Progress.

  async recount() {
    const before = this.mine - this.queue.length; // what the server knows of
    const found = await get("count").catch(() => null);
    if (!found) return;
    this.batches = found.batches;
    this.known = before;
    this.#showProgress();
  }

  #recountSoon() {
    clearTimeout(this.recounting);
    this.recounting = setTimeout(() => this.recount(), 500);
  }

  counted(step) {
    this.mine += step;
    this.#showProgress();
  }

  #showProgress() {
    const batch = this.batches?.find((one) => one.lacking > 0) ?? this.batches?.at(-1);
    if (!batch) return this.progress.replaceChildren();
    const ahead = this.mine - this.known; // given here and not yet counted by the server
    const done = Math.max(0, Math.min(batch.wanted, batch.wanted - batch.lacking + ahead));
    const what = batch.kind === "holdout" ? "holdout" : `batch ${batch.id}`;
    this.progress.replaceChildren(
      make("progress", { max: batch.wanted, value: done, "aria-label": `${what}: ${done} of ${batch.wanted}` }),
      make("span", { text: `${what} · ${count(done)} of ${count(batch.wanted)}` }),
    );
  }

  #showState() {
    const { state, length, refused } = this.queue;
    const answers = `${count(length)} ${length === 1 ? "answer" : "answers"}`;
    const texts = {
      saved: "saved", sending: "saving …", offline: `offline: ${answers} kept here`,
      "signed out": `signed out: ${answers} kept here; open your link again`,
    };
    this.state.textContent = texts[state];
    this.state.dataset.state = state.replace(" ", "-");
    const lines = refused.map((one) => make("li", { text: `Task ${one.task}: ${one.reason}` }));
    this.refusals.replaceChildren(
      ...(lines.length
        ? [make("section", { class: "alert", role: "alert" }, make("p", { text: `${count(lines.length)} of your answers could not be used:` }), make("ul", {}, lines.slice(0, 5)),
            make("button", { type: "button", text: "Dismiss", on: { click: () => this.queue.forgetRefused() } }))]
        : []),
    );
  }

  // seen: also for people who look.
  announce(text, seen = false) {
    this.live.replaceChildren(make("p", { text }));
    if (!seen) return;
    this.toast.textContent = text;
    this.toast.hidden = false;
    clearTimeout(this.toasting);
    this.toasting = setTimeout(() => (this.toast.hidden = true), 2500);
  }

  broadcast(task) {
    this.channel?.postMessage(task);
  }

  // Keys.

  #press(event) {
    if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
    if (document.querySelector("dialog[open]") || isTyping(event.target)) return;
    if (!this.keys.on) return;
    if (this.going) {
      clearTimeout(this.going);
      this.going = null;
      const found = this.#visible().find(([, one]) => one.letter === event.key);
      if (found) return event.preventDefault(), this.go(found[0]);
    }
    if (event.key === "g") {
      this.going = setTimeout(() => (this.going = null), 1500);
      return;
    }
    const action = this.keys.read(event.key);
    if (!action || isPressing(event)) return;
    if (action === "help") openKeys(this);
    else if (this.screen?.press) this.screen.press(action);
    else return;
    event.preventDefault();
  }

  async #leave() {
    await this.queue.flush();
    await post("leave", {}).catch(() => {});
    location.reload();
  }
}

const isTyping = (target) => target.matches?.("input, select, textarea, [contenteditable]");
// Space and Enter press the button or link that has the focus; a key that is held down is one answer.
const isPressing = (event) =>
  event.repeat || ([" ", "Enter"].includes(event.key) && event.target.matches?.("button, a, summary, audio"));

customElements.define("desk-app", DeskApp);
