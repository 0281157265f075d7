// Shows what has happened to a profile, the newest first: snapshots and events on one line.

import { h, replace } from "./dom.js";
import { bytes, plural, time } from "./format.js";
import { share } from "./chart.js";
import { badge, empty } from "./parts.js";

/** How many entries are shown before somebody asks for more. */
const SHOWN = 60;

const WORDS = {
  flip: "The pointer moved",
  rollback: "Rolled back",
  import: "An archive became current",
  adopt: "An archive of another program was taken in",
  held_back: "A capture was held back",
  delete: "A snapshot was deleted",
  lock_evicted: "An expired lock was taken away",
  force_unlock: "The lock was taken away",
  lock_lost: "A run lost its lock",
  lock_regained: "A run took its lock again",
  foreign_flip: "Another program moved the pointer",
  foreign_fork: "Another program moved the pointer from elsewhere",
  request: "A server was asked for a change",
  job: "A job ended",
};
const TONES = { rollback: "warn", held_back: "bad", lock_evicted: "warn", force_unlock: "warn", lock_lost: "bad", foreign_fork: "warn", delete: "warn" };

export const eventWord = (kind) => WORDS[kind] || kind.replaceAll("_", " ");
export const eventTone = (kind) => TONES[kind] || "note";

export function timeline({ tenant, name, list, log, may, rollBack }) {
  const chosen = { from: null, to: null };
  const entries = [
    ...list.snapshots.map((snapshot) => ({ at: snapshot.captured_at_ms, snapshot })),
    ...log.events.map((event) => ({ at: event.at_ms, event })),
  ].sort((a, b) => b.at - a.at);
  if (entries.length === 0) return empty("Nothing has happened yet. Capture it:", `pstore snapshot ./profile ${tenant}/${name}`);
  const bar = h("div.compare-bar", { "aria-live": "polite" });
  const items = h("ol.timeline");

  function choose(side, sha) {
    chosen[side] = sha;
    const { from, to } = chosen;
    if (!from || !to || from === to) return replace(bar, from || to ? h("span.quiet", "Choose another snapshot to compare it with.") : null);
    replace(bar, h("a.button.primary", { href: `#/compare/${[tenant, name, from, to].map(encodeURIComponent).join("/")}` }, `Compare ${from} with ${to}`));
  }

  function show(count) {
    replace(items, entries.slice(0, count).map((entry) => (entry.snapshot ? ofSnapshot(entry.snapshot) : ofEvent(entry.event))),
      entries.length > count ? h("li.more", h("button", { type: "button", onclick: () => show(count + 200) }, `Show ${plural(Math.min(200, entries.length - count), "older entry", "older entries")}`)) : null);
  }

  function ofSnapshot(snapshot) {
    const sha = snapshot.sha256_prefix;
    const shared = Math.max(0, snapshot.uncompressed_size_bytes - (snapshot.new_bytes ?? snapshot.uncompressed_size_bytes));
    const pick = (side, word) => may("run") && !snapshot.foreign ? h("label.pick",
      h("input", { type: "radio", name: `compare-${side}`, value: sha, onchange: () => choose(side, sha) }), h("span", word, h("span.unseen", ` ${sha}`))) : null;
    const current = list.snapshots.find((other) => other.latest);
    return h(`li.entry.snapshot${snapshot.latest ? ".current" : ""}${snapshot.held_back ? ".held" : ""}${snapshot.damaged ? ".damaged" : ""}`,
      h("div.entry-head",
        h("code.sha", sha),
        snapshot.latest ? badge("current", "good") : null,
        snapshot.held_back ? badge("held back", "bad") : null,
        snapshot.damaged ? badge("damaged", "bad") : null,
        snapshot.missing.length ? badge("logged out", "bad") : null,
        !snapshot.complete ? badge("incomplete", "warn") : null,
        snapshot.mode !== "cold" ? badge(snapshot.mode, "warn") : null,
        snapshot.foreign ? badge("of another program") : null,
        snapshot.published ? badge("archive") : null,
        snapshot.tags.map((tag) => badge(tag, "tag")),
        time(snapshot.captured_at_ms)),
      snapshot.held_back || snapshot.missing.length ? h("p.why", [snapshot.held_back, ...snapshot.missing.map((it) => `${it.kind} ${it.name}: ${it.why}`)].filter(Boolean).join(": ")) : null,
      snapshot.notes ? h("p.quiet", snapshot.notes) : null,
      h("div.entry-facts",
        h("span", bytes(snapshot.uncompressed_size_bytes), snapshot.files !== null ? ` in ${plural(snapshot.files, "file")}` : ""),
        snapshot.new_bytes !== null ? h("span.meter", share(snapshot.new_bytes, snapshot.uncompressed_size_bytes), `${bytes(snapshot.new_bytes)} new, ${bytes(shared)} shared`) : null,
        h("span.quiet", `${bytes(snapshot.stored_bytes)} stored`),
        snapshot.reason ? h("span.quiet", snapshot.reason.replaceAll("_", " ")) : null),
      h("div.entry-tools", pick("from", "from"), pick("to", "to"),
        current && !snapshot.latest && may("run") ? h("a.button.small", { href: `#/compare/${[tenant, name, current.sha256_prefix, sha].map(encodeURIComponent).join("/")}` }, "Compare with current") : null,
        !snapshot.latest && may("operate") ? h("button.small", { type: "button", onclick: () => rollBack(snapshot, list) }, "Make", h("span.unseen", ` ${sha}`), " current…") : null));
  }

  function ofEvent(event) {
    const by = event.by.run_id ? ` by ${event.by.run_id}${event.by.host ? ` on ${event.by.host}` : ""}` : "";
    return h(`li.entry.event.${eventTone(event.kind)}`,
      h("div.entry-head", h("span", eventWord(event.kind)),
        event.to_sha256_prefix ? [event.from_sha256_prefix ? [h("code", event.from_sha256_prefix), " → "] : "to ", h("code", event.to_sha256_prefix)] : null,
        event.holder_run_id ? h("span.quiet", `held by ${event.holder_run_id}`) : null,
        h("span.quiet", by), time(event.at_ms)),
      event.reason ? h("p.why", event.reason) : null);
  }

  show(SHOWN);
  return h("section", { "aria-label": "Timeline" }, h("h2", "Timeline"), bar, items);
}
