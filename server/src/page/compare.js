// Shows what differs between two snapshots of a profile.

import { get, of } from "./api.js";
import { h, replace } from "./dom.js";
import { bytes, number, plural, time } from "./format.js";
import { badge, commands, empty, figure, heading, news, table } from "./parts.js";
import { previewRollback } from "./rollback.js";

/** How many paths are shown. */
const SHOWN = 300;
const WORDS = { added: ["added", "good"], removed: ["removed", "bad"], content: ["changed", "warn"], metadata: ["metadata", "note"], type: ["other kind", "warn"] };

export async function compare({ home, rest, may }) {
  const [tenant, name, from, to] = rest;
  const own = `${tenant}/${name}`;
  const [diff, list] = await Promise.all([
    get(of(tenant, name, `/${encodeURIComponent(from)}/diff/${encodeURIComponent(to)}`)),
    get(of(tenant, name, "?limit=1000")),
  ]);
  const target = list.snapshots.find((snapshot) => snapshot.sha256_prefix === diff.after.sha256_prefix);
  const canMove = target && !target.latest && may("operate");
  const back = `#/profile/${encodeURIComponent(tenant)}/${encodeURIComponent(name)}`;
  replace(home,
    h("nav.crumbs", { "aria-label": "You are here" }, h("a", { href: "#/" }, "Profiles"), " / ", h("a", { href: back }, own), " / "),
    heading(`${diff.before.sha256_prefix} → ${diff.after.sha256_prefix}`,
      canMove ? h("button.primary", { type: "button", onclick: () => previewRollback({ tenant, name, target, list, may, done: () => { news(`${target.sha256_prefix} is current now.`); location.hash = back; } }) }, `Make ${target.sha256_prefix} current…`) : null),
    h("p.line", "captured ", time(diff.before.captured_at_ms), " and ", time(diff.after.captured_at_ms)),
    totals(diff), paths(diff.changes || []),
    commands(`pstore diff ${own}@${diff.before.sha256_prefix} ${diff.after.sha256_prefix}`));
}

/** The numbers of a difference. */
export function totals(diff) {
  return h("div.figures",
    figure("added", number(diff.added)), figure("removed", number(diff.removed)), figure("changed", number(diff.changed + diff.type_changed)),
    figure("same", number(diff.unchanged)), figure("new", bytes(diff.new_bytes)), figure("gone", bytes(diff.gone_bytes)));
}

/** The paths that differ. */
export function paths(changes, most = SHOWN) {
  if (changes.length === 0) return empty("Both are the same, path by path.");
  const rows = changes.slice(0, most).map((change) => {
    const [word, tone] = WORDS[change.change] || [change.change, "note"];
    return [badge(word, tone), h("code.path", change.path || "/"), bytes(change.size_before), bytes(change.size_after)];
  });
  return [table("Paths that differ", ["Change", "Path", "Before", "After"], rows),
    changes.length > most ? h("p.quiet", `and ${plural(changes.length - most, "more path")}`) : null];
}
