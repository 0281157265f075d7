//! Why something is still there.

use std::fmt::Write;

use engine::{failure::Failure, text::size};
use serde_json::{Value, json};
use store::{
    format::{condemned::Phase, record::State},
    id::PackId,
    name::Tenant,
    ops::gc::{Explanation, Root, Subject, explain},
};

use crate::{
    answer::Answer,
    table::{
        Align::{Left, Right},
        Table,
    },
    verbs::Engine,
};

pub(super) async fn run(engine: &Engine, tenant: &Tenant, subject: &str) -> Result<Answer, Failure> {
    let asked = match subject.to_ascii_uppercase().replace("-META", "-meta").parse::<PackId>() {
        Ok(pack) => Subject::Pack(pack),
        Err(_) => Subject::Snapshot(subject.to_owned()),
    };
    let store = engine.tenant(tenant).await?;
    let found = explain(&store, &asked).await?;
    let documents = found.documents.iter().map(|(id, phase)| json!({ "id": id, "phase": word(*phase) }));
    let document = json!({
        "outcome": "explained",
        "tenants": [],
        "failed": [],
        "explanation": {
            "tenant_id": tenant,
            "subject": subject,
            "alive": !found.roots.is_empty(),
            "packs": found
                .packs
                .iter()
                .map(|(pack, bytes)| json!({ "pack": pack, "bytes": bytes }))
                .collect::<Vec<Value>>(),
            "roots": found.roots.iter().map(root).collect::<Vec<Value>>(),
            "sharing": found.sharing.iter().map(root).collect::<Vec<Value>>(),
            "freed_bytes": found.freed_bytes,
            "documents": documents.collect::<Vec<Value>>(),
        },
    });
    Ok(Answer::new(document, text(subject, &found)))
}

fn root(root: &Root) -> Value {
    json!({
        "profile_id": root.lineage.name.profile,
        "chrome_major_version": root.lineage.chrome_major,
        "record": root.record,
        "sha256_prefix": root.sha256_prefix,
        "state": if root.state == State::Live { "live" } else { "trashed" },
        "tags": root.tags,
        "is_current": root.is_current,
        "is_pinned": root.is_pinned,
        "live_bytes": root.live_bytes,
    })
}

fn text(subject: &str, found: &Explanation) -> String {
    let mut text = String::new();
    if found.roots.is_empty() {
        let _ = writeln!(text, "Nothing needs {subject}.");
    } else {
        text.push_str(&table("KEPT BY", &found.roots));
        let _ = writeln!(text, "\n{} would be freed if that went", size::bytes(found.freed_bytes));
    }
    if !found.sharing.is_empty() {
        let _ = write!(text, "\n{}", table("SHARES PACKS WITH", &found.sharing));
    }
    for (id, phase) in &found.documents {
        let _ = writeln!(text, "condemned by {id}, which is {}", word(*phase));
    }
    text
}

fn table(heading: &str, roots: &[Root]) -> String {
    let mut table = Table::new(&[(heading, Left), ("SNAPSHOT", Left), ("NEEDS", Right), ("BECAUSE", Left)]);
    for root in roots {
        let mut why = Vec::new();
        if root.is_current {
            why.push("current".to_owned());
        }
        if root.is_pinned {
            why.push("in use".to_owned());
        }
        why.extend(root.tags.iter().map(|tag| format!("tagged {tag:?}")));
        why.push(if root.state == State::Live { "not deleted" } else { "being deleted" }.to_owned());
        table.row(vec![
            root.lineage.to_string(),
            root.sha256_prefix.clone(),
            size::bytes(root.live_bytes),
            why.join(", "),
        ]);
    }
    table.render()
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Condemned => "condemned",
        Phase::Armed => "armed",
        Phase::Sweep => "sweep",
        Phase::Swept => "swept",
    }
}
