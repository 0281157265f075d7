// Shows the locks, those that end first before the others.

import { get, query } from "./api.js";
import { h, replace, update } from "./dom.js";
import { countdown, number, time } from "./format.js";
import { badge, commands, empty, heading, pager, table } from "./parts.js";

const LIMIT = 100;
const AGAIN = 5000;

export async function locks({ home, isCurrent, refused }) {
  const list = h("div");
  const count = h("span.quiet");
  let timer = null;
  let skip = 0;
  async function look() {
    clearTimeout(timer);
    const page = await get(query("/v1/locks", { skip: skip || "", limit: LIMIT }));
    if (!isCurrent()) return;
    replace(count, `${number(page.total)} taken, as of `, time(page.as_of_ms));
    update(list, page, () => [page.locks.length === 0
      ? empty("No profile is locked: no run is under way. A run takes the lock by itself:", "pstore run acme/alice -- chromium --user-data-dir={profile}")
      : table("Locks", ["Profile", "Holder", "Time left", "Taken", "Renewed"], page.locks.map(row)),
    pager({ ...page, skip, limit: LIMIT }, (next) => { skip = next; look().catch(refused); })]);
    timer = setTimeout(() => look().catch(refused), AGAIN);
  }
  replace(home, heading("Locks", count), list, commands("pstore lock show acme/alice", "pstore reap --dry-run"));
  await look();
  return () => clearTimeout(timer);
}

function row(lock) {
  const { tenant_id: tenant, profile_id: name } = lock;
  return [
    [h("a.name", { href: `#/profile/${encodeURIComponent(tenant)}/${encodeURIComponent(name)}` }, h("span.quiet", `${tenant}/`), name), h("div.quiet.small", `Chrome ${lock.chrome_major_version}`)],
    [h("strong", lock.holder_run_id), h("div.quiet.small", [lock.holder_host, lock.holder_host_run_id].filter(Boolean).join(" · "))],
    lock.state === "held" ? countdown(lock.expires_at_ms) : [badge("expired", "warn"), " ", time(lock.expires_at_ms)],
    time(lock.acquired_at_ms),
    `${number(lock.renewal_count)} times`,
  ];
}
