//! `plain` writes one frame as text, with every row and every column.

use engine::{
    text::{escape, time},
    verbs::top::TopOutcome,
};

use super::pane::panes;
use crate::table::{Align, Table};

/// The frame of a moment.
pub(crate) fn frame(seen: &TopOutcome) -> String {
    let mut text = format!("{}, {}\n", escape::line(&seen.source), time::utc(seen.as_of_ms));
    for pane in panes(seen, "", seen.as_of_ms) {
        text += &format!("\n{}\n", pane.title);
        pane.problems.iter().for_each(|problem| text += &format!("problem: {problem}\n"));
        if pane.rows.is_empty() && pane.problems.is_empty() {
            text += &format!("{}\n", pane.empty);
        }
        if !pane.rows.is_empty() {
            let heading: Vec<(&str, Align)> =
                pane.columns.iter().map(|column| (column.name, column.align)).collect();
            let mut table = Table::new(&heading);
            pane.rows.into_iter().for_each(|row| table.row(row.cells));
            text += &table.render();
        }
    }
    text
}
