// Asks the server. What the page does is done by the same routes that programs use.

let csrf = null;

/** A refusal of the server, with its kind and its hint. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || `the server answered ${status}`);
    this.status = status;
    this.kind = document.kind;
    this.hint = document.hint;
    this.holder = document.holder_run_id;
  }
}

/** What a change must be sent with. */
export function remember(login) {
  csrf = login.csrf_token;
}

/** Asks for a document. `body`: what is sent. */
export async function ask(method, path, body, headers = {}) {
  const sent = { ...headers };
  if (body !== undefined) sent["Content-Type"] = "application/json";
  if (method !== "GET" && csrf) sent["Pstore-Csrf"] = csrf;
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers: sent,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch {
    throw new Problem(0, { detail: "The server does not answer.", hint: "Check that `pstore serve` runs." });
  }
  const document = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Problem(answer.status, document);
  return document;
}

export const get = (path) => ask("GET", path);

/** The path of a profile's routes. */
export function of(tenant, profile, below = "") {
  return `/v1/profile-snapshots/${encodeURIComponent(tenant)}/${encodeURIComponent(profile)}${below}`;
}

/** A path with a query; what is empty is left out. */
export function query(path, fields) {
  const kept = Object.entries(fields).filter(([, value]) => value !== undefined && value !== null && value !== "" && value !== false);
  const text = new URLSearchParams(kept).toString();
  return text ? `${path}?${text}` : path;
}
