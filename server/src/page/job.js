// Shows one job while it runs: how far it is, what it says, and how it ended.

import { ask, get } from "./api.js";
import { h, replace, update } from "./dom.js";
import { bytes, exact, number, span, time } from "./format.js";
import { badge, commands, failure, heading, table } from "./parts.js";
import { STATES } from "./jobs.js";

const AGAIN = 700;

export async function job({ home, rest, isCurrent, refused }) {
  const [id] = rest;
  const [state, progress, log, outcome, told] = [h("div"), h("div"), h("pre.log", { tabindex: "0", "aria-label": "Log", role: "log" }), h("div"), h("div")];
  const ender = h("button", { type: "button", onclick: cancel }, "Cancel");
  let timer = null;
  let heard = 0;
  async function look() {
    clearTimeout(timer);
    const found = await get(`/v1/jobs/${encodeURIComponent(id)}`);
    if (!isCurrent()) return null;
    const isRunning = found.state === "running";
    update(state, [found.state, found.failure], () => [h("p.line", badge(found.state, STATES[found.state]), found.dry_run ? [" ", badge("dry run")] : null, ` for ${found.tenant_id || "all tenants"}, begun `, time(found.begun_at_ms),
      found.ended_at_ms ? `, took ${span(found.ended_at_ms - found.begun_at_ms)}` : "", ` on ${found.server.split("/")[0]}`),
    found.failure ? failure(found.failure) : null]);
    // The button stays the same, so that nobody clicks on one that is just being replaced.
    ender.hidden = !isRunning;
    ender.disabled = found.cancel;
    replace(progress, bar(found, isRunning));
    if (found.log.length !== heard) {
      heard = found.log.length;
      log.textContent = found.log.map((line) => `${exact(line.at_ms).slice(11, 19)}  ${line.level === "warning" ? "warning: " : ""}${line.text}`).join("\n");
      log.scrollTop = log.scrollHeight;
    }
    if (heard === 0) log.textContent = isRunning ? "It has said nothing yet." : "It has said nothing, or another server did it.";
    update(outcome, found.outcome, () => (found.outcome ? result(found) : null));
    if (isRunning) timer = setTimeout(() => look().catch(refused), AGAIN);
    return found;
  }
  async function cancel() {
    try {
      await ask("DELETE", `/v1/jobs/${encodeURIComponent(id)}`);
      await look();
    } catch (problem) {
      replace(told, failure(problem));
    }
  }
  const found = await look();
  if (!found) return null;
  replace(home, h("nav.crumbs", { "aria-label": "You are here" }, h("a", { href: "#/jobs" }, "Jobs"), " / "), heading(`${found.kind} ${found.tenant_id || "of all tenants"}`, ender),
    state, told, progress, h("section", h("h2", "Log"), log), outcome, commands(line(found)));
  log.scrollTop = log.scrollHeight;
  return () => clearTimeout(timer);
}

function line(found) {
  const verb = found.kind === "retention" ? (found.dry_run ? "retention plan" : "retention apply") : found.kind;
  const flag = found.dry_run && ["gc", "reap"].includes(found.kind) ? "--dry-run" : "";
  return ["pstore", verb, found.tenant_id, flag].filter(Boolean).join(" ");
}

function bar({ progress, state }, isRunning) {
  if (!isRunning) return null;
  const done = progress ? (progress.bytes > 0 ? progress.bytes_done / progress.bytes : progress.files > 0 ? progress.files_done / progress.files : null) : null;
  const parts = progress ? [
    progress.files > 0 ? `${number(progress.files_done)} of ${number(progress.files)}` : "",
    progress.bytes > 0 ? `${bytes(progress.bytes_done)} of ${bytes(progress.bytes)}` : "",
  ].filter(Boolean) : [];
  const words = progress ? `${progress.stage} ${parts.join(", ")}` : state;
  return h("div.progress", h("progress", done === null ? { "aria-label": "Progress" } : { value: Math.min(1, done), max: "1", "aria-label": "Progress" }), h("span", words));
}

/** The outcome: a table where one is known, else the document. */
function result(found) {
  const document = h("details", h("summary", "The whole document"), h("pre.log", { tabindex: "0" }, JSON.stringify(found.outcome, null, 2)));
  return h("section", h("h2", found.dry_run ? "What it would do" : "What it did"), found.kind === "gc" ? freed(found.outcome) : null, document);
}

/** What a collection frees, tenant by tenant. */
export function freed(outcome) {
  const rows = (outcome.tenants || []).filter((tenant) => freeable(tenant) > 0).map((tenant) => [tenant.tenant_id, bytes(freeable(tenant)), bytes(tenant.live_bytes)]);
  return rows.length ? table("What a collection frees", ["Tenant", "Freed", "Needed"], rows) : null;
}

/** The bytes that a collection of one tenant frees now, or later once those who may need them are gone. */
export function freeable(tenant) {
  return tenant.deleted.bytes + tenant.waiting.bytes + tenant.condemned.bytes + tenant.repacked.saved_bytes;
}
