//! These tests import archives that no honest program writes, and damaged ones: each is refused in words that say
//! why, nothing is published, and nothing is written anywhere else.

use std::{fs, io::Write, path::Path, thread, time::Duration};

use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::{Pid, Signal, kill_process},
};
use serde_json::Value;
use store::{
    archive::{
        header::{Header, MemberKind},
        pax,
    },
    scratch::{self, Scratch},
};
use tests::{
    profile_fixture::ProfileFixture,
    tarball::{Tarball, compressed, manifest},
    tree::noise,
};

const TOO_LARGE: i32 = 31;
const REFUSED: i32 = 33;
const DAMAGED: i32 = 10;
const TOO_NEW: i32 = 11;

/// A fixture with a snapshot that nothing may harm.
struct ImportScenario {
    fixture: ProfileFixture,
    before: (Vec<u8>, Value),
}

impl ImportScenario {
    fn new() -> Self {
        let mut fixture = ProfileFixture::local();
        let temporary = fixture.path("tmp");
        fs::create_dir(&temporary).unwrap();
        fixture.host = fixture
            .host
            .clone()
            .with("TMPDIR", temporary.to_str().unwrap())
            .with("PSTORE_MAX_PROFILE_BYTES", "64MiB");
        let good = Tarball::new().directory("./").file("./Default/a", b"good").end();
        fs::write(fixture.path("good.tar.zst"), good.zstd()).unwrap();
        let scenario = Self { fixture, before: Default::default() };
        let good = scenario.fixture.path("good.tar.zst");
        scenario.fixture.host.succeed([
            "import",
            good.to_str().unwrap(),
            "acme/alice",
            "--chrome-major",
            "131",
        ]);
        let before = scenario.state();
        Self { before, ..scenario }
    }

    /// The pointer, and the snapshots there are.
    fn state(&self) -> (Vec<u8>, Value) {
        let pointer = self.fixture.path("store/objects/snapshots/acme/alice/131/latest.json");
        let listed = self.fixture.host.succeed(["list", "acme/alice"]);
        (fs::read(pointer).unwrap(), listed)
    }

    #[track_caller]
    fn refuses(&self, archive: &[u8], code: i32, words: &str) {
        self.refuses_with(archive, &[], code, words);
    }

