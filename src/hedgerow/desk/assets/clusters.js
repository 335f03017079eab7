// CLUSTERS: how large, how much labeled, how pure; open one; carry labels to the rest of pure ones.
import { get, post } from "./api.js";
import { make, count, percent } from "./dom.js";
import { Grid } from "./grid.js";
import { fill, makePanel, makeTable } from "./parts.js";

const ORDERS = { size: "largest", labeled: "most labels", purity: "least pure", margin: "least sure" };

class ClustersScreen extends HTMLElement {
  start(desk, cluster) {
    this.desk = desk;
    this.order ??= "size";
    if (cluster !== undefined && cluster !== "") return this.#open(Number(cluster));
    return fill(this, get("clusters", { order: this.order }), (found) => this.#build(found));
  }

  #open(cluster) {
    const back = make("button", { type: "button", text: "← All clusters", on: { click: () => this.desk.go("clusters") } });
    this.replaceChildren(make("div", { class: "page" }, make("h1", { text: `Cluster ${cluster}` }), make("div", { class: "bar" }, back),
      new Grid((start) => get("cluster", { cluster, start })).element));
  }

  #build({ total, clusters, spreads }) {
    const orders = make("div", { class: "filters", role: "group", "aria-label": "Order" }, Object.entries(ORDERS).map(([order, text]) =>
      make("button", { type: "button", text, "aria-pressed": String(order === this.order), on: { click: () => ((this.order = order), this.start(this.desk)) } })));
    const link = (one) => make("a", { href: `#clusters/${one.cluster}`, text: String(one.cluster) });
    const table = makeTable([["cluster", link], ["size", (one) => count(one.size), "number"], ["labeled", (one) => count(one.labeled), "number"],
      ["leading label", (one) => one.label ?? "–"], ["purity", (one) => percent(one.purity), "number"], ["mean margin", (one) => (one.margin === null ? "–" : one.margin.toFixed(3)), "number"]], clusters, "Clusters");
    return [make("div", { class: "page" }, make("h1", { text: "Clusters" }), this.#makeSpread(spreads),
      make("section", { class: "panel" }, make("div", { class: "bar" }, orders, make("span", { class: "muted", text: `${count(clusters.length)} of ${count(total)}` })), table))];
  }

  #makeSpread(runs) {
    const said = make("p", { role: "status" });
    const apply = make("button", { type: "button", class: "primary", text: "Label the rest", hidden: true });
    const risk = make("label", { hidden: true }, make("input", { type: "checkbox" }), " also if the holdout is too small to measure the error");
    const run = (trial) => post("spread", { trial, unmeasured: risk.querySelector("input").checked });
    const error = (one) => (one.holdout.checked ? `error on the holdout ${percent(one.holdout.wrong / one.holdout.checked, 1)} (${percent(one.holdout.low, 1)} to ${percent(one.holdout.high, 1)})` : "error not measured");
    const attempt = make("button", { type: "button", text: "What would be labeled?", on: { click: async () => {
      try {
        const found = await run(true);
        said.textContent = `${count(found.rows)} rows in ${count(found.clusters)} pure clusters; ${error(found)}.`;
        apply.hidden = risk.hidden = !found.rows;
      } catch (problem) {
        said.textContent = problem.message;
      }
    } } });
    apply.addEventListener("click", () => run(false).then(() => this.start(this.desk), (problem) => (said.textContent = problem.message)));
    const undo = (one) => one.state === "current" ? make("button", { type: "button", text: "Undo", on: { click: () => post("undo_spread", { run: one.run }).then(() => this.start(this.desk)) } }) : one.state;
    const table = runs.length ? makeTable([["run", (one) => one.run, "number"], ["labels", (one) => count(one.rows), "number"], ["clusters", (one) => count(one.clusters), "number"], ["error", error],
      ["contradicted later", (one) => `${count(one.later.wrong)} of ${count(one.later.checked)}`, "number"], ["", undo]], runs.toReversed(), "Labels carried over") : null;
    return makePanel("Label the rest of pure clusters", make("p", { text: "Where people labeled at least three rows of a cluster and 95 % of them agree, the rest of it can get the same label. Such labels are marked, are never trained on, and can be taken back." }),
      make("div", { class: "buttons start" }, attempt, apply, risk), said, table);
  }
}

customElements.define("desk-clusters", ClustersScreen);
