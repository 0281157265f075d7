//! `Version` reads from a MANIFEST which tables and logs make up the database.

use std::collections::BTreeMap;

use super::decode::Input;

const COMPARATOR: u32 = 1;
const LOG_NUMBER: u32 = 2;
const NEXT_FILE: u32 = 3;
const LAST_SEQUENCE: u32 = 4;
const COMPACT_POINTER: u32 = 5;
const DELETED_TABLE: u32 = 6;
const NEW_TABLE: u32 = 7;
const PREVIOUS_LOG_NUMBER: u32 = 9;

const LEVELS: u32 = 7;

/// The state after all edits that were applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Version {
    pub(super) comparator: Option<String>,
    pub(super) log_number: Option<u64>,
    pub(super) previous_log_number: u64,
    next_file: Option<u64>,
    last_sequence: Option<u64>,
    /// Sizes by level and number.
    tables: BTreeMap<(u32, u64), u64>,
}

/// Why an edit, whose checksum is right, cannot be applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EditError {
    Malformed,
    /// Written by something other than the LevelDB that is known here.
    UnknownTag(u32),
}

impl Version {
    pub(super) fn apply(&mut self, edit: &[u8]) -> Result<(), EditError> {
        let mut input = Input::new(edit);
        let mut added = Vec::new();
        while !input.is_empty() {
            let tag = input.varint32().ok_or(EditError::Malformed)?;
            self.field(tag, &mut input, &mut added)?;
        }
        // A table that moves is deleted from one level and added to another by one edit.
        self.tables.extend(added);
        Ok(())
    }

    fn field(
        &mut self,
        tag: u32,
        input: &mut Input<'_>,
        added: &mut Vec<((u32, u64), u64)>,
    ) -> Result<(), EditError> {
        let mut number = || input.varint64().ok_or(EditError::Malformed);
        match tag {
            LOG_NUMBER => self.log_number = Some(number()?),
            PREVIOUS_LOG_NUMBER => self.previous_log_number = number()?,
            NEXT_FILE => self.next_file = Some(number()?),
            LAST_SEQUENCE => self.last_sequence = Some(number()?),
            COMPARATOR => {
                let name = input.string().ok_or(EditError::Malformed)?;
                self.comparator = Some(String::from_utf8_lossy(name).into_owned());
            }
            COMPACT_POINTER => {
                level(input)?;
                key(input)?;
            }
            DELETED_TABLE => {
                let level = level(input)?;
                let number = input.varint64().ok_or(EditError::Malformed)?;
                self.tables.remove(&(level, number));
            }
            NEW_TABLE => {
                let level = level(input)?;
                let number = input.varint64().ok_or(EditError::Malformed)?;
                let bytes = input.varint64().ok_or(EditError::Malformed)?;
                key(input)?;
                key(input)?;
                added.push(((level, number), bytes));
            }
            tag => return Err(EditError::UnknownTag(tag)),
        }
        Ok(())
    }

    /// LevelDB's own rules for a MANIFEST.
    pub(super) fn missing_field(&self) -> Option<&'static str> {
        [
            (self.next_file, "the next file's number"),
            (self.log_number, "the log's number"),
            (self.last_sequence, "the last sequence number"),
        ]
        .into_iter()
        .find_map(|(field, name)| field.is_none().then_some(name))
    }

    /// Numbers and sizes of the live tables.
    pub(super) fn tables(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.tables.iter().map(|((_, number), bytes)| (*number, *bytes))
    }

    /// Whether the content of log `number` is not in tables yet.
    pub(super) fn needs_log(&self, number: u64) -> bool {
        self.log_number.is_some_and(|first| number >= first) || number == self.previous_log_number
    }
}

fn level(input: &mut Input<'_>) -> Result<u32, EditError> {
    input.varint32().filter(|level| *level < LEVELS).ok_or(EditError::Malformed)
}

fn key(input: &mut Input<'_>) -> Result<(), EditError> {
    input.string().filter(|key| !key.is_empty()).map(|_| ()).ok_or(EditError::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_add_up_and_a_table_may_move() {
        let mut version = Version::default();
        version.apply(&[1, 1, b'c', 2, 3, 3, 9, 4, 0, 7, 0, 5, 100, 1, b'a', 1, b'z']).unwrap();
        version.apply(&[5, 0, 1, b'k', 6, 0, 5, 7, 1, 5, 100, 1, b'a', 1, b'z']).unwrap();
        assert_eq!(version.tables().collect::<Vec<_>>(), [(5, 100)]);
        assert_eq!(version.missing_field(), None);
        assert!(version.needs_log(3) && version.needs_log(4) && !version.needs_log(2));
        assert_eq!(version.comparator.as_deref(), Some("c"));
    }

    #[test]
    fn what_cannot_be_an_edit_is_refused() {
        let apply = |edit: &[u8]| Version::default().apply(edit);
        assert_eq!(apply(&[6, 7, 1]), Err(EditError::Malformed), "there is no level 7");
        assert_eq!(apply(&[7, 0, 5, 100, 0, 0]), Err(EditError::Malformed), "keys are not empty");
        assert_eq!(apply(&[2]), Err(EditError::Malformed));
        assert_eq!(apply(&[8, 0]), Err(EditError::UnknownTag(8)));
        assert_eq!(Version::default().missing_field(), Some("the next file's number"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_are_an_edit_or_are_refused(
            edit in proptest::collection::vec(0_u8..12, 0..200)
        ) {
            let mut version = Version::default();
            let _ = version.apply(&edit);
            assert!(version.tables().count() <= edit.len());
        }
    }
}
