// BATCH: what a batch asks about, cluster by cluster in the order of the picks.
import { get } from "./api.js";
import { make, count } from "./dom.js";
import { Grid } from "./grid.js";
import { showLasso } from "./lasso.js";

const STATES = ["all", "open", "answered", "disputed", "settled", "void"];

class BatchScreen extends HTMLElement {
  async start(desk, number, corners) {
    this.desk = desk;
    if (number === "lasso") return showLasso(this, desk, corners);
    if (!desk.batches) await desk.recount();
    const batches = desk.batches ?? [];
    if (!batches.length) {
      this.replaceChildren(make("p", { class: "muted page", text: "No batch is open. CURVES can choose the next one." }));
      return;
    }
    this.number = Number(number) || batches.at(-1).id;
    const name = (one) => `${one.kind === "holdout" ? "holdout" : `batch ${one.id}`} · ${one.strategy} · ${count(one.size)}`;
    const pick = make("select", { "aria-label": "Batch", on: { change: () => desk.go(`batch/${pick.value}`) } },
      batches.map((one) => make("option", { value: one.id, text: name(one), selected: one.id === this.number })));
    this.fields = {}; // the filters that are on
    this.filters = make("div", { class: "filters", role: "group", "aria-label": "State" }, STATES.map((state) =>
      make("button", { type: "button", text: state, "aria-pressed": String(state === "all"), on: { click: () => this.#setState(state) } })));
    const mine = make("button", { type: "button", text: "mine", title: "Only what you have answered", "aria-pressed": "false", on: { click: () => this.#switchMine(mine) } });
    this.place = make("div");
    this.replaceChildren(make("div", { class: "page" }, make("h1", { text: "Batch" }), make("div", { class: "bar" }, pick, this.filters),
      make("div", { class: "bar" }, make("div", { class: "filters" }, mine), this.#makeClasses("label", "any label"), this.#makeClasses("guess", "any guess of the model")),
      make("p", { class: "muted", text: "A line on the left begins a new cluster; clusters and examples are in the order of the picks." }), this.place));
    this.#show({});
  }

  #makeClasses(name, any) {
    const select = make("select", { "aria-label": name === "label" ? "Label" : "Guess", on: { change: () => this.#show({ [name]: select.value }) } },
      make("option", { value: "", text: any }), this.desk.me.classes.map((one) => make("option", { value: one, text: `${name}: ${one}` })));
    return select;
  }

  #setState(state) {
    for (const button of this.filters.children) button.setAttribute("aria-pressed", String(button.textContent === state));
    this.#show({ state: state === "all" ? "" : state });
  }

  #switchMine(button) {
    const on = !this.fields.mine;
    button.setAttribute("aria-pressed", String(on));
    this.#show({ mine: on ? "true" : "" });
  }

  // Shows the batch again with some filters changed; an empty one is off.
  #show(changed) {
    this.fields = Object.fromEntries(Object.entries({ ...this.fields, ...changed }).filter(([, value]) => value));
    const { fields, number } = this;
    this.place.replaceChildren(new Grid((start) => get("batch", { number, start, ...fields })).element);
  }
}

customElements.define("desk-batch", BatchScreen);
