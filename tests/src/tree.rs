//! `tree` makes directory trees with everything in them that a file system can hold, and tells whether two are the
//! same.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::{
        ffi::OsStrExt,
        fs::{FileExt, MetadataExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr,
    lsetxattr, mknodat, seek, utimensat,
};

/// Bytes that do not compress, the same for the same seed.
pub fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for chunk in bytes.chunks_mut(8) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let word = state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
    bytes
}

pub fn set_mtime(path: &Path, seconds: i64, nanos: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: nanos };
    let times = Timestamps { last_access: time, last_modification: time };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Fills `root` with every odd entry there is. Returns how many of them cannot be stored.
pub fn make_odd(root: &Path) -> u64 {
    fs::create_dir_all(root.join("a/b/c")).unwrap();
    fs::create_dir(root.join("empty dir")).unwrap();
    fs::write(root.join("empty file"), "").unwrap();
    fs::write(root.join("tiny"), "x").unwrap();
    fs::write(root.join("at the inline limit"), noise(512, 1)).unwrap();
    fs::write(root.join("above it"), noise(513, 2)).unwrap();
    fs::write(root.join("a/large"), noise(3_000_000, 3)).unwrap();
    fs::write(root.join("a/text"), "all work and no play makes jack a dull boy\n".repeat(20_000)).unwrap();
    fs::write(root.join("a/zeros"), vec![0; 1_000_000]).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"not \xff\xfe utf-8")), "1").unwrap();
    fs::write(root.join("with\nnewline\tand tab"), "2").unwrap();
    fs::write(root.join("n".repeat(255)), "3").unwrap();
    fs::write(root.join("a b"), "sorts between a and a/b").unwrap();
    fs::write(root.join("a!"), "so does this").unwrap();

    let deep = (0..30).fold(root.join("deep"), |path, _| path.join("d".repeat(100)));
    fs::create_dir_all(&deep).unwrap();
    fs::write(deep.join("bottom"), "found").unwrap();

    let sparse = fs::File::create(root.join("sparse")).unwrap();
    sparse.set_len(50 << 20).unwrap();
    sparse.write_all_at(&noise(100_000, 4), 10 << 20).unwrap();
    sparse.write_all_at(&noise(100_000, 5), 30 << 20).unwrap();
    fs::File::create(root.join("only a hole")).unwrap().set_len(1 << 20).unwrap();

    fs::write(root.join("a/linked"), noise(200_000, 6)).unwrap();
    fs::hard_link(root.join("a/linked"), root.join("a/b/linked too")).unwrap();
    fs::hard_link(root.join("a/linked"), root.join("A first name")).unwrap();

    symlink("a/text", root.join("link")).unwrap();
    symlink("nowhere/at/all", root.join("dangling")).unwrap();
    symlink("/", root.join("to the root")).unwrap();
    symlink("..", root.join("a/up")).unwrap();
    symlink(OsStr::from_bytes(b"\xff/\n"), root.join("odd target")).unwrap();

    for (name, mode) in [("secret", 0o600), ("sticky", 0o1777), ("none", 0)] {
        fs::write(root.join(name), name).unwrap();
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    fs::create_dir(root.join("closed")).unwrap();
    fs::write(root.join("closed/file"), "inside").unwrap();
    fs::set_permissions(root.join("closed"), fs::Permissions::from_mode(0o555)).unwrap();

    for (path, name, value) in
        [("tiny", "user.one", &b"1"[..]), ("tiny", "user.two", b""), ("a/b", "user.dir", b"\0\xff")]
    {
        lsetxattr(root.join(path), name, value, XattrFlags::empty()).unwrap();
    }

    mknodat(CWD, root.join("fifo"), FileType::Fifo, Mode::from(0o600), 0).unwrap();
    drop(std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap());
    mknodat(
        CWD,
        root.join("device"),
        FileType::CharacterDevice,
        Mode::from(0o600),
        rustix::fs::makedev(1, 3),
    )
    .unwrap();

    set_mtime(&root.join("tiny"), 1_234_567_890, 123_456_789);
    set_mtime(&root.join("empty file"), -5, 999_999_999);
    set_mtime(&root.join("dangling"), 1_000_000_000, 1);
    set_mtime(&root.join("a/b/c"), 981_173_106, 7);
    set_mtime(&root.join("a"), 981_173_107, 8);
    set_mtime(root, 981_173_108, 9);
    3
}

