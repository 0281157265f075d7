//! These tests export archives: each is what it says, and every reader of tar reads it alike.

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use store::{
    bucket::{Bucket, MemoryBucket},
    format::{layout, manifest::Manifest},
    ops::archive::export::{self, Archive, Exported, Framing, Request, Times},
    progress::Silent,
};
use tests::{
    archive::{DECODERS, Reader, archived, decoded, first_frame, sha256, tar_of},
    chromium::{Chromium, Site},
    store_fixture::StoreFixture,
    tree::{assert_seen, look_at, make_odd, noise, set_mtime},
};

const SOLID: Framing = Framing::Solid { level: 3, threads: 2 };
const BOTH: [Framing; 2] = [SOLID, Framing::Splice];

struct ExportScenario {
    folder: tempfile::TempDir,
    fixture: StoreFixture,
}

impl ExportScenario {
    /// A store with a snapshot of what `make` puts into a directory.
    async fn new(make: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("source");
        fs::create_dir(&source).unwrap();
        make(&source);
        let fixture = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
        fixture.snapshot(&source).await.unwrap();
        Self { folder, fixture }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    async fn export(&self, framing: Framing, to: &str) -> Exported {
        let request = Request { framing, times: Times::Exact, seal: None, max_bytes: u64::MAX };
        self.export_as(request, to).await.unwrap()
    }

    async fn export_as(&self, request: Request, to: &str) -> store::Result<Exported> {
        let StoreFixture { store, lineage, .. } = &self.fixture;
        let record = self.fixture.current().await?;
        export::to_directory(store, lineage, &record, request, &self.path(to), Arc::new(Silent)).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_reader_gets_every_odd_entry() {
    let scenario = ExportScenario::new(|source| {
        make_odd(source);
        let long = source.join("y".repeat(120));
        fs::create_dir(&long).unwrap();
        std::os::unix::fs::symlink("t".repeat(300), long.join("long target")).unwrap();
        std::os::unix::fs::chown(source.join("tiny"), Some(3_000_000), Some(4_000_000_000)).unwrap();
    })
    .await;
    let expected = archived(&scenario.path("source"));
    let mut wrong = Vec::new();
    for framing in BOTH {
        let exported = scenario.export(framing, "archives").await;
        for reader in Reader::ALL {
            let out = scenario.path(&format!("{reader:?} {framing:?}"));
            reader.unpack(&exported.archive_path, &out);
            let (mut expected, mut found) = (expected.clone(), look_at(&out));
            reader.forget(&mut expected);
            reader.forget(&mut found);
            let paths: BTreeSet<_> = expected.keys().chain(found.keys()).collect();
            for path in paths.into_iter().filter(|path| expected.get(*path) != found.get(*path)) {
                let (was, is) = (expected.get(path), found.get(path));
                wrong.push(format!("{reader:?}: {} was {was:?} and is {is:?}", path.display()));
            }
            let owner = fs::metadata(out.join("tiny")).unwrap();
            if (owner.uid(), owner.gid()) != (3_000_000, 4_000_000_000) {
                wrong.push(format!("{reader:?}: {owner:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_depends_on_the_tree_alone() {
    let scenario = ExportScenario::new(|source| {
        make_odd(source);
    })
    .await;
    let solid = scenario.export(SOLID, "solid").await;
    let spliced = scenario.export(Framing::Splice, "spliced").await;
    let again = scenario.export(SOLID, "again").await;
    assert_eq!(solid.archive, again.archive);
    assert_eq!(fs::read(&solid.archive_path).unwrap(), fs::read(&again.archive_path).unwrap());
    assert_ne!(solid.archive.sha256, spliced.archive.sha256);
    assert_eq!(solid.archive.tar_sha256, spliced.archive.tar_sha256);
    // What is said of it is so.
    for Exported { archive, manifest, archive_path, manifest_path } in [&solid, &spliced] {
        let bytes = fs::read(archive_path).unwrap();
        assert_eq!(
            archive_path.file_name().unwrap().to_str().unwrap(),
            layout::archive_name(&archive.sha256.prefix())
        );
        assert_eq!((sha256(&bytes), bytes.len() as u64), (archive.sha256, archive.size_bytes));
        let tar = tar_of(archive_path);
        assert_eq!((sha256(&tar), tar.len() as u64), (archive.tar_sha256, archive.tar_size_bytes));
        assert_eq!(Manifest::decode(&fs::read(manifest_path).unwrap()).unwrap(), *manifest);
        assert_eq!(
            (manifest.archive_sha256, manifest.archive_size_bytes),
            (archive.sha256, archive.size_bytes)
        );
    }
    // A store that holds the same tree in other packs gives the same stream.
    let other = StoreFixture::open(Arc::new(MemoryBucket::new()), None).await;
    other.snapshot(&scenario.path("source")).await.unwrap();
    let other = ExportScenario { folder: tempfile::tempdir().unwrap(), fixture: other };
    assert_eq!(other.export(SOLID, "x").await.archive.tar_sha256, solid.archive.tar_sha256);
}

#[tokio::test(flavor = "multi_thread")]
async fn times_can_be_left_at_whole_seconds() {
    let scenario = ExportScenario::new(|source| {
        fs::write(source.join("file"), "x").unwrap();
        set_mtime(&source.join("file"), 1_000_000_000, 5);
        set_mtime(source, 1_000_000_001, 6);
    })
    .await;
    let exact = scenario.export(SOLID, "exact").await.archive;
    let request = Request { framing: SOLID, times: Times::Seconds, seal: None, max_bytes: u64::MAX };
    let seconds = scenario.export_as(request, "seconds").await.unwrap();
    // A pax header less for each of the two.
    assert_eq!(exact.tar_size_bytes - seconds.archive.tar_size_bytes, 2 * 1024);
    let out = scenario.path("out");
    Reader::GnuTar.unpack(&seconds.archive_path, &out);
    assert_eq!(look_at(&out)[Path::new("file")].mtime, (1_000_000_000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_predecessor_is_called_by_its_snapshot_until_it_has_an_archive() {
    let scenario = ExportScenario::new(|source| fs::write(source.join("file"), "1").unwrap()).await;
    let first = scenario.fixture.current().await.unwrap();
    fs::write(scenario.path("source/file"), "2").unwrap();
    scenario.fixture.snapshot(&scenario.path("source")).await.unwrap();
    let manifest = scenario.export(SOLID, "archives").await.manifest;
    assert_eq!(manifest.predecessor_sha256, first.sha256());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_chunk_ends_the_export_and_leaves_nothing() {
    let scenario =
        ExportScenario::new(|source| fs::write(source.join("file"), noise(1 << 20, 1)).unwrap()).await;
    let packs = layout::packs(&scenario.fixture.store.tenant);
    let root: &Arc<dyn Bucket> = &scenario.fixture.root;
    let page = root.list(&packs, store::bucket::Depth::All, None).await.unwrap();
    let key = page.entries.iter().map(|entry| &entry.key).find(|key| !key.name().ends_with("-meta")).unwrap();
    let object = root.get(key, u64::MAX).await.unwrap();
    let mut bytes = object.bytes.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    root.put(key, bytes.into(), store::bucket::Write::Replace(object.version)).await.unwrap();
    for framing in BOTH {
        let request = Request { framing, times: Times::Exact, seal: None, max_bytes: u64::MAX };
        let error = scenario.export_as(request, "archives").await.unwrap_err();
        assert_eq!(error.kind(), store::ErrorKind::Damaged, "{error}");
        assert_eq!(fs::read_dir(scenario.path("archives")).unwrap().count(), 0);
    }
}

/// Who stops after the first frame must notice that it was not all.
#[tokio::test(flavor = "multi_thread")]
async fn a_first_frame_alone_is_all_of_a_solid_archive_and_no_archive_of_a_spliced_one() {
    let scenario =
        ExportScenario::new(|source| fs::write(source.join("file"), noise(1 << 20, 1)).unwrap()).await;
    for framing in BOTH {
        let Exported { archive, archive_path, .. } = scenario.export(framing, "archives").await;
        let bytes = fs::read(&archive_path).unwrap();
        let first = first_frame(&bytes);
        match framing {
            Framing::Solid { .. } => assert_eq!(sha256(&first), archive.tar_sha256),
            Framing::Splice => {
                assert_eq!(first.len(), 256);
                let tar = scenario.path("first.tar");
                fs::write(&tar, &first).unwrap();
                for lister in ["tar", "bsdtar"] {
                    let listed = Command::new(lister).arg("-tf").arg(&tar).output().unwrap();
                    assert!(!listed.status.success(), "{lister}: {listed:?}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_profile_is_an_archive_too() {
    let scenario = ExportScenario::new(|_| {}).await;
    for framing in BOTH {
        let exported = scenario.export(framing, "archives").await;
        let Archive { files, skipped, .. } = exported.archive;
        assert_eq!((files, skipped), (0, 0));
        let out = scenario.path(&format!("{framing:?}"));
        Reader::GnuTar.unpack(&exported.archive_path, &out);
        assert_seen(&look_at(&scenario.path("source")), &out);
    }
}

/// As `docs/archives.md` has it.
#[tokio::test(flavor = "multi_thread")]
async fn decoders_read_what_the_table_says_and_those_that_stop_early_are_left_with_no_archive() {
    let scenario = ExportScenario::new(|source| {
        fs::write(source.join("file"), noise(1 << 20, 1)).unwrap();
        fs::write(source.join("text"), "all work and no play ".repeat(50_000)).unwrap();
    })
    .await;
    for framing in BOTH {
        let Exported { archive, archive_path, .. } = scenario.export(framing, "archives").await;
        let first = sha256(&first_frame(&fs::read(&archive_path).unwrap()));
        for (decoder, reads_on) in DECODERS {
            let all = matches!(framing, Framing::Solid { .. }) || reads_on;
            let expected = if all { archive.tar_sha256 } else { first };
            assert_eq!(decoded(decoder, &archive_path), expected.to_string(), "{decoder}, {framing:?}");
        }
        assert_eq!(sha256(&tar_of(&archive_path)), archive.tar_sha256);
        for lister in ["tar", "bsdtar"] {
            let listed = Command::new(lister).arg("-tf").arg(&archive_path).output().unwrap();
            assert_eq!(String::from_utf8_lossy(&listed.stdout), "./\nfile\ntext\n", "{lister}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn chromium_finds_everything_in_what_tar_made_of_its_profile() {
    let site = Site::start();
    let scenario = ExportScenario::new(|source| {
        let chromium = Chromium::start(source);
        site.leave(&mut chromium.devtools(), "kept");
        chromium.close();
    })
    .await;
    let expected = archived(&scenario.path("source"));
    for (framing, reader) in BOTH.into_iter().zip([Reader::GnuTar, Reader::Python]) {
        let exported = scenario.export(framing, "archives").await;
        let out = scenario.path(&format!("{reader:?}"));
        reader.unpack(&exported.archive_path, &out);
        let (mut expected, mut found) = (expected.clone(), look_at(&out));
        reader.forget(&mut expected);
        reader.forget(&mut found);
        assert_eq!(found, expected, "{reader:?}");
        let chromium = Chromium::start(&out);
        assert_eq!(site.find(&mut chromium.devtools()), Site::all("kept"), "{reader:?}");
        chromium.close();
    }
}
