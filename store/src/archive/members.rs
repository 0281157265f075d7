//! Encodes entries of a tree as members of a tar stream.
//!
//! The same tree gives the same bytes on every host and at any time: nothing is taken
//! from the host, owners have numbers and no names, and a pax header says nothing of itself.

use super::{
    BLOCK_LEN,
    header::{self, Header, MemberKind},
    holes, padding, pax,
};
use crate::format::tree::{Entry, Extent, Kind, Meta, Time, is_plain_xattr};

/// The end of a stream: two blocks of zeros.
pub const END: [u8; 2 * BLOCK_LEN] = [0; 2 * BLOCK_LEN];
/// The name of the root: every other path is relative to it.
pub const ROOT: &[u8] = b"./";
/// The name of pax headers, for programs that do not know them.
const PAX_NAME: &[u8] = b"PaxHeaders/next";

/// How exact times are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// As the tree has them; needs a pax header for nearly every file.
    Exact,
    /// As ustar has them.
    Seconds,
}

/// All bytes before the content of an entry. `meta` is the entry's own, or of a hard link
/// that of the file it is a name of. `None` for entries that an archive does not hold: FIFOs, sockets
/// and devices.
pub fn head(entry: &Entry, meta: &Meta, times: Times) -> Option<Vec<u8>> {
    let mut header = Header {
        // Root may unpack it, and lends nobody its rights by that.
        mode: meta.plain_mode(),
        uid: meta.uid.into(),
        gid: meta.gid.into(),
        mtime: meta.mtime.seconds,
        ..Header::new(path(entry), kind(&entry.kind)?)
    };
    match &entry.kind {
        Kind::File { size, .. } => header.size = *size,
        Kind::Symlink { target } => header.link.clone_from(target),
        Kind::HardLink { target } => header.link = target.as_bytes().to_vec(),
        _ => {}
    }
    let records = records(entry, &header, meta, times);
    let mut out = Vec::with_capacity(BLOCK_LEN);
    if !records.is_empty() {
        let about =
            Header { mode: 0o644, size: records.len() as u64, ..Header::new(PAX_NAME, MemberKind::Pax) };
        out.extend_from_slice(&about.encode());
        out.extend_from_slice(&records);
        out.resize(out.len() + padding(records.len() as u64), 0);
    }
    out.extend_from_slice(&header.encode());
    Some(out)
}

fn kind(kind: &Kind) -> Option<MemberKind> {
    match kind {
        Kind::File { .. } => Some(MemberKind::File),
        Kind::Directory => Some(MemberKind::Directory),
        Kind::Symlink { .. } => Some(MemberKind::Symlink),
        Kind::HardLink { .. } => Some(MemberKind::HardLink),
        Kind::Fifo | Kind::Socket | Kind::CharDevice { .. } | Kind::BlockDevice { .. } => None,
    }
}

fn path(entry: &Entry) -> Vec<u8> {
    if entry.path.is_root() {
        return ROOT.to_vec();
    }
    let mut path = entry.path.as_bytes().to_vec();
    if entry.kind == Kind::Directory {
        path.push(b'/');
    }
    path
}

/// The pax records for the attributes that ustar cannot express.
fn records(entry: &Entry, header: &Header, meta: &Meta, times: Times) -> Vec<u8> {
    let long_path = header::split(&header.path).is_none();
    let long_link = header.link.len() > header::MAX_NAME;
    let mut out = Vec::new();
    let plain = |text: &[u8]| std::str::from_utf8(text).is_ok();
    if long_path && !plain(&header.path) || long_link && !plain(&header.link) {
        pax::append(&mut out, b"hdrcharset", b"BINARY");
    }
    if let Kind::File { extents, .. } = &entry.kind
        && extents.iter().any(|extent| matches!(extent, Extent::Hole(_)))
        && let Some(comment) = holes::encode(extents)
    {
        pax::append(&mut out, b"comment", comment.as_bytes());
    }
    if long_path {
        pax::append(&mut out, b"path", &header.path);
    }
    if long_link {
        pax::append(&mut out, b"linkpath", &header.link);
    }
    for (key, value, max) in [
        ("size", header.size, header::MAX_SIZE),
        ("uid", header.uid, header::MAX_ID),
        ("gid", header.gid, header::MAX_ID),
    ] {
        if value > max {
            pax::append(&mut out, key.as_bytes(), value.to_string().as_bytes());
        }
    }
    let nanos = if times == Times::Exact { meta.mtime.nanos } else { 0 };
    let fits = u64::try_from(header.mtime).is_ok_and(|seconds| seconds <= header::MAX_SIZE);
    if nanos > 0 || !fits {
        pax::append(&mut out, b"mtime", decimal(Time { nanos, ..meta.mtime }).as_bytes());
    }
    // A hard link's are those of its file, which has said them.
    if !matches!(entry.kind, Kind::HardLink { .. }) {
        for (name, value) in meta.xattrs.iter().filter(|(name, _)| is_plain_xattr(name)) {
            let key = [pax::XATTR.as_bytes(), &pax::escape(name)].concat();
            pax::append(&mut out, &key, value);
        }
    }
    out
}