    #[track_caller]
    fn refuses_with(&self, archive: &[u8], more: &[&str], code: i32, words: &str) {
        let path = self.fixture.path("bad.tar.zst");
        fs::write(&path, archive).unwrap();
        let line = ["import", path.to_str().unwrap(), "acme/alice", "--chrome-major", "131"];
        let error = self.fixture.host.fail(code, [&line[..], more].concat());
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(words), "{words:?} is not in {message:?}");
        let hint = error["hint"].as_str().unwrap();
        assert!(!hint.contains("--sha") && !hint.contains("verify"), "{hint:?} is not about an archive");
        assert!(hint.contains("nothing was published") || code == TOO_LARGE || code == TOO_NEW, "{hint:?}");
        assert_eq!(self.state(), self.before, "nothing is published");
        assert_eq!(names(&self.fixture.path("tmp")), Vec::<String>::new(), "nothing is left behind");
        assert_eq!(names(&self.fixture.path("")), ["bad.tar.zst", "good.tar.zst", "home", "store", "tmp"]);
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn tar() -> Tarball {
    Tarball::new()
}

#[test]
fn what_would_lead_elsewhere_is_refused() {
    let scenario = ImportScenario::new();
    let (hard, soft) = (MemberKind::HardLink, MemberKind::Symlink);
    for (archive, words) in [
        (tar().file("/etc/evil", b"x"), "the path /etc/evil is absolute"),
        (tar().file("../evil", b"x"), "the path ../evil leads elsewhere"),
        (tar().file("a/../../evil", b"x"), "the path a/../../evil leads elsewhere"),
        (tar().pax(&[("path", b"/evil")]).file("good", b"x"), "the path /evil is absolute"),
        (tar().link(soft, "a", "/tmp").file("a/evil", b"x"), "a/evil is below a, which is a symbolic link"),
        (tar().file("a", b"x").file("a/b", b"y"), "a/b is below a, which is no directory"),
        (tar().file("a/b", b"y").link(soft, "a", "/tmp"), "a is no directory, though something is below it"),
        (tar().special(MemberKind::Fifo, "a").file("a/b", b"y"), "a/b is below a, which is no directory"),
        (tar().link(hard, "a", "/etc/passwd"), "the path /etc/passwd is absolute"),
        (tar().link(hard, "a", "../../etc/passwd"), "leads elsewhere"),
        (tar().link(hard, "a", "b").file("b", b"x"), "a is a hard link to b, which is not there before it"),
        (tar().link(hard, "a", "a"), "a is a hard link to a, which is not there before it"),
        (tar().directory("d").link(hard, "a", "d"), "a is a hard link to d, which is a directory"),
        (tar().link(soft, "./", "/tmp"), "its root is not a directory"),
    ] {
        scenario.refuses(&archive.end().zstd(), REFUSED, words);
    }
}

#[test]
fn what_no_tree_can_be_is_refused() {
    let scenario = ImportScenario::new();
    let long = "n".repeat(256);
    let with_data = Header { size: 3, link: "b".into(), ..Header::new("a", MemberKind::HardLink) };
    for (archive, words) in [
        (tar().file("a", b"x").file("./a", b"y"), "a is there twice"),
        (tar().directory("d").directory("d/"), "d is there twice"),
        (tar().pax(&[("path", long.as_bytes())]).file("a", b"x"), "longer than 255 bytes"),
        (tar().pax(&[("path", b"a\0b")]).file("a", b"x"), "a name with a NUL or a slash"),
        (tar().link(MemberKind::Symlink, "a", ""), "an impossible symbolic link"),
        (tar().file("b", b"x").member(&with_data, b"abc"), "a is a link with content of its own"),
        (tar().special(MemberKind::GnuSparse, "a"), "of a kind that is not known"),
        (tar().special(MemberKind::Other(b'M'), "a"), "of a kind that is not known"),
        (tar().pax(&[("size", b"-1")]).file("a", b"x"), "its extended header says size=-1"),
        (tar().pax(&[("uid", b"4294967296")]).file("a", b"x"), "owner 4294967296"),
        (tar().pax(&[("SCHILY.xattr.user.x", &vec![0; 70_000])]).file("a", b"x"), "attribute of 70000 bytes"),
        (
            tar().pax(&[("linkpath", &[b'x'; 40_000])]).link(MemberKind::Symlink, "a", "b"),
            "link to 40000 bytes",
        ),
        (
            tar().pax(&[(format!("SCHILY.xattr.user.{long}").as_str(), b"")]).file("a", b"x"),
            "impossible name",
        ),
    ] {
        scenario.refuses(&archive.end().zstd(), REFUSED, words);
    }
}

#[test]
fn what_is_damaged_or_cut_short_is_refused() {
    let scenario = ImportScenario::new();
    let good = tar().file("a", &[7; 5000]).file("b", b"more").end();
    let mut flipped = good.clone();
    flipped.0[20] ^= 1;
    let cut = |len: usize| Tarball(good.0[..len].to_vec()).zstd();
    let whole = good.zstd();
    for (archive, words) in [
        (flipped.zstd(), "checksum is wrong"),
        (Tarball(b"no tar at all".repeat(100)).zstd(), "checksum"),
        (b"no zstd at all, though it is long enough".to_vec(), "Unknown frame descriptor"),
        (Vec::new(), "incomplete frame"),
        (cut(100), "it ends without an end mark"),
        (cut(512 + 2000), "it ends in the middle of a file"),
        (cut(512 + 5120), "it ends without an end mark"),
        (whole[..whole.len() - 10].to_vec(), "incomplete frame"),
        (Tarball([good.0.clone(), b"garbage".to_vec()].concat()).zstd(), "something follows its end"),
        (Tarball([good.0.clone(), good.0.clone()].concat()).zstd(), "something follows its end"),
        ([whole.clone(), b"garbage!".to_vec()].concat(), "Unknown frame descriptor"),
        (tar().pax(&[("path", b"a")]).end().zstd(), "it ends after an extended header"),
        // A window of 2 GiB.
        (vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0xa8, 0x01, 0x00, 0x00], "too much memory"),
    ] {
        scenario.refuses(&archive, REFUSED, words);
    }
}

