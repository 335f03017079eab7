// PEOPLE: how much everybody said, how far they agree, how often they are right on gold questions; disputes.
import { get } from "./api.js";
import { make, count, percent } from "./dom.js";
import { fill, makeFigure, makePanel, makeTable } from "./parts.js";

const show = (figure, digits = 2) => (figure === null ? "–" : figure.toFixed(digits));

class PeopleScreen extends HTMLElement {
  start(desk) {
    this.desk = desk;
    return fill(this, get("people"), (found) => this.#build(found));
  }

  #build({ people, agreement, kappas, confusion, disputed, threshold }) {
    const decide = make("button", { type: "button", class: "primary", text: `Decide ${count(disputed)} disputed`, on: { click: () => this.desk.go("label/decide") } });
    return [make("div", { class: "page" }, make("h1", { text: "People" }),
      make("div", { class: "figures" },
        makeFigure(count(people.reduce((sum, one) => sum + one.answers, 0)), "answers"),
        makeFigure(show(agreement.alpha), "Krippendorff’s alpha"), makeFigure(show(agreement.ac1), "Gwet’s AC1"),
        makeFigure(count(agreement.units), "answered by several"), makeFigure(count(disputed), "disputed")),
      disputed > 0 && makePanel("Disputed", make("p", { text: "People disagree, and no answer has a majority. Whoever decides sees neither names nor answers, and has not answered themselves." }), decide),
      makePanel("Everybody", people.length ? this.#makePeople(people, threshold) : make("p", { class: "muted", text: "Nobody has answered yet." })),
      kappas.length > 0 && makePanel("Every two people", makeTable([["first", (one) => one.first], ["second", (one) => one.second], ["kappa", (one) => show(one.kappa), "number"], ["in common", (one) => count(one.units), "number"]], kappas, "Agreement of every two people")),
      confusion.length > 0 && makePanel("Taken for each other", makeTable([["one", (one) => one.first], ["other", (one) => one.second], ["times", (one) => count(one.count), "number"], ["share", (one) => percent(one.share, 1), "number"]], confusion, "Classes taken for each other")))];
  }

  #makePeople(people, threshold) {
    const gold = (one) => (one.gold ? `${one.gold.right} of ${one.gold.asked} (${percent(one.gold.low)} to ${percent(one.gold.high)})` : "–");
    const name = (one) => (one.flagged ? make("span", { class: "flag", text: `${one.name} ⚑`, title: `surely below ${percent(threshold)} on gold questions` }) : one.name);
    return makeTable([["name", name], ["answers", (one) => count(one.answers), "number"], ["seconds", (one) => show(one.seconds, 1), "number"],
      ["agreement", (one) => show(one.agreement), "number"], ["gold", gold, "number"], ["unsure", (one) => count(one.unsure), "number"], ["skips", (one) => count(one.skips), "number"],
      ["broken", (one) => count(one.broken), "number"], ["decided", (one) => count(one.decided), "number"], ["at hand", (one) => count(one.leases), "number"]], people, "Everybody");
  }
}

customElements.define("desk-people", PeopleScreen);
