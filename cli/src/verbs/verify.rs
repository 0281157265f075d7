//! `verify` turns the arguments of `pstore verify` into a request, and its outcome into text.

use std::{collections::BTreeSet, fmt::Write};

use engine::{
    Engine,
    failure::{self, Failure},
    text::{escape, size},
    verbs::verify::{DamageFields, SampleFields, VerifiedProfile, VerifyOutcome, VerifyRequest, VerifyScope},
};

use crate::{answer::Answer, args::VerifyArgs};

pub(super) async fn run(engine: Engine, args: &VerifyArgs) -> Result<Answer, Failure> {
    let request = VerifyRequest {
        subject: args.subject.clone(),
        chrome_major: args.chrome_major,
        sha: args.sha.clone(),
        reads_content: !args.structure,
        parts: args.read_data,
        repair: args.repair,
    };
    let outcome = engine.verify(&request).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &VerifyOutcome) -> String {
    let mut text = String::new();
    for damage in &outcome.damage {
        tell_damage(&mut text, damage);
    }
    for DamageFields { object, reason, .. } in &outcome.repaired {
        let _ = writeln!(text, "repaired: {}: {}", escape::line(object), escape::line(reason));
    }
    tell_marks(&mut text, outcome);
    if outcome.damage.is_empty() {
        let depth = match (outcome.read_data, outcome.sample) {
            (true, None) => "every byte".to_owned(),
            (true, Some(SampleFields { of, .. })) => {
                format!("all metadata, and one part in {of} of the content")
            }
            (false, _) => "all metadata, but no content".to_owned(),
        };
        let _ = writeln!(text, "No damage found in {} ({depth})", looked_at(outcome));
    }
    let _ = writeln!(
        text,
        "Checked {}, {}, {}; read {}",
        size::plural(outcome.snapshots, "snapshot", "snapshots"),
        size::plural(outcome.packs, "pack", "packs"),
        size::plural(outcome.chunks, "chunk", "chunks"),
        size::bytes(outcome.read_bytes)
    );
    text
}

fn looked_at(outcome: &VerifyOutcome) -> String {
    let name = |profile: &VerifiedProfile| profile.lineage.lineage().name;
    let names: BTreeSet<_> = outcome.profiles.iter().map(name).collect();
    let profiles = size::plural(names.len() as u64, "profile", "profiles");
    match &outcome.scope {
        VerifyScope::Lineage { lineage, sha256_prefix: Some(prefix) } => {
            format!("snapshot {prefix} of {lineage}")
        }
        VerifyScope::Lineage { lineage, sha256_prefix: None } => lineage.to_string(),
        VerifyScope::Tenant(tenant) => format!("{profiles} of {tenant}"),
        VerifyScope::All(tenants) => {
            let done = (tenants - outcome.failed.len().min(*tenants)) as u64;
            format!("{profiles} of {}", size::plural(done, "tenant", "tenants"))
        }
    }
}

fn tell_marks(text: &mut String, outcome: &VerifyOutcome) {
    if outcome.marked.is_empty() {
        return;
    }
    let _ = writeln!(text, "marked as damaged: {}", escape::line(&outcome.marked.join(", ")));
    if outcome.damage.is_empty() && !outcome.is_repair {
        let whose = match &outcome.scope {
            VerifyScope::Lineage { lineage, .. } => format!(" {}", lineage.name),
            VerifyScope::Tenant(tenant) => format!(" {tenant}"),
            VerifyScope::All(_) => String::new(),
        };
        let _ = writeln!(text, "  `pstore verify{whose} --repair` takes the mark away");
    }
}

fn tell_damage(text: &mut String, damage: &DamageFields) {
    let DamageFields { object, reason, snapshots, files, more_files } = damage;
    let _ = writeln!(text, "damaged: {}: {}", escape::line(object), escape::line(reason));
    if let Some(remedy) = failure::record_remedy(object) {
        let _ = writeln!(text, "  hint       {remedy}");
    }
    if !snapshots.is_empty() {
        let _ = writeln!(text, "  needed by  {}", escape::line(&snapshots.join(", ")));
    }
    for file in files {
        let _ = writeln!(text, "  file       {}", escape::line(file));
    }
    if *more_files > 0 {
        let _ = writeln!(text, "  and {} more files", size::count(*more_files));
    }
}
