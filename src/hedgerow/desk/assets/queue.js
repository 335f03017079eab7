// Answers that are on their way. Each is kept in IndexedDB until the server has confirmed it: a lost network or a closed
// tab loses nothing, and because each has a key, sending one twice changes nothing.
import { post, Failure } from "./api.js";

const MOST = 50; // answers in one request
const PAUSES = [1000, 2000, 4000, 8000, 15000]; // after requests that failed, in milliseconds

// The answers of one person in one campaign, in the order in which they were given.
export class Queue extends EventTarget {
  #name;
  #database = null;
  #waiting = []; // the same answers in memory
  #next = 0;
  #sending = null;
  #failures = 0;
  #timer = null;
  #trouble = null; // offline or signed out
  refused = [];

  constructor(campaign, person) {
    super();
    this.#name = `hedgerow:${campaign}:${person}`;
  }

  get length() {
    return this.#waiting.length;
  }

  // saved, sending, offline or signed out
  get state() {
    return this.#waiting.length ? (this.#trouble ?? "sending") : "saved";
  }

  // The tasks that were answered here and whose answers are still on their way.
  get tasks() {
    return new Set(this.#waiting.map((one) => one.task));
  }

  async open() {
    this.#database = await openDatabase(this.#name).catch(() => null); // without one, memory must do
    if (this.#database) {
      this.#waiting = await read(this.#database, "answers");
      this.refused = await read(this.#database, "refused");
    }
    this.#next = this.#waiting.reduce((highest, one) => Math.max(highest, one.place), -1) + 1;
    addEventListener("online", () => this.#retry());
    this.#tell();
    return this.flush();
  }

  // Keeps an answer and sends it soon. Nobody waits for it.
  add(answer) {
    const kept = { ...answer, place: this.#next++ };
    this.#waiting.push(kept);
    write(this.#database, "answers", (store) => store.put(kept));
    this.#tell();
    if (!this.#trouble) this.#plan(100);
  }

  // Sends what there is; true if all of it has arrived.
  async flush() {
    clearTimeout(this.#timer);
    this.#timer = null;
    while (this.#waiting.length) {
      this.#sending ??= this.#send().finally(() => (this.#sending = null));
      if (!(await this.#sending)) return false;
    }
    return true;
  }

  // Sends what there is while the page is being closed. The answers stay here until they are confirmed.
  flushLast() {
    if (this.#waiting.length) {
      post("answer", { answers: this.#waiting.slice(0, MOST).map(strip) }, { last: true }).catch(() => {});
    }
  }

  // Forgets the answers that the server refused.
  forgetRefused() {
    this.refused = [];
    write(this.#database, "refused", (store) => store.clear());
    this.#tell();
  }

  async #send() {
    const some = this.#waiting.slice(0, MOST);
    try {
      const { results } = await post("answer", { answers: some.map(strip) });
      this.#settle(some, results);
      this.#failures = 0;
      this.#tell(null);
      return true;
    } catch (error) {
      if (error instanceof Failure && error.status === 400) {
        this.#settle(some.slice(0, 1), [{ key: some[0].key, refused: error.message }]);
        this.#tell(null);
        return true;
      }
      this.#tell(error.status === 401 ? "signed out" : "offline");
      this.#plan(PAUSES[Math.min(this.#failures++, PAUSES.length - 1)]);
      return false;
    }
  }

  #settle(sent, results) {
    const refused = new Map(results.filter((one) => one.refused).map((one) => [one.key, one.refused]));
    const done = new Set(results.map((one) => one.key));
    this.#waiting = this.#waiting.filter((one) => !done.has(one.key));
    for (const one of sent.filter((each) => done.has(each.key))) {
      const kept = refused.has(one.key) ? { ...one, reason: refused.get(one.key) } : null;
      if (kept) this.refused.push(kept);
      if (kept) write(this.#database, "refused", (store) => store.put(kept));
      write(this.#database, "answers", (store) => store.delete(one.key));
    }
  }

  #retry() {
    this.#failures = 0;
    this.#plan(0);
  }

  #plan(pause) {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.flush(), pause);
  }

  #tell(trouble = this.#trouble) {
    this.#trouble = trouble;
    this.dispatchEvent(new Event("change"));
  }
}

const strip = ({ place, ...answer }) => answer;

function openDatabase(name) {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(name, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore("answers", { keyPath: "key" });
      request.result.createObjectStore("refused", { keyPath: "key" });
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("blocked"));
  });
}

function read(database, name) {
  return new Promise((resolve, reject) => {
    const request = database.transaction(name).objectStore(name).getAll();
    request.onsuccess = () => resolve(request.result.sort((one, other) => one.place - other.place));
    request.onerror = () => reject(request.error);
  });
}

function write(database, name, change) {
  if (database) change(database.transaction(name, "readwrite", { durability: "strict" }).objectStore(name));
}
