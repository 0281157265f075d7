//! These tests use `pstore serve` as its callers do: the program over real HTTP.

mod alerts;
mod archives;
mod browsing;
mod callers;
mod contract;
mod described;
mod events;
mod fleet;
mod jobs;
mod killed;
mod leases;
mod limits;
mod loads;
mod metrics;
mod mounts;
mod mounts_left;
mod names;
mod overview;
mod page;
mod replays;
mod scenarios;
mod schedules;
mod stopping;
mod tls;
mod top;
mod tricks;
mod uploads;

use std::{fs, path::Path};

use tempfile::TempDir;
use tests::{
    binary::Host,
    served::{Served, Tokens},
};

/// A store with two snapshots of acme/alice and one of other/bob, and a server of it.
struct Scene {
    folder: TempDir,
    host: Host,
    tokens: Tokens,
    /// The digits of the snapshots of acme/alice, the older first.
    shas: [String; 2],
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let host = Host::local(&folder.path().join("home"), &folder.path().join("store"));
        let tokens = Tokens::new(folder.path());
        let capture = |profile: &str, text: &str| captured(&host, folder.path(), profile, text);
        let shas = [capture("acme/alice", "first"), capture("acme/alice", "second")];
        capture("other/bob", "third");
        Self { folder, host, tokens, shas }
    }

    /// The secret of a new token.
    fn token(&self, tenant: &str, role: &str) -> String {
        self.tokens.add(&self.host, tenant, role)
    }

    fn serve(&self) -> Served {
        Served::start(&self.host, &self.tokens.path)
    }

    fn capture(&self, profile: &str, text: &str) -> String {
        captured(&self.host, self.folder.path(), profile, text)
    }
}

/// The digits of a snapshot with this text in it.
fn captured(host: &Host, folder: &Path, profile: &str, text: &str) -> String {
    let source = folder.join("source");
    fs::create_dir_all(&source).unwrap();
    fs::write(source.join("Preferences"), text).unwrap();
    host.snapshot(&source, profile)["active_sha256_prefix"].as_str().unwrap().to_owned()
}

/// Below which the routes of acme/alice are.
const ALICE: &str = "/v1/profile-snapshots/acme/alice";
