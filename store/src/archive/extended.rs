//! `Extended` collects the pax records of the member that follows.
//!
//! Unknown records are passed over, as the standard wants it, but not those that would change the place or
//! the meaning of a file's bytes.

use std::collections::BTreeMap;

use super::{
    holes::{self, Holes},
    pax,
    problem::{Problem, Result},
    sparse::{self, SparseRecords, decimal},
};
use crate::format::tree::{MAX_XATTR_BYTES, MAX_XATTRS, Time};

/// The longest extended header that is read, and all that are about one member together: room
/// for all attributes that an entry may have.
pub(super) const MAX_BYTES: u64 = 5 << 20;

/// The fields of extended headers, which override those of the next member's own header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Extended {
    pub path: Option<Vec<u8>>,
    pub link: Option<Vec<u8>>,
    pub size: Option<u64>,
    pub mtime: Option<Time>,
    pub uid: Option<u64>,
    pub gid: Option<u64>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Where a file of ours has holes.
    pub holes: Holes,
    /// Where a file of others has them, which are then not in the stream.
    pub sparse: Option<SparseRecords>,
    /// Of the headers that were read.
    bytes: u64,
}

impl Extended {
    /// Takes in one header; its records override those of earlier headers.
    pub fn read(&mut self, bytes: &[u8]) -> Result<()> {
        self.bytes += bytes.len() as u64;
        if self.bytes > MAX_BYTES {
            return Err(Problem::bad(format!(
                "a member has extended headers of more than {MAX_BYTES} bytes"
            )));
        }
        pax::decode(bytes)?.into_iter().try_for_each(|(keyword, value)| self.set(keyword, value))
    }

    /// Takes in one header that is about all members that follow. Little can be said of all of
    /// them, and that is kept with each.
    pub fn read_global(&mut self, bytes: &[u8]) -> Result<()> {
        self.read(bytes)?;
        if self.path.is_some() || self.link.is_some() || self.size.is_some() {
            return Err(Problem::bad("it gives one name or size to all of its members"));
        }
        if self.sparse.is_some() {
            return Err(Problem::bad("it gives the same holes to all of its members"));
        }
        if !self.xattrs.is_empty() {
            return Err(Problem::bad("it gives the same attributes to all of its members"));
        }
        self.holes.clear();
        self.bytes = 0;
        Ok(())
    }

    fn set(&mut self, keyword: &[u8], value: &[u8]) -> Result<()> {
        let wrong = || {
            Problem::bad(format!(
                "its extended header says {}={}",
                keyword.escape_ascii(),
                value[..value.len().min(64)].escape_ascii()
            ))
        };
        match keyword {
            b"path" => self.path = Some(value.to_vec()),
            b"linkpath" => self.link = Some(value.to_vec()),
            b"size" => self.size = Some(decimal(value).ok_or_else(wrong)?),
            b"uid" => self.uid = Some(decimal(value).ok_or_else(wrong)?),
            b"gid" => self.gid = Some(decimal(value).ok_or_else(wrong)?),
            b"mtime" => self.mtime = Some(time(value).ok_or_else(wrong)?),
            b"comment" => self.holes = holes::decode(value).unwrap_or_default(),
            _ => {
                if let Some(name) = keyword.strip_prefix(sparse::RECORD) {
                    self.sparse.get_or_insert_default().set(name, value).ok_or_else(wrong)?;
                }
                if let Some(name) = keyword.strip_prefix(pax::XATTR.as_bytes()) {
                    if value.len() > MAX_XATTR_BYTES {
                        let len = value.len();
                        return Err(Problem::bad(format!("a member has an attribute of {len} bytes")));
                    }
                    self.xattrs.insert(pax::unescape(name), value.to_vec());
                    if self.xattrs.len() > MAX_XATTRS {
                        return Err(Problem::bad(format!("a member has more than {MAX_XATTRS} attributes")));
                    }
                }
            }
        }
        Ok(())
    }
}

/// Seconds since 1970 with a fraction, of which nine digits count.
fn time(text: &[u8]) -> Option<Time> {
    let (text, negative) = match text.strip_prefix(b"-") {
        Some(rest) => (rest, true),
        None => (text, false),
    };
    let mut parts = text.splitn(2, |byte| *byte == b'.');
    let seconds = i64::try_from(decimal(parts.next()?)?).ok()?;
    let fraction = parts.next().unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanos = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Some(match (negative, nanos) {
        (false, nanos) => Time { seconds, nanos },
        (true, 0) => Time { seconds: -seconds, nanos: 0 },
        (true, nanos) => Time { seconds: -seconds - 1, nanos: 1_000_000_000 - nanos },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(extended: &mut Extended, records: &[(&[u8], &[u8])]) -> Result<()> {
        let mut bytes = Vec::new();
        records.iter().for_each(|(keyword, value)| pax::append(&mut bytes, keyword, value));
        extended.read(&bytes)
    }

    #[test]
    fn later_records_count_and_unknown_ones_do_not() {
        let mut extended = Extended::default();
        read(
            &mut extended,
            &[(b"path", b"ab"), (b"path", b"a\n=c"), (b"size", b"100"), (b"mtime", b"-1.5"), (b"x", b"y")],
        )
        .unwrap();
        assert_eq!(extended.path.as_deref(), Some(&b"a\n=c"[..]));
        assert_eq!(extended.size, Some(100));
        assert_eq!(extended.mtime, Some(Time { seconds: -2, nanos: 500_000_000 }));
        read(&mut extended, &[(b"SCHILY.xattr.user.a", b"\0\n\xff")]).unwrap();
        read(&mut extended, &[(b"SCHILY.xattr.user.a", b"12"), (b"SCHILY.xattr.user.%3D", b"")]).unwrap();
        let expected = [(b"user.a".to_vec(), b"12".to_vec()), (b"user.=".to_vec(), Vec::new())];
        assert_eq!(extended.xattrs, expected.into());
    }

    #[test]
    fn what_is_malformed_is_refused() {
        for (keyword, value) in [
            (&b"size"[..], &b"-1"[..]),
            (b"size", b""),
            (b"uid", b"x"),
            (b"gid", b"99999999999999999999"),
            (b"mtime", b"now"),
            (b"GNU.sparse.major", b"one"),
            (b"GNU.sparse.else", b"1"),
        ] {
            assert!(
                read(&mut Extended::default(), &[(keyword, value)]).is_err(),
                "{}",
                keyword.escape_ascii()
            );
        }
        Extended::default().read(b"9999 path=a\n").unwrap_err();
        for (text, expected) in [
            (&b"0"[..], Some((0, 0))),
            (b"1.123456789999", Some((1, 123_456_789))),
            (b"-5", Some((-5, 0))),
            (b"1.", Some((1, 0))),
            (b".5", None),
            (b"1e3", None),
            (b"", None),
            (b"99999999999999999999", None),
        ] {
            let found = time(text).map(|time| (time.seconds, time.nanos));
            assert_eq!(found, expected, "{}", text.escape_ascii());
        }
    }
}
