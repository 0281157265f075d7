// Shows events as they happen.

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { time } from "./format.js";
import { badge, commands, empty, heading } from "./parts.js";
import { eventTone, eventWord } from "./timeline.js";

/** The kinds that a stream names; a kind that a later pstore knows comes as `other`. */
const KINDS = ["flip", "rollback", "import", "adopt", "held_back", "delete", "lock_evicted", "force_unlock", "lock_lost", "lock_regained", "foreign_flip", "foreign_fork", "request", "job", "other"];
const MOST = 500;

export async function events({ home, isCurrent }) {
  const list = h("ol.timeline.feed", { "aria-label": "Events, the newest first" });
  const state = h("span");
  const known = new Set();
  const nothing = empty("Nothing has happened yet. Each capture, rollback and lost lock appears here by itself.", "pstore snapshot ./profile acme/alice");
  const add = (event, isNew) => {
    if (known.has(event.event_id)) return;
    known.add(event.event_id);
    nothing.remove();
    list.prepend(item(event, isNew));
    while (list.children.length > MOST) list.lastChild.remove();
  };
  replace(home, heading("Events", state), nothing, list, commands("pstore log acme/alice"));
  let page = { has_more: true, next: null };
  // The last page is what is shown first. A long log is passed through quickly.
  for (let turn = 0; page.has_more && turn < 20; turn += 1) {
    page = await get(`/v1/events?limit=1000${page.next ? `&after=${page.next}` : ""}`);
    page.events.slice(-MOST).forEach((event) => add(event, false));
  }
  if (!isCurrent()) return null;
  const source = new EventSource(`/v1/events${page.next ? `?after=${page.next}` : ""}`);
  const say = (word, tone) => replace(state, badge(word, tone));
  say("connecting", "note");
  source.addEventListener("open", () => say("live", "good"));
  source.addEventListener("error", () => say("connecting again", "warn"));
  for (const kind of KINDS) source.addEventListener(kind, (message) => add(JSON.parse(message.data), true));
  return () => source.close();
}

function item(event, isNew) {
  const { tenant_id: tenant, profile_id: name } = event;
  const whose = name ? h("a.name", { href: `#/profile/${encodeURIComponent(tenant)}/${encodeURIComponent(name)}` }, h("span.quiet", `${tenant}/`), name) : h("span", tenant || "the store");
  return h(`li.entry.event.${eventTone(event.kind)}${isNew ? ".new" : ""}`,
    h("div.entry-head", whose, h("span", eventWord(event.kind)),
      event.to_sha256_prefix ? h("code", event.to_sha256_prefix) : null,
      event.request ? h("span.quiet", `${event.request.method} ${event.request.path} → ${event.request.status}`) : null,
      event.job_id ? h("a", { href: `#/job/${event.job_id}` }, "the job") : null,
      h("span.quiet", `by ${event.by.run_id || "nobody"}`), time(event.at_ms)),
    event.reason ? h("p.why", event.reason) : null);
}
