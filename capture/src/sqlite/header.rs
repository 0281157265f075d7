//! `header` tells the kind of a file from its first bytes, and whether a journal beside it is hot.

/// The part of a database that tells its kind.
pub const HEADER_BYTES: usize = 100;

/// The beginning of every database.
pub(crate) const MAGIC: &[u8; 16] = b"SQLite format 3\0";

const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];

/// At the end of a journal that names another: length, checksum, magic.
const SUPER_TRAILER_BYTES: u64 = 16;

/// The newest version of the format that is known here.
const MAX_VERSION: u8 = 2;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// No SQLite database, or one that does not say so (encrypted, or damaged there).
    Other,
    Database(Header),
    /// It begins as a database does, and cannot be one.
    Broken(&'static str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub page_bytes: u32,
    /// Whether it is in WAL mode.
    pub wal_mode: bool,
    /// Whether a newer version of the format is needed to read or write it.
    pub newer: bool,
    /// As of the last change by a writer that keeps this number.
    pub pages: Option<u32>,
}

impl Identity {
    /// From the first bytes of a file, [`HEADER_BYTES`] if it has so many.
    pub fn of(bytes: &[u8]) -> Self {
        if !bytes.starts_with(MAGIC) {
            return Self::Other;
        }
        let Some(header) = bytes.first_chunk::<HEADER_BYTES>() else {
            return Self::Broken("it ends within its header");
        };
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let page_bytes = match u32::from(u16::from_be_bytes([header[16], header[17]])) {
            1 => 65536,
            bytes if bytes >= 512 && bytes.is_power_of_two() => bytes,
            _ => return Self::Broken("its header has an impossible page size"),
        };
        let (write_version, read_version) = (header[18], header[19]);
        // The count of pages holds if the change that set it is the last one.
        let pages = (word(24) == word(92) && word(28) != 0).then(|| word(28));
        Self::Database(Header {
            page_bytes,
            wal_mode: read_version == 2,
            newer: write_version > MAX_VERSION || read_version > MAX_VERSION,
            pages,
        })
    }
}

/// Whether SQLite would roll a database back with this journal. That nobody holds a lock
/// is assumed: the database is at rest.
///
/// Journals that were committed are removed, emptied, or have their header zeroed; a
/// database without a page has nothing to roll back.
pub fn is_hot(journal_start: &[u8], database_bytes: u64) -> bool {
    database_bytes > 0 && journal_start.starts_with(&JOURNAL_MAGIC)
}

/// Whether a journal with these last bytes names another file, of a transaction over
/// several databases.
pub fn names_another(journal_end: &[u8], journal_bytes: u64) -> bool {
    journal_bytes > SUPER_TRAILER_BYTES && journal_end.ends_with(&JOURNAL_MAGIC)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header() -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..16].copy_from_slice(MAGIC);
        bytes[16..20].copy_from_slice(&[0x10, 0, 1, 1]);
        bytes
    }

    #[test]
    fn a_database_is_known_by_its_header() {
        let expected = Header { page_bytes: 4096, wal_mode: false, newer: false, pages: None };
        assert_eq!(Identity::of(&header()), Identity::Database(expected));
        let with = |at: usize, value: &[u8]| {
            let mut bytes = header();
            bytes[at..at + value.len()].copy_from_slice(value);
            Identity::of(&bytes)
        };
        assert_eq!(with(16, &[0, 1]), Identity::Database(Header { page_bytes: 65536, ..expected }));
        assert_eq!(with(18, &[2, 2]), Identity::Database(Header { wal_mode: true, ..expected }));
        assert_eq!(with(18, &[3, 1]), Identity::Database(Header { newer: true, ..expected }));
        assert_eq!(with(28, &[0, 0, 0, 7]), Identity::Database(Header { pages: Some(7), ..expected }));
        assert!(matches!(with(16, &[0x10, 1]), Identity::Broken(_)));
        assert!(matches!(with(16, &[0, 0]), Identity::Broken(_)));
        assert!(matches!(Identity::of(&header()[..99]), Identity::Broken(_)));
        assert_eq!(with(0, b"s"), Identity::Other);
        assert_eq!(Identity::of(b""), Identity::Other);
    }

    #[test]
    fn a_journal_is_hot_with_a_header_and_something_to_roll_back() {
        assert!(is_hot(&JOURNAL_MAGIC, 4096));
        assert!(!is_hot(&JOURNAL_MAGIC, 0));
        assert!(!is_hot(&[0; 512], 4096));
        assert!(!is_hot(b"", 4096));
    }

    proptest! {
        #[test]
        fn any_bytes_are_told(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            Identity::of(&bytes);
            let mut like = header().to_vec();
            like.truncate(16 + bytes.len());
            for (at, byte) in bytes.iter().enumerate() {
                if let Some(place) = like.get_mut(16 + at) {
                    *place = *byte;
                }
            }
            assert_ne!(Identity::of(&like), Identity::Other);
        }
    }
}