/// A time in seconds with as many decimals as it takes.
fn decimal(time: Time) -> String {
    let Time { seconds, nanos } = time;
    let (sign, whole, part) = match (seconds, nanos) {
        (0.., _) => ("", seconds.unsigned_abs(), nanos),
        (_, 0) => ("-", seconds.unsigned_abs(), 0),
        // The part counts upwards even before 1970.
        _ => ("-", seconds.unsigned_abs() - 1, 1_000_000_000 - nanos),
    };
    if part == 0 {
        return format!("{sign}{whole}");
    }
    format!("{sign}{whole}.{}", format!("{part:09}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::tree::TreePath;

    fn file(path: impl Into<Vec<u8>>, meta: Meta) -> Entry {
        Entry { path: TreePath::new(path).unwrap(), meta, kind: Kind::File { size: 0, extents: vec![] } }
    }

    fn records_of(entry: &Entry, times: Times) -> Vec<(String, Vec<u8>)> {
        let out = head(entry, &entry.meta, times).unwrap();
        let first = Header::decode(out[..BLOCK_LEN].try_into().unwrap()).unwrap().unwrap();
        if first.kind != MemberKind::Pax {
            assert_eq!(out.len(), BLOCK_LEN);
            return vec![];
        }
        let records = pax::decode(&out[BLOCK_LEN..][..first.size as usize]).unwrap();
        let text = |key: &[u8]| String::from_utf8(key.to_vec()).unwrap();
        records.into_iter().map(|(key, value)| (text(key), value.to_vec())).collect()
    }

    #[test]
    fn what_ustar_can_say_takes_one_block() {
        let meta = Meta { mode: 0o600, uid: 1000, mtime: Time { seconds: 5, nanos: 0 }, ..Meta::default() };
        let entry = file("Default/Cookies", meta);
        assert_eq!(records_of(&entry, Times::Exact), []);
        let root = Entry { path: TreePath::root(), meta: Meta::default(), kind: Kind::Directory };
        let header = Header::decode(head(&root, &root.meta, Times::Exact).unwrap()[..].try_into().unwrap());
        assert_eq!(header.unwrap().unwrap().path, ROOT);
        let special = Entry { kind: Kind::Fifo, ..entry };
        assert_eq!(head(&special, &special.meta, Times::Exact), None);
    }

    #[test]
    fn what_it_cannot_is_said_in_records() {
        let long = "x".repeat(200);
        let meta = Meta {
            uid: 3_000_000,
            gid: u32::MAX,
            mtime: Time { seconds: 7, nanos: 120_000_000 },
            xattrs: vec![(b"user.a=b".to_vec(), vec![0, 0xff])],
            ..Meta::default()
        };
        let entry = file(long.clone(), meta);
        let found = records_of(&entry, Times::Exact);
        let expected = [
            ("path", long.as_bytes()),
            ("uid", b"3000000"),
            ("gid", b"4294967295"),
            ("mtime", b"7.12"),
            ("SCHILY.xattr.user.a%3Db", b"\0\xff"),
        ];
        assert!(found.iter().map(|(key, value)| (key.as_str(), value.as_slice())).eq(expected), "{found:?}");
        assert!(records_of(&entry, Times::Seconds).iter().all(|(key, _)| key != "mtime"));
        let odd = records_of(&file(vec![0xff; 200], Meta::default()), Times::Exact);
        assert_eq!(odd[0], ("hdrcharset".to_owned(), b"BINARY".to_vec()));
    }

    #[test]
    fn times_before_1970_are_negative_decimals() {
        let shown = |seconds, nanos| decimal(Time { seconds, nanos });
        assert_eq!(shown(-1, 500_000_000), "-0.5");
        assert_eq!(shown(-2, 999_999_999), "-1.000000001");
        assert_eq!(shown(-2, 0), "-2");
        assert_eq!(shown(1, 1), "1.000000001");
        assert_eq!(shown(i64::MIN, 0), "-9223372036854775808");
    }
}
