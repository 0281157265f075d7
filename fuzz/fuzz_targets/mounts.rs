//! `mounts` fuzzes the readers of what a mount left in its session directory.

use std::{fs, hint::black_box};

use fuse::overlay::{
    change::{Change, Intent, NewKind},
    checkpoint,
    journal::Journal,
    node::Ino,
};
use store::{
    catalog::pointer::IntendedFlip,
    format::tree::{Meta, Time},
    id::{FlipId, RecordId},
};

const TIME: Time = Time { seconds: -1, nanos: 999_999_999 };

pub(super) fn changes() -> Vec<Vec<u8>> {
    let (record, flip_id) = (RecordId::from_bytes([9; 16]), FlipId::from_bytes([5; 16]));
    let changes = [
        Change::Create {
            parent: Ino::ROOT,
            name: b"name".to_vec(),
            ino: Ino(7),
            kind: NewKind::Symlink { target: b"target".to_vec() },
            mode: 0o644,
            uid: 0,
            gid: 0,
            time: TIME,
        },
        Change::Link { ino: Ino(7), parent: Ino::ROOT, name: b"other".to_vec(), time: TIME },
        Change::Rename {
            parent: Ino::ROOT,
            name: b"other".to_vec(),
            new_parent: Ino::ROOT,
            new_name: b"third".to_vec(),
            exchange: false,
            time: TIME,
        },
        Change::Xattr { ino: Ino(7), name: b"user.x".to_vec(), value: Some(vec![0; 9]), time: TIME },
        Change::Unlink { parent: Ino::ROOT, name: b"name".to_vec(), time: TIME },
        Change::Write { ino: Ino(7), generation: 1, offset: 4096, len: 100, crc: 5, time: TIME },
        Change::Truncate { ino: Ino(7), size: 1 << 40, time: TIME },
        Change::Intent(Intent { record, epoch: 3, flip: None }),
        Change::Intent(Intent { record, epoch: 3, flip: Some(IntendedFlip { flip_id, seen: flip_id }) }),
    ];
    changes.iter().map(Change::encode).collect()
}

pub(super) fn bases() -> Vec<Vec<u8>> {
    vec![checkpoint::Checkpoint::fresh(None, &Meta { mode: 0o700, ..Meta::default() }).encode()]
}

pub(super) fn journals() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let decoded: Vec<Change> = changes().iter().map(|bytes| Change::decode(bytes).unwrap()).collect();
    Journal::create(&path, &bases()[0], &decoded).unwrap();
    vec![fs::read(path).unwrap()]
}

pub(super) fn read_journal(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), bytes).unwrap();
    drop(black_box(Journal::read(file.path())));
}
