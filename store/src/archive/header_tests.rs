//! These tests encode and decode tar headers, also as GNU tar and old programs write them.

use super::*;
use crate::archive::BLOCK_LEN;

fn member() -> Header {
    Header {
        mode: 0o4755,
        uid: 1000,
        gid: MAX_ID,
        size: MAX_SIZE,
        mtime: 1_733_456_512,
        link: b"target".to_vec(),
        device_major: 8,
        device_minor: 1,
        ..Header::new("Default/Cookies", MemberKind::File)
    }
}

/// Makes the checksum of a changed block right again.
fn sealed(mut block: Block) -> Block {
    let (sum, _) = checksums(&block);
    block[CHECKSUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    block
}

#[test]
fn a_header_is_read_as_it_was_written() {
    for (kind, _) in MemberKind::KNOWN {
        let header = Header { kind, ..member() };
        assert_eq!(Header::decode(&header.encode()).unwrap().unwrap(), header);
    }
    let odd = Header::new(vec![0xff, b'\n'], MemberKind::Other(b'Z'));
    assert_eq!(Header::decode(&odd.encode()).unwrap().unwrap(), odd);
    assert_eq!(Header::decode(&[0; BLOCK_LEN]).unwrap(), None);
}

#[test]
fn a_path_is_split_where_both_parts_fit_with_as_much_as_possible_in_the_name() {
    let whole = |path: &str| {
        let (prefix, name) = split(path.as_bytes())?;
        Some((prefix.len(), name.len()))
    };
    let (a, b) = ("a".repeat(100), "b".repeat(155));
    assert_eq!(whole(&a), Some((0, 100)));
    assert_eq!(whole(&format!("{b}/{a}")), Some((155, 100)));
    assert_eq!(whole(&format!("x/{b}/{a}")), None);
    assert_eq!(whole(&"a".repeat(101)), None);
    assert_eq!(whole(&format!("/{a}")), None);
    assert_eq!(whole(&format!("{a}/")), None, "a directory's slash is no place to split");
    assert_eq!(whole(&format!("d/{}/", "a".repeat(99))), Some((1, 100)));
    assert_eq!(whole(&vec!["12345"; 20].join("/")), Some((23, 95)));
    for path in [format!("{b}/{a}"), vec!["12345"; 20].join("/")] {
        let header = Header::new(path, MemberKind::File);
        assert_eq!(Header::decode(&header.encode()).unwrap().unwrap(), header);
    }
}

#[test]
fn every_changed_bit_is_noticed_but_for_those_of_the_spelling() {
    let block = member().encode();
    for at in 0..BLOCK_LEN {
        for bit in 0..8 {
            let mut changed = block;
            changed[at] ^= 1 << bit;
            let read = Header::decode(&changed);
            // The checksum has several spellings.
            assert!(read.is_err() || CHECKSUM.contains(&at) && read == Ok(Some(member())), "byte {at}");
        }
    }
}

#[test]
fn numbers_are_read_as_gnu_and_old_programs_wrote_them() {
    let read = |field: std::ops::Range<usize>, bytes: &[u8]| {
        let mut block = member().encode();
        block[field].copy_from_slice(bytes);
        Header::decode(&sealed(block)).map(Option::unwrap)
    };
    assert_eq!(read(UID, b"\x80\0\0\0\x12\x34\x56\x78").unwrap().uid, 0x1234_5678);
    assert_eq!(read(SIZE, b"\x80\0\0\0\0\0\0\x02\0\0\0\0").unwrap().size, 2 << 32);
    assert_eq!(read(MTIME, &[0xff; 12]).unwrap().mtime, -1);
    assert_eq!(read(MODE, b"   644 \0").unwrap().mode, 0o644);
    assert_eq!(read(MODE, b"0100644 ").unwrap().mode, 0o644, "the bits of a kind are not those of a mode");
    assert_eq!(read(UID, &[0; 8]).unwrap().uid, 0);
    assert_eq!(read(SIZE, b"777777777777").unwrap().size, (1 << 36) - 1);
    for bad in [&b"12x     "[..], b"8       ", b"-1      ", b"\xff\xff\xff\xff\xff\xff\xff\xff"] {
        read(UID, bad).unwrap_err();
    }
    read(SIZE, &[0xbf, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).unwrap_err();
}

#[test]
fn the_prefix_is_only_one_where_posix_has_it() {
    let mut block = Header::new("b", MemberKind::File).encode();
    block[PREFIX.start] = b'a';
    assert_eq!(Header::decode(&sealed(block)).unwrap().unwrap().path, b"a/b");
    block[MAGIC].copy_from_slice(b"ustar  \0");
    assert_eq!(Header::decode(&sealed(block)).unwrap().unwrap().path, b"b");
    let mut old = Header::new("d/", MemberKind::File).encode();
    old[MAGIC].fill(0);
    assert_eq!(Header::decode(&sealed(old)).unwrap().unwrap().kind, MemberKind::Directory);
}
