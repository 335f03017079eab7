// Calls to the server. Addresses are relative, so that the desk works under any path of a proxy.

export class Failure extends Error {
  // status: of the response; 0 if there was none, so that the call may be tried again.
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function call(path, options) {
  let response;
  try {
    response = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch {
    throw new Failure(0, "the desk cannot be reached");
  }
  const found = await response.json().catch(() => null);
  if (!response.ok || found === null) throw new Failure(response.status, found?.error ?? "the desk failed");
  return found;
}

export const get = (path, fields = {}) => {
  const query = new URLSearchParams(fields).toString();
  return call(query ? `${path}?${query}` : path, {});
};

// last: the page is being closed, and the request must outlive it.
export const post = (path, body, { last = false } = {}) =>
  call(path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    keepalive: last,
  });
