//! `draw` lays a frame out for the room that there is: panes below each other, columns beside each other.

use engine::text::{escape, time};
use ratatui::{
    Frame,
    layout::{Alignment, Constraint, Layout, Rect},
    style::{Color, Modifier, Style},
    text::{Line, Text},
    widgets::{Block, Borders, Cell, Clear, Paragraph, Row, Table, TableState},
};

use super::{
    pane::Pane,
    state::{State, Typing},
};
use crate::table::Align;

/// With fewer lines a pane shows no row.
const LEAST_LINES: u16 = 3;
/// A cell is no wider, where others need the room.
const MOST_CELL: usize = 44;

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const DIM: Style = Style::new().add_modifier(Modifier::DIM);
const CHOSEN: Style = Style::new().add_modifier(Modifier::REVERSED);
const BAD: Style = Style::new().fg(Color::Red);

const HELP: &str = "\
tab, arrows   another pane; another row
page up, page down, home, end
/             show rows with a text; enter keeps it, escape ends it
?             this help; any key ends it
q, escape     leave

The line at the bottom is the command that acts on
the row that is chosen. Nothing is done from here.";

/// Draws a frame.
pub(super) fn draw(frame: &mut Frame<'_>, state: &mut State, now_ms: u64) {
    let [head, body, command, keys] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Min(0),
        Constraint::Length(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let panes = state.panes(now_ms);
    frame.render_widget(Paragraph::new(heading(state)).style(BOLD), head);
    match &panes {
        Some(panes) => draw_panes(frame, body, panes, state),
        None => frame.render_widget("looking …", body),
    }
    let chosen = panes.as_ref().and_then(|panes| panes[state.active].rows.get(state.selected[state.active]));
    if let Some(row) = chosen.filter(|row| !row.command.is_empty()) {
        frame.render_widget(Paragraph::new(format!("$ {}", row.command)), command);
    }
    let said = match (state.typing, state.filter.as_str()) {
        (Typing::Filter, typed) => format!("/{typed}_"),
        (_, "") => "q leave  tab pane  ↑↓ row  / filter  ? help".to_owned(),
        (_, typed) => format!("/{typed}   escape ends the filter"),
    };
    frame.render_widget(Paragraph::new(escape::line(&said).into_owned()).style(DIM), keys);
    if state.typing == Typing::Help {
        draw_help(frame, frame.area());
    }
}

fn heading(state: &State) -> String {
    match &state.seen {
        Some(seen) => {
            format!("pstore top  {}  {}", escape::line(&seen.source), time::utc(seen.as_of_ms))
        }
        None => "pstore top".to_owned(),
    }
}

fn draw_help(frame: &mut Frame<'_>, area: Rect) {
    let (width, height) = (58.min(area.width), (HELP.lines().count() as u16 + 2).min(area.height));
    let place = Rect::new((area.width - width) / 2, (area.height - height) / 2, width, height);
    frame.render_widget(Clear, place);
    frame.render_widget(Paragraph::new(HELP).block(Block::bordered().title("keys")), place);
}

fn draw_panes(frame: &mut Frame<'_>, area: Rect, panes: &[Pane; 4], state: &State) {
    let wanted = panes.each_ref().map(lines);
    let mut top = area.y;
    for (at, height) in heights(wanted, state.active, area.height).into_iter().enumerate() {
        let place = Rect { y: top, height, ..area };
        top += height;
        let selected = (at == state.active).then_some(state.selected[at]);
        draw_pane(frame, place, &panes[at], selected);
    }
}

/// How many lines a pane would fill.
fn lines(pane: &Pane) -> u16 {
    let rows = if pane.rows.is_empty() { usize::from(pane.problems.is_empty()) } else { 1 + pane.rows.len() };
    u16::try_from(1 + pane.problems.len() + rows).unwrap_or(u16::MAX)
}

/// How many lines each pane gets: the active one first, and all of them if the others would get too little.
fn heights(wanted: [u16; 4], active: usize, room: u16) -> [u16; 4] {
    let mut given = wanted.map(|lines| lines.min(LEAST_LINES));
    let Some(mut left) = room.checked_sub(given.iter().sum()) else {
        let mut given = [0; 4];
        given[active] = room;
        return given;
    };
    for at in [active, 0, 1, 2, 3] {
        let more = (wanted[at] - given[at]).min(left);
        given[at] += more;
        left -= more;
    }
    given
}

fn draw_pane(frame: &mut Frame<'_>, area: Rect, pane: &Pane, selected: Option<usize>) {
    if area.height == 0 {
        return;
    }
    let style = if selected.is_some() { BOLD } else { Style::new() };
    let block = Block::new().borders(Borders::TOP).title(Line::styled(pane.title.clone(), style));
    let inner = block.inner(area);
    frame.render_widget(block.border_style(if selected.is_some() { BOLD } else { DIM }), area);
    let problems = (pane.problems.len() as u16).min(inner.height);
    let [told, rest] = Layout::vertical([Constraint::Length(problems), Constraint::Min(0)]).areas(inner);
    let lines: Vec<Line<'_>> =
        pane.problems.iter().map(|problem| Line::styled(problem.as_str(), BAD)).collect();
    frame.render_widget(Paragraph::new(lines), told);
    if pane.rows.is_empty() {
        let text = if pane.problems.is_empty() { pane.empty } else { "" };
        frame.render_widget(Paragraph::new(text).style(DIM), rest);
        return;
    }
    let columns = fitting(pane, usize::from(rest.width));
    let cell = |text: &str, at: usize| {
        let alignment = match pane.columns[at].align {
            Align::Left => Alignment::Left,
            Align::Right => Alignment::Right,
        };
        Cell::from(Text::raw(text.to_owned()).alignment(alignment))
    };
    let heading = Row::new(columns.iter().map(|(at, _)| cell(pane.columns[*at].name, *at))).style(DIM);
    let rows = pane.rows.iter().map(|row| {
        let cells = columns.iter().map(|(at, _)| cell(&row.cells[*at], *at));
        Row::new(cells).style(if row.is_bad { BAD } else { Style::new() })
    });
    let widths =
        columns.iter().map(|(_, width)| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    let table = Table::new(rows, widths).header(heading).column_spacing(2).row_highlight_style(CHOSEN);
    frame.render_stateful_widget(table, rest, &mut TableState::new().with_selected(selected));
}

/// The columns that fit, each with its width, in their order. The first always does.
fn fitting(pane: &Pane, room: usize) -> Vec<(usize, usize)> {
    let width = |at: usize| {
        let cells = pane.rows.iter().map(|row| Line::raw(row.cells[at].as_str()).width());
        let widest = cells.max().unwrap_or(0).max(pane.columns[at].name.len());
        // A command that is cut short is of no use to anybody.
        if pane.columns[at].name == "COMMAND" { widest } else { widest.min(MOST_CELL) }
    };
    let mut by_rank: Vec<usize> = (0..pane.columns.len()).collect();
    by_rank.sort_by_key(|at| pane.columns[*at].rank);
    let (mut chosen, mut used) = (Vec::new(), 0);
    for at in by_rank {
        let gap = if chosen.is_empty() { 0 } else { 2 };
        let wide = width(at);
        if chosen.is_empty() {
            chosen.push((at, wide.min(room)));
            used = wide.min(room);
        } else if used + gap + wide <= room {
            chosen.push((at, wide));
            used += gap + wide;
        }
    }
    chosen.sort_unstable();
    chosen
}
