// Shows the jobs of all servers, and begins one.

import { ask, get } from "./api.js";
import { h, replace, update } from "./dom.js";
import { span, time } from "./format.js";
import { badge, commands, empty, failure, heading, table } from "./parts.js";

const AGAIN = 2000;
export const STATES = { running: "note", done: "good", failed: "bad", cancelled: "warn", lost: "bad" };
const KINDS = [
  ["verify", "Check that snapshots are whole"],
  ["gc", "Free what nothing needs"],
  ["retention", "Remove old snapshots by the rules"],
  ["reap", "Take expired locks away"],
];

export async function jobs({ home, who, may, isCurrent, refused }) {
  if (!may("operate")) {
    replace(home, heading("Jobs"), empty("Jobs need a token with the role operate. Ask the server's operator for one:", "pstore token new --tenant acme --role operate >> tokens.toml"), commands("pstore verify acme"));
    return null;
  }
  const list = h("div");
  const told = h("div");
  let timer = null;
  async function look() {
    clearTimeout(timer);
    const found = await get("/v1/jobs?limit=50");
    if (!isCurrent()) return;
    update(list, found, () => found.jobs.length === 0
      ? empty("No job has run yet. Begin one above, or let the server do it by itself:", "schedules.gc_seconds = 86400")
      : table("Jobs", ["Job", "For", "State", "Begun", "Took", "By"], found.jobs.map(row)));
    timer = setTimeout(() => look().catch(refused), AGAIN);
  }
  const kind = h("select", { id: "job-kind" }, KINDS.map(([word, means]) => h("option", { value: word }, `${word}: ${means}`)));
  const all = who.tenants[0] === "*";
  const tenant = h("input", { id: "job-tenant", placeholder: all ? "all tenants" : who.tenants[0], value: all ? "" : who.tenants[0] });
  const real = h("input", { type: "checkbox", id: "job-real" });
  const form = h("form.inline", {
    onsubmit: async (event) => {
      event.preventDefault();
      try {
        const body = { dry_run: !real.checked };
        if (tenant.value.trim()) body.tenant_id = tenant.value.trim();
        const job = await ask("POST", `/v1/jobs/${kind.value}`, body);
        location.hash = `#/job/${job.job_id}`;
      } catch (problem) {
        replace(told, failure(problem));
      }
    },
  },
  h("div.field", h("label", { for: "job-kind" }, "Work"), kind),
  h("div.field", h("label", { for: "job-tenant" }, "Tenant"), tenant),
  h("label.check", real, "Change things; else only say what would be done"),
  h("button.primary", { type: "submit" }, "Begin"));
  replace(home, heading("Jobs"), h("section.panel", { "aria-label": "Begin a job" }, form, told), list,
    commands("pstore gc acme --dry-run", "pstore verify acme", "pstore retention plan acme", "pstore reap --dry-run"));
  await look();
  return () => clearTimeout(timer);
}

function row(job) {
  return [
    [h("a.name", { href: `#/job/${job.job_id}` }, job.kind), job.dry_run ? [" ", badge("dry run")] : null],
    job.tenant_id || "all tenants",
    [badge(job.state, STATES[job.state]), job.failure ? h("div.small", job.failure.message) : null],
    time(job.begun_at_ms),
    job.ended_at_ms ? span(job.ended_at_ms - job.begun_at_ms) : "–",
    job.schedule ? "schedule" : job.by.run_id,
  ];
}
