//! These tests are a tenant that wishes the others ill, with all that its own credentials allow: it learns nothing
//! of them, reaches nothing of theirs, and gets nothing past those who read its data.
//!
//! What the credentials of each party reach is said in `SECURITY.md`. Beside this: paths that
//! leave a tree are refused by `store/src/tree/root_dir.rs` and `format-spec/vectors/refuse/`,
//! names by `store/src/name.rs`, texts for an operator's terminal are escaped
//! (`cli/tests/cli/foreign_text.rs`), and foreign bytes are decoded without a panic (`fuzz.rs`).
//! Trees, records and other documents that are forged whole are in `tenant/`.

mod forged;
mod leftovers;
mod limits;
mod sizes;
mod special;
mod turns;

use std::{
    collections::BTreeSet,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use serde_json::Value;
use store::format::index::Index;
use tests::{
    binary::Host,
    checker,
    server::SeaweedFs,
    tree::{assert_same, look_at, noise},
};

const ACME: &str = "acme/alice";
const GLOBEX: &str = "globex/bob";

pub(crate) fn fill(source: &Path) {
    fs::create_dir_all(source.join("Default")).unwrap();
    fs::write(source.join("Default/History"), noise(1_000_000, 1)).unwrap();
    fs::write(source.join("Default/Cookies"), "cookie ".repeat(50_000)).unwrap();
    fs::write(source.join("Last Version"), "131.0.6778.85").unwrap();
}

/// Two tenants with the same profile in one store, in a directory.
struct Neighbours {
    folder: tempfile::TempDir,
    host: Host,
    source: PathBuf,
}

impl Neighbours {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::local(&folder.path().join("home"), &folder.path().join("store"));
        let source = folder.path().join("source");
        fill(&source);
        host.snapshot(&source, ACME);
        host.snapshot(&source, GLOBEX);
        Self { folder, host, source }
    }

    fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join(below)
    }

    /// The objects in a folder of the store, by name.
    fn objects(&self, folder: &str) -> Vec<PathBuf> {
        let folder = self.path("store/objects").join(folder);
        let mut found: Vec<PathBuf> =
            fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        found.sort();
        found
    }

    /// The record of a lineage's only snapshot.
    fn record(&self, lineage: &str) -> PathBuf {
        let records = self.objects(&format!("snapshots/{lineage}"));
        let is_record = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("snap-");
        records.iter().find(is_record).unwrap().clone()
    }

    /// Changes a document as only its owner could: its check is right afterwards.
    fn forge(&self, path: &Path, change: impl FnOnce(&mut Value)) {
        let mut document: Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        change(&mut document);
        document["check"] = checker::check_of(&document).into();
        overwrite(path, document.to_string().as_bytes());
    }

    /// Whoever reads it gets an error with this code, and no files.
    #[track_caller]
    fn refused(&self, codes: &[i32], profile: &str) {
        let out = self.path("out");
        let ended = self.host.run(["restore", profile, out.to_str().unwrap(), "--no-cache"]);
        assert!(ended.code.is_some_and(|code| codes.contains(&code)), "{ended:#?}");
        assert!(!out.exists(), "something was restored");
    }
}

/// Objects may be read-only: they are replaced, not written to.
fn overwrite(path: &Path, bytes: &[u8]) {
    fs::remove_file(path).unwrap();
    fs::write(path, bytes).unwrap();
}

#[test]
fn a_name_leads_nowhere_else() {
    let neighbours = Neighbours::new();
    let before = look_at(&neighbours.path("store"));
    let directory = neighbours.source.to_str().unwrap();
    let (long, longest) = (format!("{}/a", "t".repeat(129)), "x/".repeat(600));
    for name in [
        "../globex/bob",
        "acme/../globex",
        "acme/..",
        "./alice",
        "acme/.alice",
        "acme/alice/131",
        "/acme/alice",
        "acme//alice",
        "acme/ali\nce",
        "acme/ali ce",
        "acme/%2e%2e",
        "acme\\globex/bob",
        "äcme/alice",
        "acme/",
        "/",
        "",
        &long,
        &longest,
    ] {
        for command in [
            &["snapshot", directory, name, "--chrome-major", "131"][..],
            &["restore", name, "/nonexistent/out"],
            &["verify", name],
            &["lock", "acquire", name, "--chrome-major", "131"],
            &["force-unlock", name, "--confirm", "--reason", "x"],
        ] {
            assert_eq!(neighbours.host.fail(2, command)["kind"], "invalid_input", "{command:?}");
        }
    }
    assert_eq!(look_at(&neighbours.path("store")), before, "nothing was written");
}

