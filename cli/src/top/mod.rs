//! `top` draws what goes on: frame by frame on a terminal, or as plain text.
//!
//! ```text
//! TopOutcome ──> panes ──> draw (live, with keys)
//!                    └───> plain
//! ```

mod draw;
#[cfg(test)]
mod draw_tests;
pub(crate) mod live;
mod pane;
pub(crate) mod plain;
mod screen;
mod state;
