//! These tests compare every document that is printed with the one kept beside the tests, and with its schema.
//!
//! What differs from run to run (times, ids, sizes of compressed bytes, places) is replaced
//! by something of the same form. After a change that is meant,
//! `PSTORE_WRITE_DOCUMENTS=1 cargo nextest run --workspace -E 'test(documents)'` writes them
//! anew; what `git diff` then shows is what users of `--json` will notice.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::{
    schema::Schema,
    test_host::{Ran, TestHost, ended, signal, until},
};

/// Fields that depend on the host, or on bytes that are compressed.
const VARIES: [&str; 24] = [
    "epoch_secs",
    "epoch_millis",
    "watcher_pid",
    "round_trips",
    "archive_size_bytes",
    "freed_bytes",
    "pid",
    "journal_bytes",
    "cache_hits",
    "cache_misses",
    "cache_hit_ratio",
    "stored_bytes",
    "fetched_bytes",
    "read_bytes",
    "dedup_ratio",
    "bytes",
    "live_bytes",
    "len",
    "offset",
    "raw_len",
    "stored_len",
    "warned",
    "failed",
    "total",
];

/// Fields of containers that depend on the programs in their images.
const VARIES_OF_CONTAINERS: [&str; 2] = ["uncompressed_size_bytes", "new_bytes"];

fn kept(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cli/documents").join(format!("{name}.json"))
}

/// A document's name is its schema's, and what is special about it.
fn schema(name: &str) -> Schema {
    Schema::of(name.split('.').next().unwrap())
}

/// A test that fails leaves no mount behind.
struct Unmounted<'a>(&'a TestHost);

impl Drop for Unmounted<'_> {
    fn drop(&mut self) {
        self.0.run("unmount mnt --discard");
    }
}

pub struct Keeper<'a> {
    pub host: &'a TestHost,
    pub names: BTreeSet<String>,
    pub wrong: Vec<String>,
}