#[test]
fn what_grows_without_end_is_refused_while_it_is_read() {
    let scenario = ImportScenario::new();
    let claims = |kind, size| Header { size, ..Header::new("a", kind) };
    let claimed = tar().member(&claims(MemberKind::File, 1 << 32), b"");
    scenario.refuses(&claimed.zstd(), TOO_LARGE, "more than the 67108864 that are allowed");
    let singleton = Header { size: 1 << 32, ..Header::new("SingletonLock", MemberKind::File) };
    let left_out = tar().member(&singleton, b"");
    scenario.refuses(&left_out.zstd(), TOO_LARGE, "more than the 67108864 that are allowed");
    let pax = tar().member(&claims(MemberKind::Pax, 1 << 32), b"");
    scenario.refuses(&pax.zstd(), REFUSED, "an extended header of 4294967296 bytes");
    let zeros = vec![0; 1 << 20];
    let files = compressed(|out| {
        for number in 0..3 {
            let header = Header { size: 40 << 20, ..Header::new(format!("{number}"), MemberKind::File) };
            out.write_all(&header.encode())?;
            (0..40).try_for_each(|_| out.write_all(&zeros))?;
        }
        Ok(())
    });
    assert!(files.len() < 100_000, "a bomb is small: {}", files.len());
    scenario.refuses(&files, TOO_LARGE, "holds 83886080 bytes");
    let padded = compressed(|out| (0..64).try_for_each(|_| out.write_all(&zeros)));
    scenario.refuses(&padded, REFUSED, "zeros follow its end");
}

/// Each form that GNU tar has for it, with maps that GNU tar does not write.
#[test]
fn holes_that_fit_no_file_are_refused() {
    let scenario = ImportScenario::new();
    let pax = |records: &[(&str, &[u8])], content: &[u8]| tar().pax(records).file("a", content);
    let newest = |size: &str, map: &str, content: &[u8]| {
        let mut body = map.as_bytes().to_vec();
        body.resize(body.len().next_multiple_of(512), 0);
        let version = [("GNU.sparse.major", &b"1"[..]), ("GNU.sparse.minor", b"0")];
        pax(&[&version[..], &[("GNU.sparse.realsize", size.as_bytes())]].concat(), &[&body, content].concat())
    };
    let older = |size: &str, map: &str, content: &[u8]| {
        pax(&[("GNU.sparse.size", size.as_bytes()), ("GNU.sparse.map", map.as_bytes())], content)
    };
    let hard = Header { link: "b".into(), ..Header::new("a", MemberKind::HardLink) };
    let sparse = [("GNU.sparse.size", &b"5"[..]), ("GNU.sparse.map", b"0,0")];
    for (archive, words) in [
        (older("9", "0,4,2,4", b"12345678"), "whose parts overlap, or are out of order"),
        (older("9", "5,1,2,1", b"12"), "whose parts overlap, or are out of order"),
        (older("9", "5,5", b"12345"), "with a part beyond its end"),
        (older("9", "18446744073709551615,1", b"1"), "with a part beyond its end"),
        (older("9", "0,5", b"1234"), "whose map is not that of its content"),
        (older("9", "0,5", b"123456"), "whose map is not that of its content"),
        (older("9", "0,5,6", b"12345"), "whose map is incomplete"),
        (older("9", "0,-5", b"12345"), "its extended header says GNU.sparse.map=0,-5"),
        (pax(&[("GNU.sparse.map", b"0,5")], b"12345"), "a sparse file of unknown length"),
        (pax(&[("GNU.sparse.major", b"2"), ("GNU.sparse.size", b"5")], b""), "in version 2.0"),
        (newest("9", "1\n5\n5\n", b"12345"), "with a part beyond its end"),
        (newest("9", "2\n5\n1\n4\n1\n", b"12"), "whose parts overlap, or are out of order"),
        (newest("9", "1\n0\n5\n", b"1234"), "whose map is not that of its content"),
        (newest("9", "2000000\n", b""), "of more than 1048576 parts"),
        (newest("9", "many\n", b""), "whose map is no list of numbers"),
        (newest("9", "2\n0\n1\n", b""), "whose map is no list of numbers"),
        (newest("9", &format!("200\n{}", "1\n".repeat(254)), b""), "whose map is cut short"),
        (tar().sparse("a", 9, &[(0, 4), (2, 4)], b"12345678"), "whose parts overlap, or are out of order"),
        (tar().sparse("a", 9, &[(0, 4), (6, 4)], b"12345678"), "with a part beyond its end"),
        (tar().sparse("a", 9, &[(0, 4)], b"12345678"), "whose map is not that of its content"),
        (tar().pax(&sparse).member(&hard, b""), "that it is a sparse file, and another thing"),
        (tar().pax(&sparse).sparse("a", 5, &[], b""), "that it is a sparse file, and another thing"),
    ] {
        scenario.refuses(&archive.end().zstd(), REFUSED, words);
    }
    // A hole counts as what it is when the file is there.
    for archive in [
        older("9000000000000", "0,1", b"1"),
        newest("9000000000000", "1\n0\n1\n", b"1"),
        tar().sparse("a", 8_000_000_000, &[(0, 1)], b"1"),
    ] {
        scenario.refuses(&archive.end().zstd(), TOO_LARGE, "more than the 67108864 that are allowed");
    }
    // So do many that are small, and that are told at length.
    let half = |name: &str| {
        let map: String = (0..16_000).map(|part| format!("{},1,", 2 * part + 1)).collect();
        let records =
            [("GNU.sparse.size", &b"32000"[..]), ("GNU.sparse.map", map.trim_end_matches(',').as_bytes())];
        tar().pax(&records).file(name, &[b'x'; 16_000]).0
    };
    let many = compressed(|out| (0..70).try_for_each(|file| out.write_all(&half(&file.to_string()))));
    scenario.refuses(&many, REFUSED, "names and attributes take more than");
    let mut endless = tar().sparse("a", 9, &[(0, 1); 4 + 21], b"").0;
    let block = endless[512..1024].to_vec();
    let endless = compressed(|out| {
        out.write_all(&endless.drain(..512).collect::<Vec<_>>())?;
        (0..100_000).try_for_each(|_| out.write_all(&[&block[..504], &[1; 8]].concat()))
    });
    scenario.refuses(&endless, REFUSED, "more than 1048576 parts");
}

