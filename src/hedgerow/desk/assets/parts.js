// Parts that several screens share: tables, figures, notices, and the buttons that begin the next round.
import { make, count } from "./dom.js";
import { post } from "./api.js";

// columns: [title, value of a row, "number" for figures]; a value may be an element.
export function makeTable(columns, rows, label) {
  const cell = (value, kind) => make("td", { class: kind ?? null, dir: kind ? null : "auto" }, value instanceof Node ? value : String(value ?? "–"));
  return make(
    "div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    make("table", {},
      make("thead", {}, make("tr", {}, columns.map(([title, , kind]) => make("th", { scope: "col", class: kind ?? null, text: title })))),
      make("tbody", {}, rows.map((row) => make("tr", {}, columns.map(([, value, kind]) => cell(value(row), kind)))))),
  );
}

export const makeFigure = (value, name) => make("div", { class: "figure" }, make("strong", { text: value }), make("span", { text: name }));

export const makePanel = (title, ...children) => make("section", { class: "panel" }, make("h2", { text: title }), ...children);

// A bar for each [name, figure].
export function makeBars(entries) {
  const most = Math.max(1, ...entries.map(([, figure]) => figure));
  return make("ul", { class: "bars" }, entries.map(([name, figure]) =>
    make("li", {}, make("span", { class: "name", text: name, dir: "auto" }), make("meter", { min: 0, max: most, value: figure, "aria-label": `${name}: ${figure}` }), make("span", { class: "number", text: count(figure) }))));
}

// Fills a screen once its call is answered, or says why it is not.
export async function fill(screen, call, build) {
  if (!screen.childElementCount) screen.replaceChildren(make("p", { class: "muted page", text: "Reading …" }));
  try {
    screen.replaceChildren(...build(await call));
  } catch (error) {
    screen.replaceChildren(make("p", { class: "unfit page", text: error.message }));
  }
}

// For owners: train a model, choose the next batch, and go on.
export function makeNextRound(desk, done) {
  const size = make("input", { type: "number", min: 1, value: 100, "aria-label": "Examples in the next batch" });
  const said = make("p", { class: "muted", role: "status" });
  const button = make("button", { type: "button", class: "primary", text: "Train and choose" });
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      said.textContent = "Training on the labels so far …";
      const learned = await post("learn", {});
      said.textContent = `${learned.said} Choosing …`;
      const { batch } = await post("choose", { k: Number(size.value) });
      said.textContent = `${learned.said} Batch ${batch} is open.`;
      desk.recount();
      done?.();
    } catch (error) {
      said.textContent = error.message;
    }
    button.disabled = false;
  });
  return make("div", { class: "next" }, make("p", { text: "Train a model on the labels so far, and let it choose what to ask next." }),
    make("div", { class: "buttons" }, size, button), said);
}