impl Keeper<'_> {
    /// Runs a line and compares its document with the one that is kept.
    pub fn keep(&mut self, name: &str, line: &str) -> Value {
        let host = [("PSTORE_HOST_NAME", "host-1"), ("PSTORE_RUN_ID", "run-1")];
        self.keep_ran(name, &self.host.run_with(&format!("{line} --json"), &host))
    }

    pub fn keep_ran(&mut self, name: &str, ran: &Ran) -> Value {
        let document = ran.json();
        assert!(self.names.insert(name.to_owned()), "{name} twice");
        let redacted = self.redacted(None, &document);
        let mut text = serde_json::to_string_pretty(&redacted).unwrap();
        text.push('\n');
        if std::env::var_os("PSTORE_WRITE_DOCUMENTS").is_some() {
            fs::write(kept(name), &text).unwrap();
        }
        let expected = fs::read_to_string(kept(name)).unwrap_or_default();
        if text != expected {
            self.wrong.push(format!("{name} is now {text}instead of {expected}"));
        }
        // The real one too: redaction must not hide a misfit.
        for candidate in [&document, &redacted] {
            self.wrong.extend(
                schema(name).misfits(candidate).into_iter().map(|misfit| format!("{name}: {misfit}")),
            );
        }
        document
    }

    fn redacted(&self, key: Option<&str>, value: &Value) -> Value {
        match value {
            Value::Object(fields) if fields.contains_key("advice") => {
                json!({ "name": fields["name"], "status": "ok", "found": "…", "advice": null })
            }
            // Of a metric that has many series, one shows how they look.
            Value::Array(items) if key == Some("series") => {
                items.iter().take(1).map(|item| self.redacted(Some("series"), item)).collect()
            }
            Value::Object(fields) if key == Some("series") => {
                json!({ "labels": fields["labels"], "value": 1.5, "count": fields["count"] })
            }
            Value::Object(fields) => {
                fields.iter().map(|(key, value)| (key.clone(), self.redacted(Some(key), value))).collect()
            }
            Value::Array(items) => items.iter().map(|item| self.redacted(key, item)).collect(),
            Value::String(_) if matches!(key, Some("snapshotId" | "parentSnapshotId" | "saved_before")) => {
                json!("018bcfe5-687b-7000-8000-000000000000")
            }
            Value::String(id) if key == Some("snapshot_id") && id.contains('-') => {
                json!("018bcfe5-687b-7000-8000-000000000000")
            }
            Value::String(_) if key == Some("timestamp") => json!("2023-11-14T22:13:20.123Z"),
            Value::Number(_) if key.is_some_and(|key| key.ends_with("_at_ms")) => {
                json!(1_700_000_000_000_u64)
            }
            Value::Number(_) if key.is_some_and(|key| key.ends_with("_ms")) => json!(0),
            Value::Number(_) if key.is_some_and(|key| self.varies_of_containers(key)) => json!(1),
            Value::Number(number) if key.is_some_and(|key| VARIES.contains(&key)) => {
                if number.is_f64() {
                    json!(1.5)
                } else {
                    json!(1)
                }
            }
            Value::String(_) if matches!(key, Some("script" | "page" | "user")) => json!("…"),
            Value::String(_) if key == Some("timestamp") => json!("2023-11-14T22:13:20.000Z"),
            Value::String(text) => json!(self.redacted_text(text)),
            other => other.clone(),
        }
    }

    fn varies_of_containers(&self, key: &str) -> bool {
        VARIES_OF_CONTAINERS.contains(&key) && self.names.iter().all(|name| name.starts_with("container"))
    }

    fn redacted_text(&self, text: &str) -> String {
        let home = self.host.path("");
        let text = text.replace(home.to_str().unwrap().trim_end_matches('/'), "/home/user");
        let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
        let (mut plain, mut word) = (String::new(), String::new());
        for c in text.chars().chain(['\0']) {
            if c.is_ascii_alphanumeric() {
                word.push(c);
                continue;
            }
            let hex = word.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            let upper = word.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase());
            let random =
                matches!((word.len(), hex), (12 | 24 | 32 | 64, true)) || (word.len() == 26 && upper);
            plain.push_str(&if random { "0".repeat(word.len()) } else { std::mem::take(&mut word) });
            word.clear();
            if c != '\0' {
                plain.push(c);
            }
        }
        // Of locks: how long they hold yet.
        match plain.split_once("expires in ") {
            Some((before, after)) => {
                format!("{before}expires in 0{}", after.trim_start_matches(|c: char| c.is_ascii_digit()))
            }
            None => plain,
        }
    }
}

