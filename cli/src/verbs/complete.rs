//! What could come next on a command line: what the scripts of `pstore completions` ask for.
//!
//! It is asked in the middle of a line that somebody types. So it never fails, never says anything
//! but words, and never waits: names come from what this host remembers, and if that is old, from
//! the store, for as long as nobody notices.

mod asked;
mod remembered;

use std::{ffi::OsString, time::Duration};

use engine::{
    failure::Failure, interrupt::Interrupt, location::Purpose, mount::live::LiveMount, names::LineageName,
    observer::Unobserved, settings::Settings,
};
use store::{
    catalog::records,
    name::{ProfileName, Tenant},
    ops::read::{
        profiles,
        resolve::{self, LATEST},
    },
};

use self::{asked::Asked, remembered::Remembered};
use super::Engine;
use crate::args;
use std::sync::Arc;

/// The first argument with which the program answers so.
pub(crate) const VERB: &str = "complete-words";
/// How long somebody who types may be kept waiting.
const MOST_TIME: Duration = Duration::from_millis(800);
/// Of more names than this it is not asked which were deleted: each takes a request.
const MOST_LOOKED_AT: usize = 200;
/// How many snapshots are offered, the newest first.
const MOST_SNAPSHOTS: usize = 50;

/// What could stand in place of the last of these words, one on each line.
pub(crate) async fn run(words: Vec<OsString>) -> String {
    let words: Vec<String> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let Some((last, before)) = words.split_last() else { return String::new() };
    let asked = Asked::of(before);
    let found = tokio::time::timeout(MOST_TIME * 2, candidates(&asked, last)).await;
    let mut found = found.ok().and_then(Result::ok).unwrap_or_default();
    found.retain(|candidate| candidate.starts_with(last.as_str()) && !candidate.contains(char::is_control));
    found.iter().map(|candidate| format!("{candidate}\n")).collect()
}

async fn candidates(asked: &Asked, last: &str) -> Result<Vec<String>, Failure> {
    let invocation = args::parse_words(asked.global_line()).map_err(|_| Failure::usage("no such line"))?;
    if asked.is_for("MOUNTPOINT") {
        let live = LiveMount::all(&Settings::load(&invocation.global.overrides())?)?;
        return Ok(live.iter().map(|live| live.info.mountpoint.to_string_lossy().into_owned()).collect());
    }
    let names = Names {
        engine: Engine::open(&invocation.global.overrides(), Arc::new(Unobserved), Interrupt::new())?,
    };
    if asked.is_for("REF") {
        let Some(profile) = asked.profile() else { return Ok(Vec::new()) };
        return Ok(names.references(&profile).await);
    }
    if asked.takes_references()
        && let Some((profile, _)) = last.split_once('@')
        && let Ok(name) = profile.parse()
    {
        let references = names.references(&name).await;
        return Ok(references.iter().map(|reference| format!("{profile}@{reference}")).collect());
    }
    match last.split_once('/') {
        Some((tenant, _)) if asked.takes_profiles() => match tenant.parse() {
            Ok(tenant) => Ok(names.profiles(&tenant).await),
            Err(_) => Ok(Vec::new()),
        },
        None if asked.takes_profiles() => {
            let tenants = names.tenants().await;
            Ok(tenants.iter().map(|tenant| format!("{tenant}/")).collect())
        }
        None if asked.is_for("TENANT") => Ok(names.tenants().await),
        _ => Ok(Vec::new()),
    }
}

/// Names that are stored, as this host remembers them or the store has them.
struct Names {
    engine: Engine,
}

impl Names {
    async fn tenants(&self) -> Vec<String> {
        let asking = async {
            let store = self.engine.store(Purpose::Read).await?;
            let mut tenants = store.tenants().await?;
            if tenants.len() <= MOST_LOOKED_AT {
                let deleted = profiles::deleted_tenants(&store, &tenants).await;
                tenants.retain(|tenant| !deleted.iter().any(|(gone, _)| gone == tenant));
            }
            Ok(tenants.iter().map(ToString::to_string).collect())
        };
        self.remembered("tenants").or_ask(asking).await
    }

    async fn profiles(&self, tenant: &Tenant) -> Vec<String> {
        let asking = async {
            let tenant = self.engine.tenant(tenant).await?;
            let mut names = records::profiles(&tenant).await?;
            if names.len() <= MOST_LOOKED_AT {
                let deleted = profiles::deleted(&tenant, &names).await;
                names.retain(|name| !deleted.contains(name));
            }
            Ok(names.iter().map(ToString::to_string).collect())
        };
        self.remembered(&format!("profiles of {tenant}")).or_ask(asking).await
    }

    /// The words for snapshots: of the current one, then tags, then digits, the newest first.
    async fn references(&self, profile: &ProfileName) -> Vec<String> {
        let asking = async {
            let asked = LineageName { profile: profile.clone(), chrome_major: None };
            let (tenant, lineage) = self.engine.lineage(&asked).await?;
            let records = resolve::list(&tenant, &lineage).await?.records;
            let newest = || records.iter().rev().take(MOST_SNAPSHOTS);
            let tags = newest().flat_map(|record| record.tags.keys().cloned());
            let words = [LATEST.to_owned(), format!("{LATEST}~1")].into_iter().chain(tags);
            Ok(words.chain(newest().map(|record| record.sha256_prefix())).collect())
        };
        self.remembered(&format!("snapshots of {profile}")).or_ask(asking).await
    }

    fn remembered(&self, what: &str) -> Remembered {
        Remembered::new(self.engine.cache_root.as_deref(), &self.engine.location.shown(), what)
    }
}
