// The page behind a link: sends the token that stands after the #, and goes on to the desk.
import { post, Failure } from "./api.js";

const say = document.getElementById("say");
const token = location.hash.slice(1);
history.replaceState(null, "", location.pathname); // the token stays in no history

try {
  if (token) await post("enter", { token });
  location.replace("./");
} catch (error) {
  say.textContent =
    error instanceof Failure && error.status === 403
      ? "This link was used before, or is not valid any more. Run “hedgerow desk” again for a new one, or ask whoever gave it to you."
      : "The desk cannot be reached. Is it still running?";
}