/// All that must survive a round trip, for one entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    pub kind: &'static str,
    pub mode: u32,
    pub mtime: (i64, i64),
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Digest of the content, or a link's target.
    pub content: Vec<u8>,
    pub size: u64,
    /// Where its data lies, for files with holes.
    pub data: Vec<(u64, u64)>,
    /// The first name of the same file.
    pub same_as: Option<PathBuf>,
}

/// Everything below `root` that can be stored.
pub fn look_at(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut seen = BTreeMap::new();
    let mut first_names = BTreeMap::new();
    visit(root, Path::new(""), &mut seen, &mut first_names);
    seen
}

fn visit(root: &Path, at: &Path, seen: &mut BTreeMap<PathBuf, Seen>, firsts: &mut BTreeMap<u64, PathBuf>) {
    let path = root.join(at);
    let path = if at.as_os_str().is_empty() { root.to_owned() } else { path };
    let meta = fs::symlink_metadata(&path).unwrap();
    let kind = meta.file_type();
    let mut entry = Seen {
        kind: "directory",
        mode: meta.mode() & 0o7777,
        mtime: (meta.mtime(), meta.mtime_nsec()),
        xattrs: BTreeMap::new(),
        content: Vec::new(),
        size: 0,
        data: Vec::new(),
        same_as: None,
    };
    if kind.is_symlink() {
        entry.kind = "symlink";
        entry.mode = 0;
        entry.content = fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes();
    } else if kind.is_file() {
        entry.kind = "file";
        entry.size = meta.len();
        let file = fs::File::open(&path).unwrap();
        entry.content = blake3_of(&file);
        entry.data = data_ranges(&file, meta.len());
        if meta.nlink() > 1 {
            entry.same_as = Some(firsts.entry(meta.ino()).or_insert_with(|| at.to_owned()).clone());
        }
    } else if !kind.is_dir() {
        return;
    }
    if !kind.is_symlink() {
        entry.xattrs = xattrs(&path);
    }
    seen.insert(at.to_owned(), entry);
    if kind.is_dir() {
        let mut names: Vec<_> =
            fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        for name in names {
            visit(root, &at.join(name), seen, firsts);
        }
    }
}

fn blake3_of(file: &fs::File) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    std::io::copy(&mut &*file, &mut hasher).unwrap();
    hasher.finalize().as_bytes().to_vec()
}

fn data_ranges(file: &fs::File, len: u64) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    while at < len {
        let Ok(start) = seek(file, SeekFrom::Data(at)) else { break };
        let end = seek(file, SeekFrom::Hole(start)).unwrap_or(len);
        ranges.push((start, end));
        at = end;
    }
    ranges
}

fn xattrs(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut names = [0; 4096];
    let len = llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..len].split(|b| *b == 0).filter(|name| name.starts_with(b"user."));
    names
        .map(|name| {
            let mut value = [0; 4096];
            let len = lgetxattr(path, name, &mut value[..]).unwrap();
            (name.to_vec(), value[..len].to_vec())
        })
        .collect()
}

/// Fails, naming the first difference, unless both trees are the same.
#[track_caller]
pub fn assert_same(expected: &Path, found: &Path) {
    assert_seen(&look_at(expected), found);
}

/// Fails, naming the first difference, unless the tree is as another was when it was looked at.
#[track_caller]
pub fn assert_seen(expected: &BTreeMap<PathBuf, Seen>, found: &Path) {
    let found = look_at(found);
    for (path, entry) in expected {
        assert_eq!(Some(entry), found.get(path), "{} differs", path.display());
    }
    if let Some(extra) = found.keys().find(|path| !expected.contains_key(*path)) {
        panic!("{} should not be there", extra.display());
    }
}
