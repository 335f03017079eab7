// LABEL: one example, one key. The next example is drawn at once; answers travel in the background.
import { make, count, makeKey, percent } from "./dom.js";
import { Finder } from "./finder.js";
import { nameKey } from "./keys.js";
import { Tasks } from "./tasks.js";
import { makeThumbnail } from "./content.js";

const ALL_SHOWN = 24; // classes up to which all have a button
const MOST_RECENT = 10;
const MOST_UNDONE = 50;
const WHY_MS = 400; // after an answer, before its reason is asked for: not for each of a quick series
const POLL_MS = 10000;
const SAID = { skip: "skipped", unsure: "unsure", "none-of-these": "none of these", broken: "broken", retract: "undone" };

class LabelScreen extends HTMLElement {
  // desk: what the shell knows; decide: disputed examples, for an expert.
  start(desk, decide = false) {
    this.desk = desk;
    this.decide = decide;
    this.kind = desk.me.kind;
    this.done = []; // answered here, the newest last
    this.chosen = new Set();
    this.recent = [];
    this.tasks = new Tasks(desk.queue, desk.me, decide);
    this.#build();
    this.tasks.addEventListener("change", (event) => this.#update(event.detail.edition));
    this.poll = setInterval(() => this.tasks.held.length || this.tasks.fill(), POLL_MS);
    this.tasks.fill();
    this.onHide = () => this.tasks.leave(true);
    this.onShow = (event) => event.persisted && location.reload();
    addEventListener("pagehide", this.onHide);
    addEventListener("pageshow", this.onShow);
  }

  disconnectedCallback() {
    clearInterval(this.poll);
    clearTimeout(this.whyTimer);
    removeEventListener("pagehide", this.onHide);
    removeEventListener("pageshow", this.onShow);
    this.tasks?.leave();
  }

  // Building.

  #build() {
    this.stage = make("div", { class: "stage", tabindex: "-1" });
    this.question = make("h1", { class: "question" });
    this.choices = make("div", { class: "choices" });
    this.others = make("div", { class: "others" });
    this.reason = make("section", { class: "why", "aria-label": "Why this example" });
    this.last = make("section", { class: "last", "aria-label": "The last answer" });
    const side = make("div", { class: "side" }, this.question, this.choices, this.others, this.reason, this.last);
    this.replaceChildren(make("div", { class: "label" }, this.stage, side));
    this.buildChoices();
  }

  // The buttons, after the classes or the keys have changed.
  buildChoices() {
    const { classes } = this.desk.me;
    this.finder = null;
    const parts = this.kind === "pairs" ? [this.#makeYesNo()] : [this.#makeClasses(classes)];
    if (this.kind !== "pairs" && classes.length > ALL_SHOWN) {
      this.finder = new Finder({
        classes, keys: this.desk.keys, recent: () => this.recent, take: (name) => this.#choose(name),
        isOn: (name) => this.chosen.has(name),
      });
      parts.push(this.finder.element);
    }
    this.choices.replaceChildren(...parts);
    this.others.replaceChildren(...this.#makeOthers());
    this.#show();
  }

  #makeYesNo() {
    const button = (action, value, text) => this.#makeButton(action, text, () => this.#answer("answer", value), "choice");
    return make("div", { class: "classes two" }, button("yes", 1, "Yes"), button("no", 0, "No"));
  }

  #makeClasses(classes) {
    const { keys } = this.desk;
    const shown = classes.length <= ALL_SHOWN ? classes : classes.filter((name) => keys.find(`class:${name}`));
    const buttons = shown.map((name) => this.#makeClass(name));
    return make("div", { class: shown.length > 8 ? "classes two" : "classes" }, buttons);
  }

  #makeClass(name) {
    const button = this.#makeButton(`class:${name}`, name, () => this.#choose(name), "choice");
    if (this.kind === "multi-label") button.setAttribute("aria-pressed", String(this.chosen.has(name)));
    button.dataset.name = name;
    return button;
  }

