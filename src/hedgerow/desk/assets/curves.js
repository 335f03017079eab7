// CURVES: is it going well? Every model on the holdout, labels per class, coverage, budget, advice.
import { get } from "./api.js";
import { drawCurve } from "./chart.js";
import { make, count, percent } from "./dom.js";
import { fill, makeBars, makeFigure, makeNextRound, makePanel, makeTable } from "./parts.js";

const MOST_CLASSES = 30;

class CurvesScreen extends HTMLElement {
  start(desk) {
    this.desk = desk;
    return fill(this, get("curves"), (found) => this.#build(found));
  }

  #build({ curve, advice, classes, budget, coverage }) {
    const known = curve.filter((one) => one.value !== null);
    const last = known.at(-1);
    const labels = classes.reduce((sum, one) => sum + one.labels, 0);
    const figures = [
      last && makeFigure(percent(last.value, 1), `${last.metric} on the holdout (${percent(last.low)} to ${percent(last.high)})`),
      makeFigure(count(labels), "labels"),
      coverage && makeFigure(`${count(coverage.labeled)} of ${count(coverage.clusters)}`, "clusters with a label"),
      makeFigure(budget.limit === null ? count(budget.answers) : `${count(Math.round(budget.spent))} of ${count(budget.limit)}`, budget.limit === null ? "answers given" : `${budget.unit} spent`),
    ].filter(Boolean);
    return [make("div", { class: "page" }, make("h1", { text: "Curves" }), make("div", { class: "figures" }, figures),
      this.#makeCurve(known, curve), advice && this.#makeAdvice(advice),
      this.desk.me.role === "own" && makePanel("Next round", makeNextRound(this.desk, () => this.start(this.desk))),
      makePanel("Labels per class", makeBars(classes.slice(0, MOST_CLASSES).map((one) => [one.name, one.labels])),
        classes.length > MOST_CLASSES && make("p", { class: "muted", text: `The ${MOST_CLASSES} of ${count(classes.length)} classes with the most labels.` })))];
  }

  #makeCurve(known, curve) {
    if (!known.length) {
      const text = curve.length ? "The holdout has no labels to compare the models with yet." : "No model was trained yet. The first one comes with the next round.";
      return makePanel("On the holdout", make("p", { class: "muted", text }));
    }
    const points = known.map((one) => ({ x: one.labels, y: one.value, low: one.low, high: one.high, title: `${one.model}: ${percent(one.value, 1)}` }));
    return makePanel(`${known[0].metric} on the holdout, with 95 % intervals`, drawCurve(points, { x: "labels to train on", y: known[0].metric }),
      makeTable([["model", (one) => one.model], ["labels", (one) => count(one.labels), "number"], [known[0].metric, (one) => percent(one.value, 1), "number"],
        ["interval", (one) => `${percent(one.low, 1)} to ${percent(one.high, 1)}`, "number"], ["measured on", (one) => count(one.n), "number"]], known.toReversed(), "Models on the holdout"));
  }

  #makeAdvice(advice) {
    return makePanel("Stop?", make("p", {}, make("strong", { text: `${advice.verdict[0].toUpperCase()}${advice.verdict.slice(1)}. ` }), advice.reason),
      make("details", {}, make("summary", { text: "What each rule says" }),
        makeTable([["rule", (one) => one.rule], ["says", (one) => one.verdict], ["because", (one) => one.reason]], advice.rules, "Rules of stopping")));
  }
}

customElements.define("desk-curves", CurvesScreen);