#[test]
fn documents_are_those_that_are_kept() {
    let host = TestHost::new();
    let mut keeper = Keeper { host: &host, names: BTreeSet::new(), wrong: Vec::new() };
    keeper.keep("error.no-store", "list acme/alice");
    keeper.keep("error.usage", "list a:b");
    keeper.keep("init.created", "init");
    keeper.keep("init.existing", "init");
    let first = keeper.keep("snapshot.first", "snapshot udd acme/alice --label task=checkout --notes hello");
    // A cache would tell that files are what they were, once they are old enough.
    keeper.keep("snapshot.unchanged", "snapshot udd acme/alice --no-cache");
    fs::write(host.path("udd/new"), "new").unwrap();
    let second = keeper.keep(
        "snapshot.next",
        "snapshot udd acme/alice --no-cache --host-region eu-central-1 --reason autosave",
    );
    let prefix = |snapshot: &Value| snapshot["active_sha256_prefix"].as_str().unwrap().to_owned();
    let (first, second) = (prefix(&first), prefix(&second));
    keeper.keep("expect.shown", "expect acme/alice");
    let expected = "--cookie .example.com:sid --origin https://app.example.com --file Default/Preferences";
    keeper.keep("expect", &format!("expect acme/alice {expected}"));
    keeper.keep("list.expiry", "list acme --expiry");
    host.ok("expect acme/alice --clear");
    keeper.keep("tag.tagged", "tag acme/alice keep-me");
    keeper.keep("tag.unchanged", "tag acme/alice keep-me");
    keeper.keep("list.tenants", "list");
    keeper.keep("list.profiles", "list acme");
    keeper.keep("list.snapshots", "list acme/alice");
    keeper.keep("show", "show acme/alice");
    keeper.keep("show.first", &format!("show acme/alice --sha {first}"));
    keeper.keep("diff", &format!("diff acme/alice {first}"));
    keeper.keep("diff.profile", &format!("diff acme/alice {first} --profile"));
    keeper.keep("diff.stat", &format!("diff acme/alice {first} --stat"));
    keeper.keep("ls", "ls acme/alice Default");
    keeper.keep("find", "find acme/alice new --all");
    keeper.keep("history", "history acme/alice");
    keeper.keep("restore", "restore acme/alice out");
    keeper.keep("export", "export acme/alice -o archives");
    keeper.keep("export.spliced", "export acme/alice -o archives --splice");
    keeper.keep("export.published", &format!("export acme/alice --sha {first} --publish"));
    keeper.keep("export.unchanged", &format!("export acme/alice --sha {first} --publish"));
    keeper.keep("restore.loaded", "restore acme/alice loaded --chrome-major 131 --normalise-exit");
    keeper.keep("restore.fallback", "restore acme/alice fresh --chrome-major 99");
    keeper.keep("restore.nothing", "restore acme/nobody nothing --chrome-major 131");
    keeper.keep("error.version-mismatch", "restore acme/alice never --chrome-major 99 --require");
    keeper.keep("error.not-implemented", "snapshot udd acme/alice --mode hot");
    keeper.keep("snapshot.held-back", "snapshot fresh acme/alice --chrome-major 131");
    keeper.keep("verify.whole", "verify acme/alice");
    keeper.keep("verify.tenant", "verify acme");
    keeper.keep("stats", "stats");
    keeper.keep("stats.tenant", "stats acme");
    keeper.keep("retention-plan", "retention plan acme");
    keeper.keep("tag.untagged", "untag acme/alice keep-me");

    keeper.keep("lock-show.free", "lock show acme/alice");
    let taken = keeper.keep("lock-acquire", "lock acquire acme/alice --host-run-id fc-01");
    let token = taken["token"].as_str().unwrap();
    keeper.keep("lock-show.held", "lock show acme/alice");
    keeper.keep("error.lock-held", "lock acquire acme/alice");
    keeper.keep("lock-renew", &format!("lock renew acme/alice --token {token}"));
    keeper.keep("rollback.planned", &format!("rollback acme/alice --sha {first} --force"));
    keeper
        .keep("rollback.done", &format!("rollback acme/alice --sha {first} --force --confirm --reason bad"));
    keeper.keep("rollback.unchanged", &format!("rollback acme/alice --sha {first} --force --confirm"));
    keeper.keep("error.pointer-moved", &format!("snapshot udd acme/alice --lock-token {token}"));
    keeper.keep("force-unlock.planned", "force-unlock acme/alice --reason stuck");
    keeper.keep("force-unlock.done", "force-unlock acme/alice --reason stuck --confirm");
    keeper.keep("force-unlock.free", "force-unlock acme/alice --reason stuck --confirm");
    keeper.keep("error.lock-lost", &format!("lock renew acme/alice --token {token}"));
    keeper.keep("lock-release.not-held", &format!("lock release acme/alice --token {token}"));
    let token = host.acquire("run-2", "--host host-1");
    keeper.keep("lock-release", &format!("lock release acme/alice --token {token}"));
    host.forget("run-3", "--host host-1");
    keeper.keep("lock-show.expired", "lock show acme/alice");
    keeper.keep("reap.evicted", "reap --grace 0");
    keeper.keep("reap", "reap");
    let hold = host.command("lock hold acme/alice --run-id run-4 --json -- true").output().unwrap();
    keeper.keep_ran("lock-hold", &Ran::of("lock hold", hold));
    let run = host.command("run acme/other --chrome-major 131 --run-id run-5 --host host-1 --json -- true");
    let run = { run }.output().unwrap();
    keeper.keep_ran("run", &Ran::of("run", run));
    let mut run = host.command("run acme/other --chrome-major 131 --directory gone --json -- sh -c");
    let run = run.args(["echo noise; rm -r $0; exit 3", "{profile}"]).output().unwrap();
    keeper.keep_ran("run.snapshot-failed", &Ran::of("run", run));
    keeper.keep("error.snapshot-needed", &format!("delete acme/alice --sha {first}"));
    keeper.keep("delete", &format!("delete acme/alice --sha {second} --reason old"));
    keeper.keep("retention-apply", "retention apply acme/alice");
    keeper.keep("gc.explained", &format!("gc acme --explain {first}"));
    keeper.keep("gc.planned", "gc --dry-run");
    keeper.keep("gc", "gc acme");
    keeper.keep("gc.waiting", "gc acme --dry-run");
    keeper.keep("gc.swept", "gc acme --grace 0");
    let indexes = host.path(".local/share/pstore/store/objects/content/acme/index");
    fs::read_dir(indexes).unwrap().for_each(|entry| fs::remove_file(entry.unwrap().path()).unwrap());
    keeper.keep("verify.repaired", "verify acme/alice --repair --structure --no-cache");
    keeper.keep("log", "log acme/alice");

    fs::write(host.object("lock.json"), "{").unwrap();
    keeper.keep("reap.failed", "reap");
    let packs = host.path(".local/share/pstore/store/objects/content/acme/packs");
    let largest = fs::read_dir(packs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .max_by_key(|path| path.metadata().unwrap().len());
    fs::write(largest.unwrap(), "damage").unwrap();
    keeper.keep("verify.damaged", "verify acme/alice --no-cache");
    keeper.keep("verify.store", "verify --no-cache");

    let made = "tar --sort=name -C udd -c . | zstd -q > udd.tar.zst";
    assert!(Command::new("sh").args(["-c", made]).current_dir(host.path("")).status().unwrap().success());
    keeper.keep("import", "import udd.tar.zst acme/imported --chrome-major 131");
    keeper.keep("delete.all-planned", "delete acme/imported --all");
    keeper.keep("delete.all", "delete acme/imported --all --confirm --reason offboarded");
    keeper.keep("list.profiles-deleted", "list acme");
    keep_projects(&host, &mut keeper);
    keeper.keep("token-new", "token new --tenant acme --role run --expires never --name ci");
    let (tokens, socket) = (host.path("tokens.toml"), host.path("socket"));
    fs::write(&tokens, "").unwrap();
    let listen = format!("--listen unix:{}", socket.display());
    let server = host.start(&format!("serve --tokens tokens.toml {listen} --json"));
    until("the server listens", || socket.exists());
    signal(&server, "TERM");
    keeper.keep_ran("serve", &ended(server));
    fs::create_dir(host.path("project")).unwrap();
    host.ok("workspace start project acme/agent-7 --no-watch");
    keeper.keep("mcp", "mcp --workspace project");
    keeper.keep("doctor", "doctor");
    keeper.keep("metrics", "metrics");
    keeper.keep("config-show", "config show");
    keeper.keep("config-show.tenant", "config show acme");
    keeper.keep("completions", "completions bash");
    keeper.keep("man.page", "man");
    keeper.keep("man.directory", "man pages");

    let mut names = keeper.names;
    let mut wrong = keeper.wrong;
    let host = TestHost::new();
    let mut keeper = Keeper { host: &host, names: BTreeSet::new(), wrong: Vec::new() };
    keep_mounts(&host, &mut keeper);
    names.extend(keeper.names);
    wrong.extend(keeper.wrong);
    let host = TestHost::new();
    let mut keeper = Keeper { host: &host, names: BTreeSet::new(), wrong: Vec::new() };
    keep_workspaces(&host, &mut keeper);
    names.extend(keeper.names);
    wrong.extend(keeper.wrong);

    let left = fs::read_dir(kept("x").parent().unwrap()).unwrap();
    let left: BTreeSet<String> =
        left.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    // Those of containers are compared where there is a daemon.
    let left: BTreeSet<String> = left.into_iter().filter(|name| !name.starts_with("container-")).collect();
    assert_eq!(left, names, "each that is kept is compared");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn keep_projects(host: &TestHost, keeper: &mut Keeper<'_>) {
    fs::create_dir_all(host.path("current/volumes/uploads")).unwrap();
    fs::write(host.path("current/volumes/uploads/photo"), "photo").unwrap();
    let text = "name = \"acme/shop\"\nstate = \"current\"\napp_version = \"2.4.1\"\n\
                [volumes.uploads]\nconsistency = \"generic\"\n";
    fs::write(host.path("shop.toml"), text).unwrap();
    keeper.keep("project-save", "project save shop.toml --label ticket=42");
    keeper.keep("project-restore", "project restore shop.toml");
    keeper.keep("project-list", "project list shop.toml");
    keeper.keep("project-show", "project show shop.toml@latest~1");
    keeper.keep("project-delete", "project delete shop.toml@latest~1 --reason old");
    fs::write(host.path("shop.toml"), format!("{text}[[hooks.pre_save]]\ncommand = [\"false\"]\n")).unwrap();
    keeper.keep("error.command-failed", "project save shop.toml");
}

fn keep_workspaces(host: &TestHost, keeper: &mut Keeper<'_>) {
    fs::create_dir_all(host.path("project/src")).unwrap();
    fs::write(host.path("project/src/main.py"), "print(1)\n").unwrap();
    keeper.keep("workspace-start", "workspace start project acme/agent-7 --no-watch");
    keeper.keep("error.no-workspace", "workspace list udd");
    keeper.keep(
        "checkpoint",
        "checkpoint project --name before-refactor --run-id run-1 --description refactor",
    );
    fs::write(host.path("project/src/main.py"), "print(2)\n").unwrap();
    fs::write(host.path("project/new"), "new").unwrap();
    keeper.keep("workspace-changes", "workspace changes project");
    keeper.keep("checkpoint.trigger", "checkpoint project --trigger before_action --run-id run-1");
    keeper.keep("checkpoint.too-soon", "checkpoint project --trigger before_action --run-id run-1");
    keeper.keep("workspace-revert.preview", "workspace revert project --all --to before-refactor --preview");
    keeper.keep("workspace-revert", "workspace revert project --all --to before-refactor");
    keeper.keep("workspace-events", "workspace events project");
    keeper.keep("workspace-history", "workspace history project src/main.py");
    keeper.keep("workspace-list", "workspace list project");
    keeper.keep("workspace-fork", "workspace fork project try --from before-refactor");
    fs::write(host.path("try/src/main.py"), "print(3)\n").unwrap();
    keeper.keep("workspace-promote", "workspace promote try project");
    keeper.keep("workspace-delete", "workspace delete project before-refactor");
    host.ok("workspace start project");
    keeper.keep("workspace-status", "workspace status project");
    keeper.keep("workspace-stop", "workspace stop project");
}

fn keep_mounts(host: &TestHost, keeper: &mut Keeper<'_>) {
    host.ok("snapshot udd acme/alice");
    fs::create_dir(host.path("mnt")).unwrap();
    let _unmounted = Unmounted(host);
    keeper.keep("mount", "mount acme/alice mnt --run-id run-6");
    fs::write(host.path("mnt/note"), "new").unwrap();
    // The kernel tells a little later that a file was closed.
    until("it is closed", || host.json("mounts")["mounts"][0]["open_for_writing"] == json!([]));
    keeper.keep("mounts", "mounts");
    keeper.keep("top", "top");
    keeper.keep("error.uncommitted", "unmount mnt");
    keeper.keep("unmount.kept", "unmount mnt --keep");
    let cut_short = keeper.keep("sessions", "sessions");
    let session = cut_short["sessions"][0]["session"].as_str().unwrap();
    keeper.keep("sessions-remote", "sessions --remote acme");
    keeper.keep("sessions-set-aside", &format!("sessions set-aside {session}"));
    keeper.keep("sessions-rescue", &format!("sessions rescue {session} --as acme/rescued"));
    host.ok("mount acme/rescued mnt");
    fs::write(host.path("mnt/note"), "newer").unwrap();
    keeper.keep("commit", "commit mnt");
    keeper.keep("commit.unchanged", "commit mnt");
    fs::write(host.path("mnt/note"), "newest").unwrap();
    // The journal that says what was committed cannot be begun.
    let session = host.json("mounts")["mounts"][0]["session"].as_str().unwrap().to_owned();
    let in_the_way = host.path(".local/state/pstore/sessions").join(session).join("journal.new");
    fs::create_dir(&in_the_way).unwrap();
    keeper.keep("commit.behind", "commit mnt");
    fs::remove_dir(&in_the_way).unwrap();
    let reader = fs::File::open(host.path("mnt/note")).unwrap();
    keeper.keep("unmount.busy", "unmount mnt --commit");
    drop(reader);
    fs::write(host.path("mnt/note"), "last").unwrap();
    keeper.keep("unmount", "unmount mnt --commit");
    host.ok("mount acme/rescued mnt");
    fs::write(host.path("mnt/note"), "dropped").unwrap();
    host.ok("unmount mnt --keep");
    let cut_short = host.json("sessions");
    let session = cut_short["sessions"][0]["session"].as_str().unwrap();
    keeper.keep("sessions-discard", &format!("sessions discard {session} --confirm"));
}

/// Every field that is documented as such, and every schema, is used.
/// After a change that is meant, `PSTORE_WRITE_DOCUMENTS=1` writes the schemas anew.
#[test]
fn the_schemas_of_the_manual_are_those_of_the_types() {
    let crates =
        [engine::schemas::all(), volumes::schemas::all(), server::documents::all(), mcp::documents::all()];
    for (name, schema) in crates.into_iter().flatten() {
        let path = Schema::directory().join(format!("{name}.json"));
        let text = format!("{}\n", serde_json::to_string_pretty(&schema).unwrap());
        if std::env::var_os("PSTORE_WRITE_DOCUMENTS").is_some() {
            fs::write(&path, &text).unwrap();
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(kept, text, "docs/schemas/{name}.json is not what the types say");
    }
}

#[test]
fn every_schema_has_a_document_and_a_link() {
    let manual = fs::read_to_string(Schema::directory().join("../json.md")).unwrap();
    for entry in fs::read_dir(Schema::directory()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let documents = fs::read_dir(kept("x").parent().unwrap()).unwrap();
        let of_schema =
            |file: &Path| file.file_name().unwrap().to_str().unwrap().split('.').next() == Some(name);
        assert!(
            documents.into_iter().any(|entry| of_schema(&entry.unwrap().path())),
            "{name} has no document"
        );
        assert!(manual.contains(&format!("(schemas/{name}.json)")), "docs/json.md does not link {name}");
    }
}

#[test]
fn the_schema_knows_every_kind_of_failure() {
    let codes = fs::read_to_string(Schema::directory().join("../exit-codes.md")).unwrap();
    let kinds = codes
        .lines()
        .filter_map(|line| Some(line.split('|').nth(2)?.trim().strip_prefix('`')?.trim_end_matches('`')));
    for kind in kinds {
        let error = json!({ "error": { "kind": kind, "message": "", "hint": null, "exit_code": 1 } });
        assert_eq!(schema("error").misfits(&error), Vec::<String>::new());
    }
}

#[test]
fn a_schema_refuses_what_it_should() {
    let schema = schema("lock-release");
    let good =
        json!({ "outcome": "released", "tenant_id": "a", "profile_id": "b", "chrome_major_version": 131 });
    assert_eq!(schema.misfits(&good), Vec::<String>::new());
    for (field, value) in
        [("outcome", json!("gone")), ("chrome_major_version", json!("131")), ("more", json!(1))]
    {
        let mut bad = good.clone();
        bad[field] = value;
        assert_eq!(schema.misfits(&bad).len(), 1, "{bad}");
    }
    let mut bad = good;
    bad.as_object_mut().unwrap().remove("tenant_id");
    assert_eq!(schema.misfits(&bad).len(), 1);
}