  #makeOthers() {
    const plain = (action, text, kind) => this.#makeButton(action, text, () => this.#answer(kind));
    const none = this.#makeButton("none", "None of these", () => this.#answerNone());
    return [
      this.kind === "multi-label" && this.#makeButton("finish", "Finish", () => this.#finish(), "primary"),
      this.kind !== "pairs" && none,
      !this.decide && plain("unsure", "Unsure", "unsure"),
      plain("skip", "Skip", "skip"),
      !this.decide && plain("broken", "Broken", "broken"),
      this.#makeButton("undo", "Undo", () => this.undo()),
      this.#makeButton("back", "Look back", () => this.look(1)),
    ].filter(Boolean);
  }

  #makeButton(action, text, press, look = "") {
    const key = this.desk.keys.on && this.desk.keys.find(action);
    return make(
      "button",
      { type: "button", class: look, "data-action": action, on: { click: press, mousedown: (event) => event.preventDefault() } },
      key && make("kbd", { text: nameKey(key), "aria-hidden": "true" }),
      make("span", { text, dir: "auto" }),
    );
  }

  // Showing.

  #update(edition) {
    if (edition !== undefined && edition !== this.desk.me.edition) this.desk.refresh();
    if (!this.tasks.current || this.shown !== this.tasks.current.task) this.#show();
  }

  #show() {
    const task = this.tasks?.current;
    this.shown = task?.task;
    this.back = 0; // answers that somebody looks back by
    this.classList.remove("looking");
    this.classList.toggle("empty", !task);
    this.reason.replaceChildren();
    this.#setChosen([]);
    if (!task) {
      this.stage.replaceChildren(this.#makeNothing());
      this.question.textContent = "";
      return;
    }
    const content = this.tasks.content(task);
    this.stage.replaceChildren(content);
    this.stage.scrollTop = 0;
    this.question.replaceChildren(...this.#ask(task));
    this.reason.replaceChildren(this.#makeButton("why", "Why this one?", () => this.showWhy(), "link"));
    this.shownAt = performance.now();
    this.dataset.task = task.task;
  }

  // Shows an earlier answer again, which stays what it is.
  look(step) {
    const back = Math.min(Math.max(0, this.back + step), this.done.length);
    if (back === this.back) return this.desk.announce(step > 0 ? "There is no earlier answer here." : "This is the present.", true);
    if (!back) return this.#returnToNow();
    const { task, text } = this.done.at(-back);
    this.back = back;
    this.classList.remove("empty");
    this.classList.add("looking");
    this.stage.replaceChildren(this.tasks.content(task));
    this.stage.scrollTop = 0;
    this.question.replaceChildren("You said ", make("strong", { text, dir: "auto" }), this.kind === "pairs" ? ` to ${task.class}` : "");
    const forward = this.#makeButton("forward", back > 1 ? `Forward (${count(back)} back)` : "Back to the present", () => this.look(-1), "link");
    this.reason.replaceChildren(forward);
    this.desk.announce(`${count(back)} back: ${text}`);
  }

  #returnToNow() {
    const chosen = [...this.chosen]; // of the example that waits
    this.#show();
    this.#setChosen(chosen);
  }

  #ask(task) {
    if (this.kind === "pairs") return ["Is this ", make("strong", { text: task.class, dir: "auto" }), "?"];
    const text = this.kind === "multi-label" ? "Which of these apply?" : "Which one is it?";
    return [this.decide ? `Disputed. ${text}` : text];
  }

  #makeNothing() {
    if (!this.tasks?.isEmpty) return make("p", { class: "muted", text: this.desk.queue.state === "offline" ? "The desk cannot be reached." : "Fetching examples …" });
    const text = this.decide
      ? "Nothing is disputed that you could decide: whoever took a side does not decide."
      : "Nothing is left for you to label in the open batches.";
    return make(
      "div", { class: "nothing" },
      make("h2", { text: this.done.length ? `Done: ${count(this.done.length)} answered here` : "All done" }),
      make("p", { text }),
      this.desk.suggest?.(this.decide),
    );
  }

  // Answering.

  #choose(name) {
    if (this.back) return this.#answer("answer", name); // which says that this is the past
    if (this.kind !== "multi-label") return this.#answer("answer", name);
    this.chosen.has(name) ? this.chosen.delete(name) : this.chosen.add(name);
    this.#setChosen(this.chosen);
    this.#remember(name);
    this.desk.announce(`${name} ${this.chosen.has(name) ? "chosen" : "not chosen"}`);
  }

  #setChosen(names) {
    this.chosen = new Set(names);
    for (const button of this.choices.querySelectorAll("[data-name]")) {
      if (this.kind === "multi-label") button.setAttribute("aria-pressed", String(this.chosen.has(button.dataset.name)));
    }
    const known = this.desk.me.classes;
    this.querySelector(".chips")?.remove();
    if (this.kind === "multi-label" && known.length > ALL_SHOWN && this.chosen.size) {
      const chips = [...this.chosen].map((name) => make("button", { type: "button", class: "chip", text: `${name} ×`, on: { click: () => this.#choose(name) } }));
      this.choices.prepend(make("div", { class: "chips" }, chips));
    }
    this.finder?.refresh();
  }

  #finish() {
    if (this.kind !== "multi-label") return;
    if (this.chosen.size) this.#answer("answer", [...this.chosen]);
    else this.desk.announce("Choose classes first, or say none of these.", true);
  }

  #answerNone() {
    if (this.kind === "pairs") return;
    this.decide ? this.#answer("answer", []) : this.#answer("none-of-these");
  }

  #answer(kind, value = null) {
    const task = this.tasks.current;
    if (this.back) return this.desk.announce("You are looking back: go forward first, or undo.", true);
    if (!task) return;
    if (!this.tasks.touch()) return this.desk.announce("Welcome back. Others may have taken over: look again.", true);
    const seconds = Math.round(performance.now() - this.shownAt) / 1000;
    const said = this.decide && kind === "answer" ? "adjudicate" : kind;
    this.desk.queue.add({ key: makeKey(), task: task.task, kind: said, value, seconds });
    this.desk.broadcast(task.task);
    const text = describeAnswer(kind, value);
    this.done = [...this.done, { task, kind, value, text }].slice(-MOST_UNDONE);
    this.desk.counted(1);
    if (kind === "answer") [value].flat().forEach((name) => typeof name === "string" && this.#remember(name));
    this.tasks.next();
    this.#show();
    if (document.activeElement?.closest?.(".finder")) this.stage.focus();
    this.desk.announce(`${text}. ${count(this.desk.mine)} answered.`);
    this.#showLast();
  }

  #remember(name) {
    this.recent = [name, ...this.recent.filter((one) => one !== name)].slice(0, MOST_RECENT);
  }

  undo() {
    if (this.back > 1) return this.desk.announce("Undo takes back the last answer: go forward to it first.", true);
    const before = this.done.pop();
    if (!before) return this.desk.announce("There is nothing to undo.", true);
    this.desk.queue.add({ key: makeKey(), task: before.task.task, kind: "retract", value: null });
    this.desk.counted(-1);
    this.tasks.putBack(before.task);
    this.desk.queue.flush().then(() => this.tasks.fill()); // so that nobody else gets it meanwhile
    this.#show();
    if (this.kind === "multi-label" && before.kind === "answer") this.#setChosen(before.value);
    this.desk.announce(`Undone: ${before.text}.`, true);
    this.#showLast();
  }

  // Another tab of the same person has answered a task.
  drop(task) {
    if (this.tasks.held.some((one) => one.task === task)) {
      this.tasks.held = this.tasks.held.filter((one) => one.task !== task);
      this.#show();
    }
  }

  // Why.

  #showLast() {
    clearTimeout(this.whyTimer);
    const before = this.done.at(-1);
    if (!before) return this.last.replaceChildren();
    // The picture that was shown: one more request for each answer would hold up those for the next examples.
    const shown = { ...before.task, small: before.task.small && before.task.url };
    this.last.replaceChildren(
      make("h2", { text: "Last answer" }),
      make("div", { class: "recap" }, makeThumbnail(shown), make("strong", { text: before.text, dir: "auto" })),
    );
    this.whyTimer = setTimeout(async () => {
      const why = await this.tasks.why(before.task).catch(() => null);
      if (why && this.done.at(-1) === before) this.last.append(...describeWhy(why));
    }, WHY_MS);
  }

  async showWhy() {
    const task = this.tasks.current;
    if (!task) return;
    const why = await this.tasks.why(task).catch((error) => ({ error: error.message }));
    if (this.tasks.current?.task !== task.task) return;
    this.reason.replaceChildren(make("h2", { text: "Why this example" }), ...describeWhy(why));
  }

  // Keys.

  press(action) {
    if (action.startsWith("class:")) return this.kind === "pairs" ? undefined : this.#choose(action.slice(6));
    const { kind, decide } = this;
    const acts = {
      yes: () => kind === "pairs" && this.#answer("answer", 1),
      no: () => kind === "pairs" && this.#answer("answer", 0),
      finish: () => this.#finish(),
      find: () => this.finder?.focus(),
      skip: () => this.#answer("skip"),
      unsure: () => decide || this.#answer("unsure"),
      none: () => this.#answerNone(),
      broken: () => decide || this.#answer("broken"),
      undo: () => this.undo(),
      back: () => this.look(1),
      forward: () => this.look(-1),
      why: () => this.back || this.showWhy(),
      zoom: () => this.stage.classList.toggle("zoomed"),
      play: () => this.#play(),
    };
    acts[action]?.();
  }

  #play() {
    const sound = this.stage.querySelector("audio");
    if (sound) sound.paused ? sound.play().catch(() => {}) : sound.pause();
  }
}

