// Shows how many bytes each tenant stores, day by day, and what a collection would free.

import { ask, get, query } from "./api.js";
import { h, replace } from "./dom.js";
import { bytes, number, time } from "./format.js";
import { chart, sparkline } from "./chart.js";
import { commands, empty, failure, figure, heading, pager, table } from "./parts.js";
import { freeable, freed } from "./job.js";

const LIMIT = 50;

export async function storage({ home, who, may, isCurrent, refused }) {
  const [figures, drawing, list, garbage, freshness] = [h("div.figures"), h("div.panel"), h("div"), h("div"), h("span.quiet")];
  let timer = null;
  let days = 30;
  let skip = 0;
  async function look() {
    const page = await get(query("/v1/usage", { days, skip: skip || "", limit: LIMIT }));
    if (!isCurrent()) return;
    replace(freshness, page.complete ? ["as of ", time(page.as_of_ms)] : "reading the store for the first time…");
    const ratio = page.stored_bytes > 0 ? `${(page.uncompressed_size_bytes / page.stored_bytes).toFixed(1)} times` : "–";
    replace(figures, figure("stored", bytes(page.stored_bytes)), figure("of files", bytes(page.uncompressed_size_bytes)), figure("smaller than the files", ratio), figure(page.total === 1 ? "tenant" : "tenants", number(page.total)));
    if (page.total === 0) {
      replace(drawing, empty("Nothing is stored yet.", "pstore snapshot ./profile acme/alice"));
      return;
    }
    replace(drawing, chart(page.daily_stored_bytes, page.first_day_ms, `Stored bytes over ${days} days, now ${bytes(page.stored_bytes)}`));
    replace(list, table("Tenants", ["Tenant", "Stored", "Last days", "Files", "Profiles", "Snapshots"], page.tenants.map((tenant) => [
      h("a.name", { href: query("#/", { search: `${tenant.tenant_id}/`, all: "1" }) }, tenant.tenant_id), bytes(tenant.stored_bytes),
      sparkline(tenant.daily_stored_bytes, `Stored bytes of ${tenant.tenant_id} over ${days} days`),
      bytes(tenant.uncompressed_size_bytes), number(tenant.profiles), number(tenant.snapshots),
    ])), pager({ ...page, skip, limit: LIMIT }, (next) => { skip = next; look().catch(refused); }));
    if (!page.complete) timer = setTimeout(() => look().catch(refused), 1000);
  }

  async function plan() {
    replace(garbage, h("p.quiet", "Looking what a collection would free…"));
    try {
      const body = { dry_run: true };
      if (who.tenants[0] !== "*") [body.tenant_id] = who.tenants;
      const begun = await ask("POST", "/v1/jobs/gc", body);
      const follow = async () => {
        const job = await get(`/v1/jobs/${begun.job_id}`);
        if (!isCurrent()) return;
        if (job.state === "running") {
          timer = setTimeout(follow, 500);
          return;
        }
        if (!job.outcome) {
          replace(garbage, failure(job.failure || { message: `The job is ${job.state}.` }));
          return;
        }
        const sum = (job.outcome.tenants || []).reduce((sum, tenant) => sum + freeable(tenant), 0);
        replace(garbage, h("p", "A collection would free ", h("strong", bytes(sum)), ". ", h("a", { href: `#/job/${begun.job_id}` }, "The job says what.")), freed(job.outcome));
      };
      await follow();
    } catch (problem) {
      if (!refused(problem)) replace(garbage, failure(problem));
    }
  }

  const range = h("select", { "aria-label": "Days", onchange: (event) => { days = Number(event.target.value); look().catch(refused); } },
    [7, 30, 90, 365].map((count) => h("option", { value: count, selected: count === 30 }, `${count} days`)));
  replace(home, heading("Storage", freshness, range), figures, drawing,
    h("p.quiet", "Bytes that were stored for the snapshots that still exist."),
    h("section", h("h2", "What a collection would free"),
      may("operate") ? h("button", { type: "button", onclick: plan }, "Find out") : empty("This needs a token with the role operate."), garbage),
    h("section", h("h2", "Tenants"), list),
    commands("pstore stats", "pstore gc --dry-run"));
  await look();
  return () => clearTimeout(timer);
}
