// What is shown of a row: an image, a sound, a text. All of it is made by code and none of it is read as HTML.
import { make } from "./dom.js";

// The element for a task; `ready` resolves once it can be shown without a blink. template: its parts, if there is one.
export function makeContent(task, template = null) {
  const element = make("div", { class: `content ${template ? "templated" : task.show}` });
  const filled = template ? fillTemplate(element, task, template) : fill(element, task);
  element.ready = filled.catch((error) => {
    element.replaceChildren(make("p", { class: "unfit", text: `Cannot be shown: ${error.message}` }), makeName(task));
  });
  return element;
}

// Elements are made one by one, and values are text.
async function fillTemplate(element, task, template) {
  if (!task.fields) throw new Error("the table that --fields names does not have this example");
  const inner = [];
  const build = (part) => {
    if (typeof part === "string") return part;
    if (part.field === "content") return inner[inner.push(makeContent(task)) - 1];
    if (part.field) return make("span", { class: "value", text: task.fields[part.field], dir: "auto" });
    return make(part.tag, part.attributes, part.children.map(build));
  };
  element.append(make("div", { class: "template", tabindex: "0", role: "region", "aria-label": `Example ${task.id}` }, template.map(build)));
  await Promise.all(inner.map((one) => one.ready));
}

function fill(element, task) {
  if (task.show === "text") return fillText(element, task);
  if (task.show === "image") return fillImage(element, task);
  if (task.show === "audio") return fillSound(element, task);
  return Promise.reject(new Error(task.show === "nothing" ? "this row has no content" : "this kind of file is not known"));
}

async function fillText(element, task) {
  if (task.text === undefined) task.text = await readText(task.url);
  const size = task.text.length < 60 ? "short" : task.text.length < 600 ? "medium" : "long";
  element.append(make("div", { class: `words ${size}`, text: task.text, dir: "auto", tabindex: size === "long" ? "0" : null }));
}

async function fillImage(element, task) {
  const image = make("img", { alt: `Example ${task.id}`, draggable: "false" });
  image.src = task.url;
  try {
    await image.decode();
  } catch {
    throw new Error(await explain(task.url, "the image cannot be read"));
  }
  if (Math.max(image.naturalWidth, image.naturalHeight) <= 200) image.classList.add("tiny");
  element.append(image);
}

async function fillSound(element, task) {
  const sound = make("audio", { controls: true, preload: "auto", "aria-label": `Example ${task.id}` });
  sound.src = task.url;
  sound.addEventListener("error", async () => {
    const reason = await explain(task.url, "the sound cannot be played");
    element.replaceChildren(make("p", { class: "unfit", text: `Cannot be shown: ${reason}` }), makeName(task));
  });
  element.append(makeName(task), sound);
}

async function readText(url) {
  const response = await fetch(url);
  if (response.ok) return response.text();
  throw new Error((await response.json().catch(() => null))?.error ?? "the text cannot be read");
}

// Why a file does not arrive, in the server's words.
async function explain(url, otherwise) {
  const response = await fetch(url).catch(() => null);
  if (!response || response.ok) return otherwise;
  return (await response.json().catch(() => null))?.error ?? otherwise;
}

const makeName = (task) => make("p", { class: "name", text: task.id });

// A small picture, or the beginning of the text, for lists and grids.
export function makeThumbnail(row) {
  if (row.small) return make("img", { class: "thumb", src: row.small, alt: "", loading: "lazy" });
  const text = row.fields ? Object.values(row.fields).join(" · ") : (row.text ?? row.id);
  return make("span", { class: "thumb words", text: text.slice(0, 140), dir: "auto" });
}
