//! `loads` makes a directory of a snapshot for a Chrome, for every verb that loads a profile, and tells the
//! observer how each load ended.

use std::{path::Path, time::Instant};

use capture::{
    examination::Isolation,
    load::{self, Loaded, Outcome, Policy, Upgrade},
};
use serde::{Deserialize, Serialize};
use store::{
    Error, ErrorKind,
    catalog::clock,
    content::TenantStore,
    format::record::Mode,
    name::{ChromeMajor, Lineage, ProfileName, Tenant},
    ops::{point_of_no_return::PointOfNoReturn, read::resolve::Reference},
    tree::write::Keeping,
};

use crate::{
    Engine,
    captures::CheckDepth,
    engine::threads,
    failure::{Failure, pointer_repair},
    lineages::unfound,
    observer::{self, LoadWay, Observation},
    outcome::LoadResult,
    settings::{OnUnavailable, SessionCookies},
};

/// How a profile is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LoadOptions {
    /// The Chrome that will use it, as `131.0.6778.85`: a newer one's snapshot is refused.
    pub chrome_version: Option<String>,
    /// If there is no snapshot of this Chrome yet, start from this older one's.
    pub upgrade_from: Option<ChromeMajor>,
    /// Fail instead of starting with an empty profile.
    pub require: bool,
    /// Say in the profile that the browser had ended well, so that it offers no pages.
    pub normalise_exit: bool,
}

impl LoadOptions {
    /// The Chrome that its whole version names.
    pub fn major_of_version(&self) -> Option<ChromeMajor> {
        self.chrome_version.as_deref()?.split('.').next()?.parse().ok()
    }

    /// Refuses an upgrade that names no newer Chrome.
    pub fn check(&self, chrome_major: Option<ChromeMajor>) -> Result<(), Failure> {
        match (self.upgrade_from, chrome_major.or_else(|| self.major_of_version())) {
            (Some(from), Some(to)) if from >= to => Err(load::not_older(from, to).into()),
            (Some(from), None) => {
                let message =
                    "--upgrade-from goes with --chrome-major, the newer Chrome that is to use the profile";
                let next = u64::from(from) + 1;
                Err(Failure::usage(message)
                    .hint(format!("for example --chrome-major {next} --upgrade-from {from}")))
            }
            _ => Ok(()),
        }
    }
}

/// What is missing where the store cannot be asked which Chrome a profile is of.
pub const NO_MAJOR: &str = "with on_unavailable = \"fresh\" it starts empty if --chrome-major says for which Chrome: the store cannot be asked";

/// The profile that is loaded, and where to.
#[derive(Clone, Debug)]
pub struct LoadJob<'a> {
    /// The profile.
    pub profile: &'a ProfileName,
    /// The Chrome that will use it.
    pub chrome_major: ChromeMajor,
    /// The snapshot; the current one if none is named.
    pub reference: Option<&'a Reference>,
    /// The directory to make.
    pub target: &'a Path,
    /// Replace the directory if it exists.
    pub force: bool,
    /// What files keep of their owner and their special rights.
    pub keeping: Keeping,
    /// How thoroughly the databases are checked.
    pub check: CheckDepth,
    /// Made before the directory is moved into place.
    pub point_of_no_return: PointOfNoReturn,
    /// The region the host is in; as configured if it is not said.
    pub host_region: Option<String>,
}

/// The purpose of a load.
#[derive(Clone, Copy, Debug)]
enum Loading {
    /// It is written to a directory.
    Written,
    /// It is only judged.
    Judged,
}

impl Engine {
    /// Loads a profile for a Chrome. A snapshot that cannot be used becomes an empty profile, unless
    /// `options` say otherwise.
    pub async fn load(&self, options: &LoadOptions, job: LoadJob<'_>) -> Result<Loaded, Failure> {
        let ended = |loaded: &Loaded| (loaded.outcome.into(), loaded.report.as_ref().map(LoadWay::from));
        self.observe_load(job.profile, self.copy_for_chrome(options, job), ended).await
    }

    async fn copy_for_chrome(&self, options: &LoadOptions, job: LoadJob<'_>) -> Result<Loaded, Failure> {
        let request = self.load_request(options, &job);
        let loaded = self.adopting(request, Loading::Written).await?;
        self.tell_of_load(job.profile, job.chrome_major, &loaded);
        Ok(loaded)
    }

    /// Judges what a load would come to, and writes nothing, for who fetches the snapshot in another way.
    /// Where an empty profile begins without the store, it does here, too.
    pub(crate) async fn judge_load(
        &self,
        options: &LoadOptions,
        job: LoadJob<'_>,
    ) -> Result<Loaded, Failure> {
        let judging = self.judge_for_chrome(options, &job);
        self.observe_load(job.profile, judging, |loaded| (loaded.outcome.into(), None)).await
    }

    async fn judge_for_chrome(&self, options: &LoadOptions, job: &LoadJob<'_>) -> Result<Loaded, Failure> {
        let request = self.load_request(options, job);
        match self.adopting(request, Loading::Judged).await {
            Err(failure) if self.begins_without_store(options, &job.profile.tenant, &failure) => Ok(Loaded {
                outcome: Outcome::FreshFallback,
                reason: Some(failure.message),
                record: None,
                report: None,
                transforms: Vec::new(),
                warnings: Vec::new(),
            }),
            judged => judged,
        }
    }

