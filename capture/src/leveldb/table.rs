//! `table` checks every block of a table against its checksum, and lists the table's keys.

use std::{fs::File, io, ops::ControlFlow, os::unix::fs::FileExt};

use super::{
    block::{self, BlockError, Handle},
    decode::Input,
};
use crate::db_state::Deadline;

const FOOTER_BYTES: u64 = 48;
const HANDLES_BYTES: usize = 40;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;

/// The problem of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TableError {
    Damaged(String),
    Unknown(String),
    OutOfTime,
}

/// Reads all of the table, which LevelDB would do piece by piece.
///
/// A writer places blocks one after the other. Blocks that overlap are refused, so no
/// table costs more to check than reading it once.
pub(super) fn check(file: &File, bytes: u64, deadline: Deadline) -> io::Result<Result<(), TableError>> {
    let damaged = |what: &str| Ok(Err(TableError::Damaged(what.to_owned())));
    let Footer { at: footer_at, metaindex, index } = match footer(file, bytes)? {
        Ok(footer) => footer,
        Err(error) => return Ok(Err(error)),
    };
    for (name, of, handle) in [("index", "data", index), ("metaindex", "filter", metaindex)] {
        let handles = match block::read(file, handle, footer_at)?.and_then(|block| block::handles(&block)) {
            Ok(handles) => handles,
            Err(error) => return Ok(Err(describe(error, &format!("its {name} block"), handle))),
        };
        let mut previous_end = 0;
        for handle in handles {
            if deadline.passed() {
                return Ok(Err(TableError::OutOfTime));
            }
            if handle.offset < previous_end {
                return damaged(&format!("its {of} blocks overlap at {}", handle.offset));
            }
            if let Err(error) = block::check(file, handle, footer_at)? {
                return Ok(Err(describe(error, &format!("a {of} block"), handle)));
            }
            previous_end = handle.end(footer_at).unwrap_or(footer_at);
        }
    }
    Ok(Ok(()))
}

/// Tells every key of the table, in order, until it is told to stop.
pub(super) fn keys(
    file: &File,
    bytes: u64,
    mut tell: impl FnMut(&[u8]) -> ControlFlow<()>,
) -> io::Result<Result<(), TableError>> {
    let Footer { at: footer_at, index, .. } = match footer(file, bytes)? {
        Ok(footer) => footer,
        Err(error) => return Ok(Err(error)),
    };
    let handles = match block::read(file, index, footer_at)?.and_then(|block| block::handles(&block)) {
        Ok(handles) => handles,
        Err(error) => return Ok(Err(describe(error, "its index block", index))),
    };
    let mut previous_end = 0;
    for handle in handles {
        if handle.offset < previous_end {
            return Ok(Err(TableError::Damaged(format!("its data blocks overlap at {}", handle.offset))));
        }
        let mut stopped = false;
        let told = block::read(file, handle, footer_at)?.and_then(|block| {
            block::keys(&block, |key| {
                let flow = tell(key);
                stopped = flow.is_break();
                flow
            })
        });
        match told {
            Err(error) => return Ok(Err(describe(error, "a data block", handle))),
            Ok(()) if stopped => return Ok(Ok(())),
            Ok(()) => {}
        }
        previous_end = handle.end(footer_at).unwrap_or(footer_at);
    }
    Ok(Ok(()))
}

/// The footer of a table.
struct Footer {
    /// Where it begins.
    at: u64,
    metaindex: Handle,
    index: Handle,
}

fn footer(file: &File, bytes: u64) -> io::Result<Result<Footer, TableError>> {
    let damaged = |what: &str| Ok(Err(TableError::Damaged(what.to_owned())));
    let Some(at) = bytes.checked_sub(FOOTER_BYTES) else {
        return damaged("it is too short to be a table");
    };
    let mut footer = [0; FOOTER_BYTES as usize];
    file.read_exact_at(&mut footer, at)?;
    if footer[HANDLES_BYTES..] != MAGIC.to_le_bytes() {
        return damaged("its end is not that of a table");
    }
    let mut input = Input::new(&footer[..HANDLES_BYTES]);
    let (Some(metaindex), Some(index)) = (Handle::decode(&mut input), Handle::decode(&mut input)) else {
        return damaged("its end names no index");
    };
    Ok(Ok(Footer { at, metaindex, index }))
}

fn describe(error: BlockError, what: &str, handle: Handle) -> TableError {
    let at = handle.offset;
    match error {
        BlockError::OutOfBounds => TableError::Damaged(format!("{what} is said to be outside of it")),
        BlockError::Checksum => TableError::Damaged(format!("{what} at {at} does not match its checksum")),
        BlockError::Malformed => TableError::Damaged(format!("{what} at {at} cannot be decoded")),
        BlockError::Unknown(reason) => {
            TableError::Unknown(format!("{what} at {at} cannot be checked: {reason}"))
        }
    }
}