#[test]
fn nothing_tells_whether_somebody_else_has_the_same_bytes() {
    let neighbours = Neighbours::new();
    let ids = |tenant: &str| -> BTreeSet<String> {
        let indexes = neighbours.objects(&format!("content/{tenant}/index"));
        let decoded = indexes.iter().map(|path| Index::decode(&fs::read(path).unwrap()).unwrap());
        let chunks = decoded.flat_map(|index| index.packs).flat_map(|pack| pack.chunks);
        chunks.map(|chunk| format!("{:?}", chunk.id)).collect()
    };
    let (acme, globex) = (ids("acme"), ids("globex"));
    assert!(acme.len() > 10 && acme.len() == globex.len(), "{} and {}", acme.len(), globex.len());
    assert!(acme.is_disjoint(&globex), "the same bytes have the same name");
    // A third tenant that guesses the bytes is told that all of them are new.
    let guess = neighbours.host.snapshot(&neighbours.source, "initech/guess");
    assert_eq!(guess["new_chunks"], guess["chunks"], "{guess:#}");
    let bytes = |tenant: &str| -> u64 {
        let packs = neighbours.objects(&format!("content/{tenant}/packs"));
        packs.iter().map(|path| fs::metadata(path).unwrap().len()).sum()
    };
    assert!(bytes("acme").abs_diff(bytes("initech")) < 4096, "{} and {}", bytes("acme"), bytes("initech"));
}

#[test]
fn bytes_of_another_tenant_are_not_served_as_ones_own() {
    let neighbours = Neighbours::new();
    let packs = |tenant: &str| neighbours.objects(&format!("content/{tenant}/packs"));
    for (theirs, own) in packs("acme").iter().zip(packs("globex")) {
        overwrite(&own, &fs::read(theirs).unwrap());
    }
    neighbours.refused(&[10], GLOBEX);
    assert_eq!(neighbours.host.run(["verify", GLOBEX, "--no-cache"]).code, Some(10));
    neighbours.host.verify(ACME, &["--read-data", "--no-cache"]);
}

#[test]
fn a_record_of_another_tenant_is_not_taken_for_ones_own() {
    let neighbours = Neighbours::new();
    let (own, theirs) = (neighbours.record("globex/bob/131"), neighbours.record("acme/alice/131"));
    let bytes = fs::read(&theirs).unwrap();
    overwrite(&own, &bytes);
    neighbours.refused(&[10], GLOBEX);
    // Nor with names that fit: its chunk key does not.
    neighbours.forge(&own, |record| {
        record["tenant_id"] = "globex".into();
        record["profile_id"] = "bob".into();
        let name = own.file_stem().unwrap().to_str().unwrap().strip_prefix("snap-").unwrap();
        record["record"] = name.into();
    });
    neighbours.refused(&[10], GLOBEX);
    neighbours.host.verify(ACME, &["--read-data", "--no-cache"]);
}

#[test]
fn a_record_names_no_pack_outside_of_its_tenant() {
    let neighbours = Neighbours::new();
    let record = neighbours.record("globex/bob/131");
    let original = fs::read(&record).unwrap();
    let foreign = neighbours.objects("content/acme/packs");
    let foreign = foreign.iter().find(|path| path.to_str().unwrap().ends_with("-meta")).unwrap();
    let foreign = foreign.file_name().unwrap().to_str().unwrap();
    for name in
        ["../../acme/packs/x", "/etc/passwd", "..", "", &format!("../../acme/packs/{foreign}"), foreign]
    {
        neighbours.forge(&record, |record| {
            let content = &mut record["content"];
            content["root"]["pack"] = name.into();
            for list in ["packs", "meta_ranges"] {
                content[list].as_array_mut().unwrap().iter_mut().for_each(|used| used["pack"] = name.into());
            }
        });
        neighbours.refused(&[10, 3], GLOBEX);
        overwrite(&record, &original);
    }
    neighbours.host.verify(GLOBEX, &["--read-data", "--no-cache"]);
}

