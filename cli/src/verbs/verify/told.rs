//! What a check has found, for people and for programs.

use std::{collections::BTreeSet, fmt::Write};

use engine::{
    failure,
    text::{escape, size},
};
use serde_json::{Value, json};
use store::{
    ErrorKind,
    format::record::Record,
    name::{Lineage, Tenant},
    ops::verify::{Damage, Looked, Options, Report, Sample},
};

/// What was to be checked.
pub(super) enum Scope {
    Lineage { lineage: Lineage, chosen: Option<Box<Record>> },
    Tenant(Tenant),
    All { tenants: usize },
}

pub(super) struct Checked {
    pub(super) scope: Scope,
    pub(super) options: Options,
    pub(super) report: Report,
    /// Tenants that were passed over, for `--json`.
    pub(super) failed: Vec<engine::turns::FailedTurn>,
    /// How it ends because of them.
    pub(super) passed_over: Option<(ErrorKind, String)>,
}

impl Checked {
    pub(super) fn document(&self) -> Value {
        let Self { report, options, .. } = self;
        let (tenant, lineage) = match &self.scope {
            Scope::Lineage { lineage, .. } => (Some(&lineage.name.tenant), Some(lineage)),
            Scope::Tenant(tenant) => (Some(tenant), None),
            Scope::All { .. } => (None, None),
        };
        json!({
            "outcome": outcome(report.damage.len(), report.repaired.len()),
            "tenant_id": tenant,
            "profile_id": lineage.map(|lineage| &lineage.name.profile),
            "chrome_major_version": lineage.map(|lineage| lineage.chrome_major),
            "read_data": options.read_data,
            "sample": options.sample.map(|Sample { part, of }| json!({ "part": part, "of": of })),
            "snapshots": report.snapshots,
            "packs": report.packs,
            "chunks": report.chunks,
            "read_bytes": report.read_bytes,
            "damage": report.damage.iter().map(finding).collect::<Vec<Value>>(),
            "repaired": report.repaired.iter().map(finding).collect::<Vec<Value>>(),
            "marked": report.marked,
            "profiles": report.lineages.iter().map(profile).collect::<Vec<Value>>(),
            "failed": self.failed,
        })
    }

    /// Damage that is left comes before tenants that nobody could look at, and both are told.
    pub(super) fn verdict(&self) -> Option<(ErrorKind, String)> {
        let findings = |found: &[Damage]| size::plural(found.len() as u64, "finding", "findings");
        let named = self.named();
        let found = match (&self.report.damage[..], &self.report.repaired[..]) {
            ([], _) if self.passed_over.is_some() => None,
            ([], []) => None,
            ([], repaired) => Some((
                ErrorKind::Repaired,
                format!("{named} was damaged and is whole again: {}", findings(repaired)),
            )),
            (damage, _) => Some((ErrorKind::Damaged, format!("{named} is damaged: {}", findings(damage)))),
        };
        match (found, &self.passed_over) {
            (Some((kind, found)), Some((_, passed_over))) => Some((kind, format!("{found}; {passed_over}"))),
            (found, passed_over) => found.or_else(|| passed_over.clone()),
        }
    }

    fn named(&self) -> String {
        match &self.scope {
            Scope::Lineage { lineage, .. } => lineage.to_string(),
            Scope::Tenant(tenant) => tenant.to_string(),
            Scope::All { .. } => "the store".to_owned(),
        }
    }

    pub(super) fn text(&self) -> String {
        let (report, mut text) = (&self.report, String::new());
        for damage in &report.damage {
            tell_damage(&mut text, damage);
        }
        for Damage { object, reason, .. } in &report.repaired {
            let _ = writeln!(text, "repaired: {}: {}", escape::line(object), escape::line(reason));
        }
        self.tell_marks(&mut text);
        if report.damage.is_empty() {
            let depth = match (self.options.read_data, self.options.sample) {
                (true, None) => "every byte".to_owned(),
                (true, Some(Sample { of, .. })) => {
                    format!("all metadata, and one part in {of} of the content")
                }
                (false, _) => "all metadata, but no content".to_owned(),
            };
            let _ = writeln!(text, "No damage found in {} ({depth})", self.looked_at());
        }
        let _ = writeln!(
            text,
            "Checked {}, {}, {}; read {}",
            size::plural(report.snapshots, "snapshot", "snapshots"),
            size::plural(report.packs, "pack", "packs"),
            size::plural(report.chunks, "chunk", "chunks"),
            size::bytes(report.read_bytes)
        );
        text
    }

    fn looked_at(&self) -> String {
        let names: BTreeSet<_> = self.report.lineages.iter().map(|looked| &looked.lineage.name).collect();
        let profiles = size::plural(names.len() as u64, "profile", "profiles");
        match &self.scope {
            Scope::Lineage { lineage, chosen: Some(record) } => {
                format!("snapshot {} of {lineage}", record.sha256_prefix())
            }
            Scope::Lineage { lineage, chosen: None } => lineage.to_string(),
            Scope::Tenant(tenant) => format!("{profiles} of {tenant}"),
            Scope::All { tenants } => {
                let done = (tenants - self.failed.len().min(*tenants)) as u64;
                format!("{profiles} of {}", size::plural(done, "tenant", "tenants"))
            }
        }
    }

    fn tell_marks(&self, text: &mut String) {
        if self.report.marked.is_empty() {
            return;
        }
        let _ = writeln!(text, "marked as damaged: {}", escape::line(&self.report.marked.join(", ")));
        if self.report.damage.is_empty() && !self.options.repair {
            let whose = match &self.scope {
                Scope::Lineage { lineage, .. } => format!(" {}", lineage.name),
                Scope::Tenant(tenant) => format!(" {tenant}"),
                Scope::All { .. } => String::new(),
            };
            let _ = writeln!(text, "  `pstore verify{whose} --repair` takes the mark away");
        }
    }
}

fn outcome(damage: usize, repaired: usize) -> &'static str {
    match (damage, repaired) {
        (0, 0) => "whole",
        (0, _) => "repaired",
        _ => "damaged",
    }
}

fn finding(damage: &Damage) -> Value {
    let Damage { object, reason, snapshots, files, more_files } = damage;
    json!({ "object": object, "reason": reason, "snapshots": snapshots, "files": files, "more_files": more_files })
}

fn profile(looked: &Looked) -> Value {
    let Looked { lineage, snapshots, damage, repaired } = looked;
    json!({
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "outcome": outcome(*damage as usize, *repaired as usize),
        "snapshots": snapshots,
    })
}

fn tell_damage(text: &mut String, damage: &Damage) {
    let Damage { object, reason, snapshots, files, more_files } = damage;
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
