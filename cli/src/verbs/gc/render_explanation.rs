//! `render_explanation` writes for people why a pack or a snapshot is kept.

use std::fmt::Write;

use engine::{
    text::size,
    verbs::gc::{Explanation, NamingDocument, Root, RootState},
};

use crate::table::{
    Align::{Left, Right},
    Table,
};

pub(super) fn text(found: &Explanation) -> String {
    let mut text = String::new();
    if found.roots.is_empty() {
        let _ = writeln!(text, "Nothing needs {}.", found.subject);
    } else {
        text.push_str(&table("KEPT BY", &found.roots));
        let _ = writeln!(text, "\n{} would be freed if that went", size::bytes(found.freed_bytes));
    }
    if !found.sharing.is_empty() {
        let _ = write!(text, "\n{}", table("SHARES PACKS WITH", &found.sharing));
    }
    for NamingDocument { id, phase } in &found.documents {
        let _ = writeln!(text, "condemned by {id}, which is {}", phase.word());
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
        why.push(if root.state == RootState::Live { "not deleted" } else { "being deleted" }.to_owned());
        table.row(vec![
            root.lineage.to_string(),
            root.sha256_prefix.clone(),
            size::bytes(root.live_bytes),
            why.join(", "),
        ]);
    }
    table.render()
}
