// A grid of rows, a page at a time, for BATCH and CLUSTERS.
import { make, count } from "./dom.js";
import { makeThumbnail } from "./content.js";

// read: start -> {total, page, rows}.
export class Grid {
  constructor(read) {
    this.read = read;
    this.list = make("ul", { class: "grid" });
    this.more = make("button", { type: "button", text: "More", on: { click: () => this.#add() } });
    this.said = make("p", { class: "muted", role: "status" });
    this.element = make("div", {}, this.said, this.list, this.more);
    this.#add();
  }

  async #add() {
    const start = this.list.querySelectorAll(".tile").length;
    try {
      const { total, rows } = await this.read(start);
      for (const row of rows) this.#addRow(row);
      const shown = start + rows.length;
      this.said.textContent = total ? `${count(shown)} of ${count(total)}` : "Nothing here.";
      this.more.hidden = shown >= total;
    } catch (error) {
      this.said.textContent = error.message;
      this.more.hidden = true;
    }
  }

  #addRow(row) {
    const first = row.cluster !== null && row.cluster !== this.cluster;
    this.cluster = row.cluster;
    const label = row.label ?? (row.state === "open" ? "" : row.state);
    const text = [row.class, label].filter(Boolean).join(": ");
    this.list.append(make("li", { class: first ? "tile first" : "tile", "data-state": row.state ?? (row.label ? "settled" : "open"), title: row.id },
      makeThumbnail(row), make("span", { class: "tag", text: text || "–", dir: "auto" })));
  }
}