#[test]
fn more_entries_than_fit_are_refused() {
    let scenario = ImportScenario::new();
    let many = compressed(|out| {
        for number in 0..(1 << 20) + 1 {
            out.write_all(&Header::new(format!("{number}"), MemberKind::Directory).encode())?;
        }
        Ok(())
    });
    scenario.refuses(&many, REFUSED, "it holds more than 1048576 entries");
    let global = compressed(|out| {
        let header = Header::new("g", MemberKind::PaxGlobal).encode();
        (0..(4 << 20) + 1).try_for_each(|_| out.write_all(&header))
    });
    scenario.refuses(&global, REFUSED, "headers");
}

/// Every name of a symbolic link is a link with the whole target.
#[test]
fn a_long_target_with_many_names_counts_for_each_name() {
    let scenario = ImportScenario::new();
    let linked = tar().pax(&[("linkpath", &[b'x'; 30_000])]).link(MemberKind::Symlink, "a", "b");
    let many =
        (0..20_000).fold(linked, |tar, number| tar.link(MemberKind::HardLink, &format!("n{number}"), "a"));
    scenario.refuses(&many.end().zstd(), REFUSED, "its names and attributes take more than");
}

/// Headers about headers are held in memory until their member comes.
#[test]
fn more_attributes_than_a_member_can_have_are_refused() {
    let scenario = ImportScenario::new();
    let value = vec![b'v'; 60 << 10];
    let name = |number| format!("SCHILY.xattr.user.{number}");
    let large = (0..100).fold(tar(), |tar, number| tar.pax(&[(name(number).as_str(), &value)]));
    scenario.refuses(
        &large.file("a", b"").end().zstd(),
        REFUSED,
        "extended headers of more than 5242880 bytes",
    );
    let many = (0..1025).fold(tar(), |tar, number| tar.pax(&[(name(number).as_str(), b"v")]));
    scenario.refuses(&many.file("a", b"").end().zstd(), REFUSED, "more than 1024 attributes");
    let long = tar().pax(&[(name(0).as_str(), &value.repeat(2))]).file("a", b"");
    scenario.refuses(&long.end().zstd(), REFUSED, "an attribute of 122880 bytes");
    let mut body = Vec::new();
    pax::append(&mut body, name(0).as_bytes(), b"v");
    let global = Header { size: body.len() as u64, ..Header::new("g", MemberKind::PaxGlobal) };
    let global = tar().member(&global, &body).file("a", b"");
    scenario.refuses(&global.end().zstd(), REFUSED, "the same attributes to all");
}