function describeAnswer(kind, value) {
  if (kind !== "answer") return SAID[kind];
  if (value === 1 || value === 0) return value ? "yes" : "no";
  return [value].flat().join(", ") || "none of these";
}

// The reason for a pick, as a list.
function describeWhy(why) {
  if (why.error) return [make("p", { class: "muted", text: why.error })];
  const lines = [];
  if (why.guess) lines.push(["model's guess", `${why.guess}${why.probability === null ? "" : ` ${percent(why.probability)}`}`]);
  if (why.margin !== null) lines.push(["margin", why.margin.toFixed(3)]);
  if (why.cluster !== null) lines.push(["cluster", `${count(why.size)} alike, ${count(why.labeled)} labeled`]);
  lines.push(["picked by", why.model ? `${why.strategy}, ${why.model}` : why.strategy]);
  const list = make("dl", { class: "facts" }, lines.map(([name, text]) => [make("dt", { text: name }), make("dd", { text, dir: "auto" })]).flat());
  const near = why.neighbors.length
    ? [make("h3", { text: "Nearest labeled" }), make("ul", { class: "near" }, why.neighbors.map(makeNeighbor))]
    : [];
  return [list, ...near];
}

const makeNeighbor = (row) => make("li", {}, makeThumbnail(row), make("span", { text: row.label, dir: "auto" }));

customElements.define("desk-label", LabelScreen);
