// Shows what a rollback would change, and does it once somebody confirms.

import { ask, get, of } from "./api.js";
import { h, replace } from "./dom.js";
import { bytes, time } from "./format.js";
import { badge, commands, failure, quoted, table } from "./parts.js";

/** How many paths the preview has. */
const SHOWN = 50;

export async function previewRollback({ tenant, name, target, list, may, done }) {
  const own = `${tenant}/${name}`;
  const sha = target.sha256_prefix;
  const major = target.chrome_major_version;
  const current = list.snapshots.find((snapshot) => snapshot.latest && snapshot.chrome_major_version === major);
  const body = h("div.preview", h("p.quiet", "Looking what would change…"));
  const told = h("div");
  const reason = h("input", { id: "rollback-reason", required: true, placeholder: "logged out since the last run" });
  const confirm = h("button.danger", { type: "submit", disabled: true }, `Make ${sha} current`);
  const command = h("div");
  const dialog = h("dialog", { "aria-labelledby": "rollback-title" },
    h("form", { onsubmit: send },
      h("h2", { id: "rollback-title" }, `Make ${sha} the current snapshot of ${own}?`),
      body,
      h("label", { for: "rollback-reason" }, "Why? The log keeps it."), reason,
      command, told,
      h("div.dialog-tools", h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), confirm)));
  const shown = () => replace(command, commands(`pstore rollback ${own} --chrome-major ${major} --sha ${sha} --reason ${quoted(reason.value || "REASON")} --confirm`));
  reason.addEventListener("input", shown);
  dialog.addEventListener("close", () => dialog.remove());
  shown();
  document.body.append(dialog);
  dialog.showModal();

  const request = { sha_prefix: sha, chrome_major_version: major };
  // The pointer must still be where this preview saw it.
  const only = current ? { "If-Match": `"${current.sha256_prefix}"` } : {};

  async function send(event) {
    event.preventDefault();
    confirm.disabled = true;
    try {
      await ask("POST", of(tenant, name, "/rollback"), { ...request, reason: reason.value, confirm: true }, only);
      dialog.close();
      await done();
    } catch (problem) {
      confirm.disabled = false;
      replace(told, failure(problem));
    }
  }

  try {
    const plan = await ask("POST", of(tenant, name, "/rollback"), request, only);
    const diff = current && may("run") ? await get(of(tenant, name, `/${current.sha256_prefix}/diff/${sha}?chrome_major_version=${major}`)).catch(() => null) : null;
    replace(body,
      h("p", "The next run starts with this snapshot, and all newer ones stay stored."),
      h("dl.facts",
        h("dt", "now"), h("dd", plan.flipped_from_sha256_prefix ? [h("code", plan.flipped_from_sha256_prefix), " ", current ? ["captured ", time(current.captured_at_ms)] : ""] : "nothing is current"),
        h("dt", "then"), h("dd", h("code", plan.to_sha256_prefix || sha), " captured ", time(plan.captured_at_ms), ", ", bytes(target.uncompressed_size_bytes)),
        target.held_back ? [h("dt", "held back"), h("dd", target.held_back)] : null),
      diff ? changes(diff) : null);
    confirm.disabled = plan.outcome === "unchanged";
    reason.focus();
  } catch (problem) {
    replace(body, failure(problem));
  }
}

function changes(diff) {
  const count = diff.added + diff.removed + diff.changed + diff.type_changed;
  const word = { added: "comes back", removed: "goes away", content: "changes", type: "changes", metadata: "metadata" };
  const tone = { added: "good", removed: "bad", content: "warn", type: "warn", metadata: "note" };
  const rows = (diff.changes || []).slice(0, SHOWN).map((change) =>
    [badge(word[change.change], tone[change.change]), h("code.path", change.path || "/"), bytes(change.size_before), bytes(change.size_after)]);
  return [
    h("p", h("strong", `${count} paths would change`), `: ${diff.added} come back, ${diff.removed} go away, ${diff.changed + diff.type_changed} get other content.`),
    rows.length ? table("Paths that would change", ["Change", "Path", "Now", "Then"], rows) : null,
  ];
}
