// What a lasso on the map holds, shown by BATCH. The corners are in the address, so that it can be kept and sent.
import { post } from "./api.js";
import { make } from "./dom.js";
import { Grid } from "./grid.js";

export const readLasso = (corners, start = 0) => post("lasso", { corners, start });

export const addressLasso = (ring) => `batch/lasso/${ring.flat().join(",")}`;

export function showLasso(screen, text = "") {
  const corners = text.split(",").map(Number);
  screen.replaceChildren(make("div", { class: "page" }, make("h1", { text: "From the map" }),
    make("div", { class: "bar" }, make("a", { href: "#map", text: "← Map" })),
    make("p", { class: "muted", text: "The examples inside the lasso, labeled or not. A line on the left begins a new cluster." }),
    new Grid((start) => readLasso(corners, start)).element));
}
