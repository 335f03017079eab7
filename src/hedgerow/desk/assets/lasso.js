// What a lasso on the map holds, shown by BATCH. The corners are in the address, so that it can be kept and sent.
import { post } from "./api.js";
import { make, count } from "./dom.js";
import { Grid } from "./grid.js";

export const readLasso = (corners, start = 0) => post("lasso", { corners, start });

export const addressLasso = (ring) => `batch/lasso/${ring.flat().join(",")}`;

export function showLasso(screen, desk, text = "") {
  const corners = text.split(",").map(Number);
  const said = make("span", { role: "status" });
  const reserve = make("button", { type: "button", text: "Ask about these", on: { click: () => ask(desk, corners, said, reserve) } });
  screen.replaceChildren(make("div", { class: "page" }, make("h1", { text: "From the map" }),
    make("div", { class: "bar" }, make("a", { href: "#map", text: "← Map" }), desk.me.kind === "pairs" ? null : reserve, said),
    make("p", { class: "muted", text: "The examples inside the lasso, labeled or not. A line on the left begins a new cluster." }),
    new Grid((start) => readLasso(corners, start)).element));
}

// A batch of those that have no label and do not wait for one.
async function ask(desk, corners, said, button) {
  button.disabled = true;
  try {
    const { batch } = await post("reserve", { corners });
    await desk.recount();
    const size = desk.batches?.find((one) => one.id === batch)?.size ?? 0;
    said.replaceChildren(`Batch ${batch} is open: ${count(size)} that nobody was asked about. `, make("a", { href: `#batch/${batch}`, text: "Show" }));
  } catch (error) {
    said.textContent = error.message;
    button.disabled = false;
  }
}
