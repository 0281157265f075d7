// Shows the profiles, those that need somebody first.

import { get, query } from "./api.js";
import { h, replace, update } from "./dom.js";
import { bytes, countdown, number, time } from "./format.js";
import { ATTENTION, attention, badge, commands, empty, failure, figure, heading, pager, table } from "./parts.js";

const LIMIT = 50;
/** How often the view looks again. */
const AGAIN = 5000;

export async function profiles({ home, who, params, isCurrent, refused }) {
  const asked = {
    kind: params.get("kind") || "",
    search: params.get("search") || "",
    skip: Number(params.get("skip") || 0),
    all: params.get("all") === "1",
  };
  const list = h("div.list");
  const figures = h("div.figures");
  const chips = h("div.chips", { role: "group", "aria-label": "Show" });
  const freshness = h("span.quiet");
  let timer = null;
  let typing = null;

  const go = (change) => {
    Object.assign(asked, change);
    const text = query("#/", { kind: asked.kind, search: asked.search, skip: asked.skip || "", all: asked.all ? "1" : "" });
    history.replaceState(null, "", text);
    return look().catch((problem) => refused(problem) || replace(list, failure(problem)));
  };

  async function look() {
    clearTimeout(timer);
    const page = await get(query("/v1/profiles", {
      kind: asked.kind,
      attention: !asked.all && !asked.kind && !asked.search ? "true" : "",
      search: asked.search,
      skip: asked.skip || "",
      limit: LIMIT,
    }));
    if (!isCurrent()) return;
    const needing = page.attention.any;
    update(figures, [needing, page.profiles, page.snapshots, page.stored_bytes], () => [
      figure(needing === 1 ? "needs you" : "need you", number(needing), needing ? "bad" : "good"),
      figure("profiles", number(page.profiles)),
      figure("snapshots", number(page.snapshots)),
      figure("stored", bytes(page.stored_bytes)),
    ]);
    update(chips, options(page), () => options(page).map(([word, count, change, isOn]) =>
      h("button.chip", { type: "button", "aria-pressed": String(isOn), onclick: () => go({ skip: 0, ...change }) }, word, " ", h("span.count", number(count)))));
    replace(freshness, page.complete ? ["as of ", time(page.as_of_ms)] : "reading the store for the first time…");
    update(list, page, () => [rows(page), pager({ ...page, skip: asked.skip, limit: LIMIT }, (skip) => go({ skip }))]);
    timer = setTimeout(() => look().catch(refused), page.complete ? AGAIN : 1000);
  }

  function options({ attention: tally, profiles }) {
    const kinds = Object.entries(ATTENTION)
      .filter(([kind]) => tally[kind] > 0 || asked.kind === kind)
      .map(([kind, [word]]) => [word, tally[kind], { kind, all: false }, asked.kind === kind]);
    return [
      ["Needs you", tally.any, { kind: "", all: false, search: "" }, !asked.kind && !asked.all && !asked.search],
      ...kinds,
      ["All", profiles, { kind: "", all: true }, !asked.kind && (asked.all || Boolean(asked.search))],
    ];
  }

  function rows(page) {
    if (page.rows.length === 0) return nothing(page, asked, who);
    return table("Profiles", ["Profile", "Why", "Current", "Newest capture", "Stored", "Lock"], page.rows.map(row));
  }

  const search = h("input", {
    type: "search", placeholder: "Find a profile", "aria-label": "Find a profile by tenant or name", value: asked.search,
    oninput: (event) => {
      clearTimeout(typing);
      typing = setTimeout(() => go({ search: event.target.value.trim(), skip: 0 }), 200);
    },
  });
  const tenant = who.tenants[0] === "*" ? "TENANT" : who.tenants[0];
  replace(home, heading("Profiles", freshness), figures, h("div.tools", chips, search), list,
    commands(`pstore list ${tenant}`, `pstore list ${tenant} --expiry`));
  await look();
  return () => clearTimeout(timer);
}

function row(profile) {
  const { tenant_id: tenant, profile_id: name, current, lock } = profile;
  const link = h("a.name", { href: `#/profile/${encodeURIComponent(tenant)}/${encodeURIComponent(name)}` }, h("span.quiet", `${tenant}/`), name);
  return [
    [link, h("div.quiet.small", `Chrome ${profile.chrome_major_version} · ${profile.snapshots} snapshots`)],
    profile.attention.length === 0 ? h("span.quiet", "nothing") : h("ul.reasons", profile.attention.map((reason) =>
      h("li", attention(reason.kind), " ", h("span", reason.detail), reason.kind === "lapsing" ? [" ", time(reason.at_ms)] : null))),
    current ? [h("code", current.sha256_prefix), h("div.quiet.small", time(current.captured_at_ms), current.foreign ? " · of another program" : "")] : h("span.quiet", "none"),
    time(profile.newest_captured_at_ms),
    bytes(profile.stored_bytes),
    lock ? [lock.state === "held" ? countdown(lock.expires_at_ms) : badge("expired", "warn"), h("div.quiet.small", `${lock.holder_run_id} on ${lock.holder_host || "?"}`)] : h("span.quiet", "free"),
  ];
}

function nothing(page, asked, who) {
  if (!page.complete) return empty("The server reads the store for the first time. This takes a moment.");
  if (asked.search) return empty(`No profile has “${asked.search}” in its name.`);
  if (page.profiles > 0) {
    return h("div.empty.good", h("p.large", "All is well."), h("p", `No profile needs you. “All” shows the ${number(page.profiles)} there are.`));
  }
  const tenant = who.tenants[0] === "*" ? "acme" : who.tenants[0];
  return empty("Nothing is stored yet. Capture the first profile:", `pstore snapshot ./profile ${tenant}/alice`);
}
