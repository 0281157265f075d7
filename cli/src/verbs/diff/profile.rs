//! `profile` writes the change of a browser profile in words.

use engine::{
    text::escape,
    verbs::diff::{ExtensionFields, ProfileChanges, SiteFields},
};

/// A line for each thing; all foreign text in it is made plain.
pub(super) fn text(changes: &ProfileChanges) -> String {
    let mut lines = Vec::new();
    for cookies in &changes.cookies {
        let path = &cookies.path;
        lines.extend(cookies.problem.iter().map(|problem| format!("cookies     {path}: {problem}")));
        lines.extend(cookies.sites.iter().map(|site| format!("cookies     {}  {}", site.site, counts(site))));
        if cookies.more_sites > 0 {
            lines.push(format!("cookies     and {} more sites", cookies.more_sites));
        }
    }
    let extension = |sign: char, of: &ExtensionFields| format!("extension   {sign} {} {}", of.id, of.version);
    lines.extend(changes.extensions_added.iter().map(|of| extension('+', of)));
    lines.extend(changes.extensions_gone.iter().map(|of| extension('-', of)));
    lines.extend(changes.origins_added.iter().map(|origin| format!("storage     + {origin}")));
    lines.extend(changes.origins_gone.iter().map(|origin| format!("storage     - {origin}")));
    for storage in &changes.local_storage {
        let path = &storage.path;
        lines.extend(storage.problem.iter().map(|problem| format!("storage     {path}: {problem}")));
        lines.extend(storage.added.iter().map(|origin| format!("storage     + {origin} (Local Storage)")));
        lines.extend(storage.gone.iter().map(|origin| format!("storage     - {origin} (Local Storage)")));
        if storage.more_origins > 0 {
            lines.push(format!("storage     and {} more origins (Local Storage)", storage.more_origins));
        }
    }
    for settings in &changes.settings {
        let path = &settings.path;
        match &settings.changed {
            Some(names) => lines.extend(names.iter().map(|name| format!("setting     {path}: {name}"))),
            None => lines.push(format!("setting     {path} cannot be read")),
        }
    }
    lines.iter().map(|line| format!("{}\n", escape::line(line))).collect()
}

fn counts(site: &SiteFields) -> String {
    let parts = [(site.added, "added"), (site.gone, "gone"), (site.expiring, "expiring within 7 days")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!("{} -> {}: {}", site.before, site.after, parts.join(", "))
}