#[test]
fn a_link_is_stored_as_a_link_and_followed_by_nobody() {
    let neighbours = Neighbours::new();
    let secret = neighbours.path("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), noise(50_000, 66)).unwrap();
    symlink(&secret, neighbours.source.join("Default/Cache")).unwrap();
    symlink(secret.join("key"), neighbours.source.join("key")).unwrap();
    symlink("../../../../../../etc", neighbours.source.join("up")).unwrap();
    let taken = neighbours.host.snapshot(&neighbours.source, ACME);
    assert!(taken["new_bytes"].as_u64().unwrap() < 50_000, "what the link leads to was stored: {taken:#}");
    let before = look_at(&secret);

    // Links lie in wait where a profile is to be restored.
    let (out, at) = (neighbours.path("out"), neighbours.path("out").display().to_string());
    fs::create_dir(&out).unwrap();
    symlink(&secret, out.join("Default")).unwrap();
    symlink(secret.join("key"), out.join("Last Version")).unwrap();
    neighbours.host.succeed(["restore", ACME, &at, "--force"]);
    assert_same(&neighbours.source, &out);
    assert_eq!(look_at(&secret), before, "a link was followed");
    // And the target itself is one.
    let link = neighbours.path("link");
    symlink(&secret, &link).unwrap();
    let ended = neighbours.host.run(["restore", ACME, link.to_str().unwrap(), "--force"]);
    assert!(matches!(ended.code, Some(0 | 2 | 5 | 6)), "{ended:#?}");
    assert_eq!(look_at(&secret), before, "a link was followed");
}

#[test]
fn a_tenant_that_uses_up_its_room_takes_none_of_the_others() {
    let neighbours = Neighbours::new();
    let rules = neighbours.path("home/.config/pstore");
    fs::create_dir_all(&rules).unwrap();
    fs::write(rules.join("pstore.toml"), "[tenants.acme]\nquota_bytes = 2000000\n").unwrap();
    fs::write(neighbours.source.join("more"), noise(3_000_000, 9)).unwrap();
    let snapshot = |profile| tests::binary::snapshot(&neighbours.source, profile);
    assert_eq!(neighbours.host.fail(35, snapshot(ACME))["kind"], "quota_exceeded");
    assert_eq!(neighbours.host.succeed(snapshot(GLOBEX))["pointer"], "flipped");
}

#[test]
fn collecting_a_tenants_garbage_touches_no_other() {
    let neighbours = Neighbours::new();
    let before = look_at(&neighbours.path("store/objects/content/globex"));
    let first =
        neighbours.host.succeed(["list", ACME])["snapshots"][0]["sha256_prefix"].as_str().unwrap().to_owned();
    fs::write(neighbours.source.join("new"), noise(400_000, 5)).unwrap();
    neighbours.host.snapshot(&neighbours.source, ACME);
    neighbours.host.succeed(["delete", ACME, "--sha", &first]);
    for _ in 0..2 {
        neighbours.host.succeed(["gc", "acme", "--grace", "0"]);
    }
    assert_eq!(look_at(&neighbours.path("store/objects/content/globex")), before);
    neighbours.host.verify(GLOBEX, &["--read-data", "--no-cache"]);
    neighbours.host.verify(ACME, &["--read-data", "--no-cache"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn credentials_of_one_tenant_are_enough_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("source"), dir.path().join("out"));
    fill(&source);
    // Its own: tenants are not below a test's prefix here.
    let server = SeaweedFs::start().await;
    let acme = Host::s3(&dir.path().join("acme"), &server.tenant("acme")).impatient();
    let globex = Host::s3(&dir.path().join("globex"), &server.tenant("globex")).impatient();

    // Nobody has made the store; a tenant can be made without it.
    let stored = acme.snapshot(&source, "acme/alice");
    assert_eq!(stored["outcome"], "stored");
    assert_eq!(acme.snapshot(&source, "acme/alice")["outcome"], "unchanged");
    fs::write(source.join("new"), noise(100_000, 2)).unwrap();
    acme.snapshot(&source, "acme/alice");
    assert_eq!(acme.succeed(["list", "acme"])["profiles"][0]["profile_id"], "alice");
    assert_eq!(acme.succeed(["list", "acme/alice"])["snapshots"].as_array().unwrap().len(), 2);
    acme.succeed(["show", "acme/alice"]);
    acme.verify("acme/alice", &["--read-data"]);
    assert_eq!(acme.succeed(["stats", "acme"])["total"]["snapshots"], 2);
    acme.restore("acme/alice", &out);
    assert_same(&source, &out);

    // The other tenant's, there or not.
    let (directory, target) = (source.to_str().unwrap(), dir.path().join("stolen"));
    let target = target.to_str().unwrap();
    let commands: [&[&str]; 7] = [
        &["list", "acme"],
        &["list", "acme/alice"],
        &["show", "acme/alice"],
        &["verify", "acme/alice"],
        &["stats", "acme"],
        &["restore", "acme/alice", target],
        &["snapshot", directory, "acme/alice"],
    ];
    for command in commands {
        let error = globex.fail(13, command);
        assert_eq!(error["kind"], "denied", "{command:?}");
    }
    assert!(!Path::new(target).exists());
    acme.fail(13, ["snapshot", directory, "globex/bob"]);
    globex.snapshot(&source, "globex/bob");
    globex.verify("globex/bob", &["--read-data"]);
    acme.verify("acme/alice", &["--read-data"]);
}
