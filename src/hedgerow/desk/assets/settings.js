// The dialog of keys: shows them, changes them, switches them off.
import { make } from "./dom.js";
import { nameAction, nameKey } from "./keys.js";

const MOST_CLASSES = 60; // classes that are listed

export function openKeys(desk) {
  const dialog = make("dialog", { class: "keys", "aria-labelledby": "keys-title" });
  const close = () => {
    dialog.close();
    dialog.remove();
    desk.screen?.buildChoices?.();
  };
  const build = (message = "") => {
    const { keys } = desk;
    const listed = [...keys.classes.slice(0, MOST_CLASSES).map((name) => `class:${name}`), ...keys.actions];
    dialog.replaceChildren(
      make("h2", { id: "keys-title", text: "Keys" }),
      make("label", { class: "switch" },
        make("input", { type: "checkbox", checked: keys.on, on: { change: (event) => (keys.switch(event.target.checked), build()) } }),
        " One key labels and moves on"),
      make("p", { class: "message", role: "status", text: message }),
      make("ul", {}, listed.map((action) => makeRow(desk, action, build))),
      make("p", { class: "muted", text: "g and then a letter goes to a screen. Esc leaves a search." }),
      make("div", { class: "buttons" },
        make("button", { type: "button", text: "As they were", on: { click: () => (keys.reset(), build("The keys are as they were.")) } }),
        make("button", { type: "button", class: "primary", text: "Close", on: { click: close } })),
    );
  };
  dialog.addEventListener("cancel", (event) => (event.preventDefault(), close()));
  build();
  document.body.append(dialog);
  dialog.showModal();
}

function makeRow(desk, action, build) {
  const key = desk.keys.find(action);
  const button = make("button", {
    type: "button", class: "key", text: key ? nameKey(key) : "none",
    "aria-label": `${nameAction(action)}: ${key ? nameKey(key) : "no key"}. Change`,
    on: { click: () => listen(desk, action, button, build) },
  });
  return make("li", {}, make("span", { text: nameAction(action), dir: "auto" }), button);
}

// The next key that is pressed becomes that of the action.
function listen(desk, action, button, build) {
  button.textContent = "press a key";
  const press = (event) => {
    if (["Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
    event.preventDefault();
    event.stopPropagation();
    button.removeEventListener("keydown", press);
    build(event.key === "Escape" ? "" : (desk.keys.change(action, event.key) ?? "Changed."));
  };
  button.addEventListener("keydown", press);
}
