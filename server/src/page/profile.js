// Shows one profile: why it needs somebody, who holds it, and its timeline.

import { ask, get, of, query } from "./api.js";
import { h, replace } from "./dom.js";
import { bytes, countdown, number, plural, time } from "./format.js";
import { attention, badge, commands, failure, figure, heading, news } from "./parts.js";
import { timeline } from "./timeline.js";
import { previewRollback } from "./rollback.js";

/** The next step for each reason. */
const ADVICE = {
  damaged: "Roll back to a snapshot that is whole, then check the store with a verify job.",
  held_back: "Runs still start with the older, current snapshot. Compare the two; make the capture current if it is right, or log in again and capture anew.",
  fallback: "A run began with an empty profile, and its end became current. Roll back to the last snapshot before it.",
  logged_out: "Log in again in a run of this profile, or roll back to a snapshot that has the login.",
  lapsing: "Start a run that logs in again before the cookie ends.",
  stale: "No run has stored anything for a while. If the profile is used, its captures fail: look at the events.",
  behind: "Somebody rolled back, or a pointer did not move. Runs start with the older snapshot until a newer one is made current.",
};

export async function profile({ home, rest, may, isCurrent }) {
  const [tenant, name] = rest;
  const own = `${tenant}/${name}`;
  const place = h("div");
  const load = async () => {
    const [list, log, lock, overview] = await Promise.all([
      everything(tenant, name),
      get(of(tenant, name, "/events?last=200")).catch(() => ({ events: [] })),
      get(of(tenant, name, "/leases")).catch(() => null),
      get(query("/v1/profiles", { tenant_id: tenant, search: own, limit: 500 })),
    ]);
    if (!isCurrent()) return;
    const row = overview.rows.find((row) => row.profile_id === name);
    replace(place, head(list, row, lock), reasons(row), timeline({ tenant, name, list, log, may, rollBack }), commands(
      `pstore list ${own}`, `pstore log ${own}`, `pstore lock show ${own}`));
  };

  const rollBack = (target, list) =>
    previewRollback({ tenant, name, target, list, may, done: async () => {
      news(`${target.sha256_prefix} is current now.`);
      await load();
    } });

  function head(list, row, lock) {
    const current = list.snapshots.find((snapshot) => snapshot.latest);
    const stored = list.snapshots.reduce((sum, snapshot) => sum + snapshot.stored_bytes, 0);
    return [
      h("div.figures",
        figure("current", current ? h("code", current.sha256_prefix) : "none"),
        figure("captured", current ? time(current.captured_at_ms) : "–"),
        figure(`of ${plural(list.snapshots.length, "snapshot")}`, bytes(stored)),
        figure("Chrome", String(list.chrome_major_version))),
      lockLine(lock, row),
    ];
  }

  function lockLine(lock, row) {
    if (!lock || lock.state === "free") return h("p.line", badge("Lock free", "good"), " The next run can start.");
    const end = row?.lock?.expires_at_ms ?? Date.now() + lock.remaining_ms;
    return h("p.line", badge(lock.state === "held" ? "Locked" : "Lock expired", lock.state === "held" ? "note" : "warn"), " ",
      h("strong", lock.holder_run_id), ` on ${lock.holder_host || "an unnamed host"} since `, time(lock.acquired_at_ms), ", ",
      countdown(end), `, renewed ${number(lock.renewal_count)} times. `,
      may("admin") ? h("button.small", { type: "button", onclick: () => takeAway(lock) }, "Take it away…") : null);
  }

  async function takeAway(lock) {
    const reason = window.prompt(`Take the lock of ${own} away from ${lock.holder_run_id}? Its run can no longer store anything. Say why:`);
    if (!reason) return;
    try {
      await ask("POST", of(tenant, name, "/force-unlock"), { reason, confirm: true });
      news("The lock is free.");
      await load();
    } catch (problem) {
      place.prepend(failure(problem));
    }
  }

  function reasons(row) {
    if (!row || row.attention.length === 0) return null;
    return h("section.callouts", { "aria-label": "Why it needs you" }, row.attention.map((reason) =>
      h(`div.callout.${reason.kind}`, h("div.callout-head", attention(reason.kind), reason.sha256_prefix ? h("code", reason.sha256_prefix) : null, time(reason.at_ms)),
        h("p", reason.detail), h("p.quiet", ADVICE[reason.kind] || ""))));
  }

  const crumbs = h("nav.crumbs", { "aria-label": "You are here" }, h("a", { href: "#/" }, "Profiles"), " / ",
    h("a", { href: query("#/", { search: `${tenant}/`, all: "1" }) }, tenant), " / ");
  replace(home, crumbs, heading(own, h("button", { type: "button", onclick: () => load().then(() => news("Up to date.")) }, "Refresh")), place);
  await load();
}

/** All pages of the list, up to some thousand snapshots. */
async function everything(tenant, name) {
  let page = await get(of(tenant, name, "?limit=1000"));
  const all = page;
  for (let turn = 0; page.next && turn < 4; turn += 1) {
    page = await get(of(tenant, name, query("", { limit: 1000, after: page.next })));
    all.snapshots.push(...page.snapshots);
  }
  return all;
}