    fn load_request(&self, options: &LoadOptions, job: &LoadJob<'_>) -> load::LoadRequest {
        let settings = self.settings.tenant(&job.profile.tenant);
        load::LoadRequest {
            profile: job.profile.clone(),
            chrome_major: job.chrome_major,
            chrome_version: options.chrome_version.clone(),
            reference: job.reference.cloned(),
            upgrade: self.upgrade(options, &job.profile.tenant),
            target: job.target.to_owned(),
            force: job.force,
            keeping: job.keeping,
            threads: threads(),
            point_of_no_return: job.point_of_no_return.clone(),
            policy: Policy {
                allow_hot: settings.modes.contains(&Mode::Hot),
                max_bytes: settings.max_profile_bytes,
                depth: job.check.depth(),
                isolation: Isolation::own_cell(),
                require: options.require,
            },
            host_region: job.host_region.clone().or_else(|| self.settings.host_region()),
            now_ms: clock::unix_ms(),
            normalise_exit: options.normalise_exit,
            keep_session_cookies: settings.session_cookies == SessionCookies::Keep,
            adoption: None,
        }
    }

    /// Loads, in this way. An archive of another program is taken in before, for which something must be
    /// written.
    async fn adopting(&self, mut request: load::LoadRequest, way: Loading) -> Result<Loaded, Failure> {
        let tenant = self.tenant_of(&request.profile).await?;
        let mut loaded = self.attempt_load(tenant.as_ref(), &request, way).await;
        if let Err(Error::Foreign { .. }) = loaded {
            let tenant = self.tenant_to_change(&request.profile.tenant).await?;
            request.adoption = Some(self.adoption(&request.profile.tenant));
            loaded = self.attempt_load(Some(&tenant), &request, way).await;
        }
        loaded.map_err(|error| {
            let lineage = Lineage { name: request.profile.clone(), chrome_major: request.chrome_major };
            match request.reference {
                Some(_) => unfound(&lineage, error),
                None => error.into(),
            }
        })
    }

    async fn attempt_load(
        &self,
        tenant: Option<&TenantStore>,
        request: &load::LoadRequest,
        way: Loading,
    ) -> store::Result<Loaded> {
        match way {
            Loading::Written => load::load(tenant, request, self.progress()).await,
            Loading::Judged => load::judge(tenant, request, self.progress()).await,
        }
    }

    /// Waits for a load, and tells the observer how it ended. `ended` finds that in what it came to.
    pub(crate) async fn observe_load<T>(
        &self,
        profile: &ProfileName,
        load: impl Future<Output = Result<T, Failure>>,
        ended: impl FnOnce(&T) -> (LoadResult, Option<LoadWay>),
    ) -> Result<T, Failure> {
        let began = Instant::now();
        // On the heap: the caller would have it on the stack.
        let loaded = Box::pin(load).await;
        let (outcome, way, failure) = match &loaded {
            Ok(loaded) => {
                let (outcome, way) = ended(loaded);
                (Some(outcome), way, None)
            }
            Err(failure) => (None, None, Some(failure)),
        };
        let elapsed = began.elapsed();
        self.observer.observe(&Observation::Loaded(observer::Loaded {
            profile,
            outcome,
            way,
            elapsed,
            failure,
        }));
        loaded
    }

    fn tell_of_load(&self, profile: &ProfileName, chrome_major: ChromeMajor, loaded: &Loaded) {
        if loaded.outcome.is_fallback() {
            let reason = loaded.reason.as_deref().unwrap_or_default();
            self.warn(&format!("{}: starting with an empty profile: {reason}", loaded.outcome.as_str()));
            if loaded.record.is_none() && loaded.outcome == Outcome::ShaMismatch {
                let repair = pointer_repair(&profile.to_string(), Some(&chrome_major.to_string()));
                self.say(&format!("hint: {repair}"));
            }
        }
        if loaded.outcome == Outcome::NoPriorState {
            self.say(&format!("{profile} has no snapshot yet: starting with an empty profile"));
        }
        loaded.warnings.iter().for_each(|warning| self.warn(warning));
    }

    /// The start of a Chrome that has no snapshot yet: as requested, or as the tenant's settings say.
    pub fn upgrade(&self, options: &LoadOptions, tenant: &Tenant) -> Upgrade {
        match options.upgrade_from {
            Some(major) => Upgrade::From(major),
            None => self.settings.tenant(tenant).upgrade,
        }
    }

    /// Whether something that could not begin for this reason begins with an empty profile, without the store.
    pub fn begins_without_store(&self, options: &LoadOptions, tenant: &Tenant, failure: &Failure) -> bool {
        let is_set = self.settings.tenant(tenant).on_unavailable == OnUnavailable::Fresh;
        is_set
            && !options.require
            && options.upgrade_from.is_none()
            && matches!(failure.kind, ErrorKind::Unavailable | ErrorKind::Denied)
    }

    /// The tenant; `None` if there is none, or no store at all. A store that does not answer is an error:
    /// nobody knows what is in it.
    async fn tenant_of(&self, profile: &ProfileName) -> Result<Option<TenantStore>, Failure> {
        if self.location.is_missing() {
            return Ok(None);
        }
        let store = self.store(self.purpose_of_keeping().await?).await?;
        match self.answer(store.tenant(&profile.tenant)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                match self.has_archives(&store, &profile.tenant).await {
                    true => self.writable_tenant(&profile.tenant).await.map(Some),
                    false => Ok(None),
                }
            }
            found => Ok(Some(found?)),
        }
    }
}
