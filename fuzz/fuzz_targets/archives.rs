//! `archives` fuzzes the readers of what somebody wants to have imported.

use std::{fs, io::Read};

use store::{
    archive::reader::{Limits, Reader},
    format::tree::Entry,
    ops::archive::import::tree_builder::TreeBuilder,
};

/// What GNU tar makes of a file, a link to it, a sparse one and a long name, in each of its forms.
pub(super) fn archives() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("folder/file"), "content").unwrap();
    fs::hard_link(path("folder/file"), path("folder/twin")).unwrap();
    std::os::unix::fs::symlink("file", path("folder/link")).unwrap();
    fs::write(path(&"long".repeat(40)), "").unwrap();
    let sparse = fs::File::create(path("sparse")).unwrap();
    sparse.set_len(1 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"in the middle", 1 << 19).unwrap();
    let forms: [&[&str]; 4] = [
        &["--format=gnu"],
        &["--format=posix", "--sparse-version=0.0"],
        &["--format=posix", "--sparse-version=0.1"],
        &["--format=posix", "--sparse-version=1.0"],
    ];
    let archive = |form: &&[&str]| {
        let mut tar = std::process::Command::new("tar");
        let made =
            tar.arg("-C").arg(folder.path()).args(["-S", "-cf", "-"]).args(*form).arg(".").output().unwrap();
        assert!(made.status.success(), "{made:?}");
        made.stdout
    };
    forms.iter().map(archive).collect()
}

/// As an import reads it: what is not allowed is not read either.
pub(super) fn read_archive(bytes: &[u8]) {
    let limits = Limits { bytes: 4 << 20, entries: 100, metadata_bytes: 1 << 20 };
    let mut reader = Reader::new(bytes, limits);
    let mut gathered = TreeBuilder::new(limits, None);
    let mut held = 0;
    while let Ok(Some(member)) = reader.next_member() {
        if gathered.add(member).is_err() {
            return;
        }
        let mut content = reader.content();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = content.read(&mut buffer) {
            held += read as u64;
            assert!(held <= limits.bytes, "more than is allowed");
        }
    }
    let mut entries: Vec<Entry> = Vec::new();
    let finished = gathered.finish(&mut |entry| {
        entries.push(entry);
        Ok(())
    });
    if finished.is_err() {
        return;
    }
    assert!(entries.len() <= limits.entries, "more than is allowed");
    assert!(entries.is_sorted_by(|one, next| one.path < next.path), "{entries:?}");
}
