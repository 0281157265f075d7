// Shows mounts of the server's host, and the sessions of all hosts that keep snapshots.

import { get } from "./api.js";
import { h, replace, update } from "./dom.js";
import { bytes, countdown, time } from "./format.js";
import { badge, commands, empty, failure, heading, table } from "./parts.js";

const AGAIN = 5000;

export async function mounts({ home, isCurrent, refused }) {
  const [mounted, kept] = [h("div"), h("div")];
  let timer = null;
  async function look() {
    clearTimeout(timer);
    const [here, sessions] = await Promise.all([
      get("/v1/mounts").catch((problem) => { if (problem.status !== 404) throw problem; return null; }),
      get("/v1/sessions"),
    ]);
    if (!isCurrent()) return;
    update(mounted, here, () => ofHost(here));
    update(kept, sessions, () => ofAll(sessions.sessions));
    timer = setTimeout(() => look().catch((problem) => refused(problem) || replace(mounted, failure(problem))), AGAIN);
  }
  replace(home, heading("Mounts and sessions"),
    h("section", h("h2", "Mounts of the server’s host"), mounted),
    h("section", h("h2", "Sessions of all hosts"), h("p.quiet", "A session is what a mount writes to until it is committed. It keeps its snapshot from being collected."), kept),
    commands("pstore mounts", "pstore sessions", "pstore sessions --remote acme"));
  await look();
  return () => clearTimeout(timer);
}

function link(tenant, name) {
  return h("a.name", { href: `#/profile/${encodeURIComponent(tenant)}/${encodeURIComponent(name)}` }, h("span.quiet", `${tenant}/`), name);
}

function ofHost(here) {
  if (!here) return empty("This server makes no mounts. One that does is started with:", "pstore serve --tokens tokens.toml --mounts /srv/mounts");
  if (here.mounts.length === 0) return empty("Nothing is mounted here. Mount a profile:", "pstore mount acme/alice /chrome-data");
  return table("Mounts", ["Profile", "State", "Unsaved", "Fetched", "Mountpoint"], here.mounts.map((mount) => [
    mount.tenant_id ? link(mount.tenant_id, mount.profile_id) : h("code", mount.session),
    [badge(mount.mode || "unknown"), mount.lock_lost ? [" ", badge("lock lost", "bad")] : null, mount.fallback ? [" ", badge("fallback", "bad", mount.fallback)] : null, mount.problem ? [" ", badge("unreadable", "bad", mount.problem)] : null],
    mount.dirty_bytes === undefined ? "–" : bytes(mount.dirty_bytes),
    mount.fetched_bytes === undefined ? "–" : bytes(mount.fetched_bytes),
    h("code.path", mount.mountpoint || "–"),
  ]));
}

function ofAll(sessions) {
  if (sessions.length === 0) return empty("No host has a session open or left behind. On a host, this shows its own:", "pstore sessions");
  const now = Date.now();
  return table("Sessions", ["Profile", "Host", "Session", "Last seen", "Kept"], sessions.map((session) => [
    link(session.tenant_id, session.profile_id), session.host || "–", h("code", session.session),
    time(now - session.age_ms), countdown(now + session.expires_in_ms),
  ]));
}