#[test]
fn what_is_not_what_its_manifest_says_is_refused() {
    let scenario = ImportScenario::new();
    let archive = tar().file("a", b"content").end().zstd();
    let manifest = manifest(&archive, "alice");
    let path = scenario.fixture.path("home/manifest.json");
    let with = |field: &str, value: Value| {
        let mut changed = manifest.clone();
        changed[field] = value;
        fs::write(&path, changed.to_string()).unwrap();
        ["--manifest".to_owned(), path.to_str().unwrap().to_owned()]
    };
    let refuses = |more: [String; 2], archive: &[u8], code, words: &str| {
        scenario.refuses_with(archive, &[&more[0], &more[1]], code, words);
    };
    refuses(with("archive_sha256", "0".repeat(64).into()), &archive, DAMAGED, "in its manifest");
    refuses(with("archive_size_bytes", 10.into()), &archive, DAMAGED, "it is longer than 10 bytes");
    refuses(with("archive_size_bytes", 9999.into()), &archive, DAMAGED, "and 9999 in its manifest");
    refuses(with("version", 0.into()), &archive, TOO_NEW, "format version 0, written by snapshotter-0.1.0");
    refuses(with("schema", "other".into()), &archive, DAMAGED, "its schema is");
    refuses(
        with("chrome_major_version", 132.into()),
        &archive,
        34,
        "is of Chrome 132, and not of Chrome 131",
    );
    // That it is another archive counts, and not what is wrong with it.
    let mut damaged = archive.clone();
    let last = damaged.len() - 8;
    damaged[last] ^= 0xff;
    refuses(with("notes", "".into()), &damaged, DAMAGED, "its SHA-256 is");
}

/// Nor does one that was killed, once there is another.
#[test]
fn an_import_that_is_interrupted_leaves_nothing_behind() {
    let scenario = ImportScenario::new();
    let old = Scratch::make(&scenario.fixture.path("tmp"), scratch::Kind::Import).unwrap().keep();
    fs::write(old.join("Cookies"), "half of them").unwrap();
    let pipe = scenario.fixture.path("pipe.tar.zst");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let line = ["import", pipe.to_str().unwrap(), "acme/alice", "--chrome-major", "131"];
    let mut running = scenario.fixture.host.start(line);
    let mut writer = fs::File::options().write(true).open(&pipe).unwrap();
    // A database of which the end does not come.
    let cookies = Header { size: 1 << 20, ..Header::new("Default/Cookies", MemberKind::File) };
    let begun = [b"SQLite format 3\0".to_vec(), noise(600_000, 1)].concat();
    let begun = tar().directory("Default").member(&cookies, &begun).zstd();
    writer.write_all(&begun).unwrap();
    let aside = || {
        names(&scenario.fixture.path("tmp"))
            .iter()
            .any(|name| scenario.fixture.path("tmp").join(name).join("Default/Cookies").exists())
    };
    while running.runs() && !aside() {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(!old.exists());
    kill_process(Pid::from_raw(running.id().try_into().unwrap()).unwrap(), Signal::INT).unwrap();
    let ended = running.wait();
    assert_eq!(ended.code, Some(130), "{ended:#?}");
    assert_eq!(names(&scenario.fixture.path("tmp")), Vec::<String>::new());
    assert_eq!(scenario.state(), scenario.before);
}

#[test]
fn what_cannot_be_stored_is_left_out_and_counted() {
    let scenario = ImportScenario::new();
    let archive = tar()
        .file("a", b"x")
        .special(MemberKind::Fifo, "fifo")
        .special(MemberKind::CharDevice, "tty")
        .special(MemberKind::BlockDevice, "disk")
        .link(MemberKind::HardLink, "other-disk", "disk")
        .link(MemberKind::Symlink, "SingletonLock", "host-1")
        .end();
    let path = scenario.fixture.path("special.tar.zst");
    fs::write(&path, archive.zstd()).unwrap();
    let line = ["import", path.to_str().unwrap(), "acme/bob", "--chrome-major", "131"];
    let imported = scenario.fixture.host.succeed(line);
    assert_eq!(imported["skipped"], serde_json::json!({ "sockets": 0, "fifos": 1, "devices": 2 }));
    assert!(imported["warnings"][0].as_str().unwrap().contains("1 FIFO, 2 devices left out"), "{imported}");
    let out = scenario.fixture.path("out");
    scenario.fixture.host.restore("acme/bob", &out);
    assert_eq!(names(&out), ["a"]);
}
