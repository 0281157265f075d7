//! What every command that uses a store starts from.

use std::{path::PathBuf, sync::Arc, time::Duration};

use capture::{
    examination::Place,
    examiner::{Policy, ProfileExaminer},
    judge::ArchiveJudge,
    sqlite::Depth,
};
use store::{
    Error, ErrorKind,
    bucket::{Depth as Look, StoreUrl},
    catalog::{clock, controls::Controls, lock::Patience, records, store::Store},
    content::{TenantStore, lazy::Limits},
    format::{event::Actor, layout, pointer::Pointer, record::Record},
    id::Nonce,
    name::{ChromeMajor, Lineage, ProfileName, Tenant},
    ops::{
        adopt::Adoption,
        find::{self, Reference},
    },
    scratch,
};

use super::{lock::told, mount::Mountpoint};
use crate::{
    args::{ActorArgs, Global, LineageArgs},
    console::Console,
    failure::Failure,
    interrupt::Interrupt,
    location::{Location, Purpose},
    private, progress,
    settings::Settings,
};

/// How many names a hint lists.
const SUGGESTIONS: usize = 8;
/// Where `pstore lock hold` leaves the token for its command.
pub(crate) const LOCK_TOKEN: &str = "PSTORE_LOCK_TOKEN";
const SLOW_ANSWER: Duration = Duration::from_secs(3);

#[derive(Clone, Debug)]
pub(crate) struct Context {
    pub(crate) console: Console,
    pub(crate) settings: Settings,
    pub(crate) location: Location,
    pub(crate) cache_root: Option<PathBuf>,
    pub(crate) interrupt: Interrupt,
}

impl Context {
    pub(crate) fn new(global: &Global, console: Console, interrupt: Interrupt) -> Result<Self, Failure> {
        let settings = Settings::load(global)?;
        let (location, cache_root) = (settings.location()?, settings.cache_root());
        if let Some(root) = &cache_root {
            private::require(root, "the cache", "--cache-dir")?;
        }
        scratch::sweep(&std::env::temp_dir());
        cache_root.iter().for_each(|root| scratch::sweep(root));
        Mountpoint::sweep();
        if let Some(server) = location.exposed_to() {
            console.warn(&format!(
                "requests to {server} are not encrypted: whoever is on the way can read what is stored; use https://"
            ));
        }
        Ok(Self { console, settings, location, cache_root, interrupt })
    }

    /// Who acts: what the arguments do not say is made up so that it can be found again.
    pub(crate) fn actor(&self, args: &ActorArgs) -> Actor {
        let run_id = args.run_id.clone().filter(|id| !id.is_empty());
        Actor {
            run_id: run_id.unwrap_or_else(|| format!("pstore-{}", clock::new_record_id())),
            host: args.host.clone().or_else(|| self.settings.host_name()).unwrap_or_default(),
            host_run_id: args.host_run_id.clone(),
            ..Actor::default()
        }
    }

    /// How a mount reads: no longer than requests are repeated.
    pub(crate) fn limits(&self) -> Limits {
        Limits::within(self.location.patience())
    }

    /// Waits for whoever holds a profile, and says so.
    pub(crate) fn patience(&self, profile: &ProfileName, wait: Duration) -> Patience {
        let (console, profile) = (self.console, profile.clone());
        let interrupt = self.interrupt.clone();
        Patience::telling(wait, move |waiting| console.say(&told::waiting(&profile, waiting)))
            .until(move || interrupt.is_raised())
    }

    /// The token of a lock that is held already: as typed, else from the environment, where
    /// a variable that is set to nothing counts as not set.
    pub(crate) fn lock_token(&self, typed: Option<Nonce>) -> Result<Option<Nonce>, Failure> {
        if typed.is_some() {
            return Ok(typed);
        }
        let Some(text) = self.settings.of_this_run(LOCK_TOKEN) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| Failure::usage(format!("{LOCK_TOKEN}: {error}")))
    }

    pub(crate) async fn store(&self, purpose: Purpose) -> Result<Store, Failure> {
        let bucket = self.location.bucket(purpose).await?;
        self.console.step(&format!("opened {}", self.location.shown()));
        Ok(self.telling(Store::new(bucket, self.cache_root.clone())))
    }

    /// A store that may have to be made, or tried.
    pub(crate) async fn store_to_make(&self) -> Result<Store, Failure> {
        Ok(self.telling(self.location.store_to_make(self.cache_root.clone()).await?))
    }

    /// Says when the server is tried: on a store that is far away this takes a moment.
    fn telling(&self, store: Store) -> Store {
        if matches!(self.location.url, StoreUrl::Directory(_)) {
            return store;
        }
        let (console, shown) = (self.console, self.location.shown());
        store.telling(move || {
            console.say(&format!(
                "{shown} is reached through a server that was not tried yet; trying whether it keeps what \
                 conditional writes promise"
            ));
        })
    }

    /// The tenants of the store, which must be one: a bucket without one answers, too.
    pub(crate) async fn tenants(&self) -> Result<Vec<Tenant>, Failure> {
        let store = self.store(Purpose::Read).await?;
        let tenants = self.answer(store.tenants()).await?;
        if tenants.is_empty() && matches!(store.config().await, Ok(None)) {
            return Err(self.location.no_store());
        }
        Ok(tenants)
    }

    /// A tenant to read from; if it is not there, those that are get mentioned.
    pub(crate) async fn tenant(&self, tenant: &Tenant) -> Result<TenantStore, Failure> {
        self.existing(tenant, Purpose::Read).await
    }

    async fn existing(&self, tenant: &Tenant, purpose: Purpose) -> Result<TenantStore, Failure> {
        let store = self.store(purpose).await?;
        match self.answer(store.tenant(tenant)).await {
            Err(error) if error.kind() == ErrorKind::NotFound && self.has_archives(&store, tenant).await => {
                let message =
                    format!("{error} in {}, but for archives of another program", self.location.shown());
                Err(Failure::new(ErrorKind::NotFound, message).hint(format!(
                    "`pstore import --current {tenant}/PROFILE --chrome-major N` takes in what it has made current"
                )))
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let failure =
                    Failure::new(ErrorKind::NotFound, format!("{error} in {}", self.location.shown()));
                let others = store.tenants().await.unwrap_or_default();
                Err(failure.hint(match suggestions(&others) {
                    Some(names) => format!("its tenants are {names}"),
                    None => {
                        "nothing is stored there yet; --store or PSTORE_STORE names another store".to_owned()
                    }
                }))
            }
            answer => Ok(answer?),
        }
    }

    /// A tenant that may have been deleted, for those who end that.
    pub(crate) async fn tenant_or_tombstone(
        &self,
        tenant: &Tenant,
        purpose: Purpose,
    ) -> Result<TenantStore, Failure> {
        let store = self.store(purpose).await?;
        match self.answer(store.tenant(tenant)).await {
            Err(Error::Deleted { .. }) => Ok(store.tenant_or_tombstone(tenant).await?),
            Ok(found) => Ok(found),
            Err(_) => self.existing(tenant, purpose).await,
        }
    }

    /// A tenant to load from: what another program has stored for one that pstore does not know counts.
    async fn tenant_to_load(&self, tenant: &Tenant, purpose: Purpose) -> Result<TenantStore, Failure> {
        let store = self.store(purpose).await?;
        match self.answer(store.tenant(tenant)).await {
            Ok(found) => Ok(found),
            Err(error) if error.kind() == ErrorKind::NotFound && self.has_archives(&store, tenant).await => {
                self.writable_tenant(tenant).await
            }
            Err(_) => self.existing(tenant, purpose).await,
        }
    }

    /// Whether other programs have stored something for a tenant that pstore does not know.
    pub(crate) async fn has_archives(&self, store: &Store, tenant: &Tenant) -> bool {
        let listed =
            records::list_all(&*store.bucket_of(tenant), &layout::snapshots(tenant), Look::Children).await;
        listed.is_ok_and(|(_, profiles)| !profiles.is_empty())
    }

    /// On what terms an archive of another program is taken in.
    pub(crate) fn adoption(&self, tenant: &Tenant) -> Adoption {
        let nobody = ActorArgs { run_id: None, host: None, host_run_id: String::new() };
        let actor = self.actor(&nobody);
        let settings = self.settings.tenant(tenant);
        let threads = crate::threads();
        // It is the current one already: what is found about it is only written down.
        let policy = Policy {
            depth: Some(Depth::Full),
            place: Place::apart(),
            threads,
            max_shrink_percent: None,
            allow_damaged: true,
            allow_logged_out: true,
        };
        let judge = ArchiveJudge(ProfileExaminer { policy, stopped: None, expected: Default::default() });
        Adoption {
            about: super::import::about(&actor),
            actor,
            max_bytes: settings.max_profile_bytes,
            quota_bytes: settings.quota_bytes,
            threads,
            judge: Some((Arc::new(judge), std::env::temp_dir())),
        }
    }

    /// The pointer, for somebody who is about to move it without the lock, and whether it is
    /// damaged. Neither that nor somebody else's lock keeps off who uses `force`.
    pub(crate) async fn pointer_to_move(
        &self,
        controls: &Controls,
        force: bool,
    ) -> Result<(Option<Pointer>, bool), Failure> {
        if !force {
            controls.must_be_free(controls.lock().await?.as_ref()).map_err(|error| {
                Failure::from(error)
                    .hint("wait for it, or use --force: the holder can then no longer move the pointer")
            })?;
        }
        match controls.pointer().await {
            Err(error @ Error::Damaged { .. }) if force => {
                self.console.warn(&error.to_string());
                Ok((None, true))
            }
            Err(error @ Error::Damaged { .. }) => {
                Err(Failure::from(error).hint("--force writes a new one in its place"))
            }
            read => Ok((read?.map(|read| read.pointer), false)),
        }
    }

    /// Stores the archive as a snapshot that another program has made the current one.
    pub(crate) async fn adopt(&self, lineage: &Lineage) -> Result<Option<Record>, Failure> {
        let tenant = self.tenant_to_change(&lineage.name.tenant).await?;
        self.console
            .say(&format!("another program has moved the pointer of {lineage}; taking its archive in"));
        let adoption = self.adoption(&lineage.name.tenant);
        Ok(adoption.adopt(&tenant, lineage, progress::watch(self.console)).await?)
    }

    /// A tenant that exists, to change something of it.
    pub(crate) async fn tenant_to_change(&self, tenant: &Tenant) -> Result<TenantStore, Failure> {
        let found = self.existing(tenant, Purpose::Change).await?;
        found.config.check_write().map_err(|error| error.of(layout::tenant_config(tenant)))?;
        Ok(found)
    }

    /// A tenant to write to, made if it is new; so is the store.
    pub(crate) async fn writable_tenant(&self, tenant: &Tenant) -> Result<TenantStore, Failure> {
        let shown = self.location.shown();
        if self.location.is_missing() {
            self.console.say(&format!("making a store at {shown}"));
        }
        let store = self.store(Purpose::Write).await?;
        match self.answer(store.tenant(tenant)).await {
            Ok(found) if !store.is_judged(&found.config) => {
                let store = self.store_to_make().await?;
                Ok(store.writable_tenant(tenant).await?)
            }
            Ok(found) => {
                let config = &found.config;
                let writable = config.check_write();
                writable.map_err(|error| error.of(layout::tenant_config(tenant)))?;
                Ok(found)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.console.say(&format!("{tenant} is a new tenant of {shown}"));
                let store = self.store_to_make().await?;
                Ok(store.writable_tenant(tenant).await?)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The first answer of a store may take as long as requests are repeated; that is said.
    pub(crate) async fn answer<T>(&self, first: impl Future<Output = T>) -> T {
        let mut first = std::pin::pin!(first);
        tokio::select! {
            answer = &mut first => return answer,
            () = tokio::time::sleep(SLOW_ANSWER) => {}
        }
        self.console.say(&format!("no answer from {} yet; still trying", self.location.shown()));
        first.await
    }

    /// The lineage that is meant. If there were several to choose from, that is said.
    pub(crate) async fn lineage(&self, args: &LineageArgs) -> Result<(TenantStore, Lineage), Failure> {
        let tenant = self.tenant(&args.profile.tenant).await?;
        self.lineage_in(tenant, args).await
    }

    /// As [`Self::lineage`], to change something of it.
    pub(crate) async fn lineage_to_change(
        &self,
        args: &LineageArgs,
    ) -> Result<(TenantStore, Lineage), Failure> {
        let tenant = self.tenant_to_change(&args.profile.tenant).await?;
        self.lineage_in(tenant, args).await
    }

    /// As [`Self::lineage`], to say whether something of it has expired, or to keep it while it
    /// is read: a directory tells the time of its file system only to those who may write there.
    pub(crate) async fn lineage_to_judge(
        &self,
        args: &LineageArgs,
    ) -> Result<(TenantStore, Lineage), Failure> {
        let purpose = self.purpose_of_keeping().await?;
        let tenant = self.existing(&args.profile.tenant, purpose).await?;
        self.lineage_in(tenant, args).await
    }

    /// As [`Self::lineage_to_judge`], to load what is current, whoever has stored it.
    pub(crate) async fn lineage_to_load(
        &self,
        args: &LineageArgs,
    ) -> Result<(TenantStore, Lineage), Failure> {
        let purpose = self.purpose_of_keeping().await?;
        let tenant = self.tenant_to_load(&args.profile.tenant, purpose).await?;
        self.lineage_in(tenant, args).await
    }

    /// For those who read, and would keep others from deleting what they read: where that
    /// cannot be written down, they only read.
    pub(crate) async fn purpose_of_keeping(&self) -> Result<Purpose, Failure> {
        match self.location.bucket(Purpose::Change).await {
            Err(failure)
                if matches!(failure.kind, ErrorKind::Io | ErrorKind::Denied | ErrorKind::StoreRefused) =>
            {
                Ok(Purpose::Read)
            }
            opened => opened.map(|_| Purpose::Change),
        }
    }

    /// As [`Self::lineage`], but one that is named with its Chrome version need not exist.
    pub(crate) async fn writable_lineage(
        &self,
        args: &LineageArgs,
    ) -> Result<(TenantStore, Lineage), Failure> {
        match args.chrome_major {
            Some(chrome_major) => {
                let tenant = self.writable_tenant(&args.profile.tenant).await?;
                Ok((tenant, Lineage { name: args.profile.clone(), chrome_major }))
            }
            None => self.lineage_to_change(args).await.map_err(|failure| match failure.kind {
                ErrorKind::NotFound => {
                    failure.hint("name a new one with its Chrome, for example --chrome-major 131")
                }
                _ => failure,
            }),
        }
    }

    async fn lineage_in(
        &self,
        tenant: TenantStore,
        args: &LineageArgs,
    ) -> Result<(TenantStore, Lineage), Failure> {
        let (lineage, majors) = self.chosen(&tenant, args).await?;
        if args.chrome_major.is_none() && majors.len() > 1 {
            let all: Vec<String> = majors.iter().map(ToString::to_string).collect();
            let which = match majors.last() == Some(&lineage.chrome_major) {
                true => "the newest",
                false => "the newest that has a current snapshot",
            };
            self.console.say(&format!(
                "{} has snapshots of Chrome {}; taking {}, {which} (--chrome-major chooses another)",
                args.profile,
                all.join(", "),
                lineage.chrome_major
            ));
        }
        Ok((tenant, lineage))
    }

    /// The lineage that is meant, and the Chrome versions there were to choose from.
    pub(crate) async fn chosen(
        &self,
        tenant: &TenantStore,
        args: &LineageArgs,
    ) -> Result<(Lineage, Vec<ChromeMajor>), Failure> {
        match find::lineage(tenant, &args.profile, args.chrome_major).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(missing(tenant, &args.profile, args.chrome_major, error).await)
            }
            answer => Ok(answer?),
        }
    }

    /// Fails, with the names there are, if there is no such profile.
    pub(crate) async fn require_profile(
        &self,
        tenant: &TenantStore,
        name: &ProfileName,
    ) -> Result<(), Failure> {
        match records::lineages(tenant, name).await?.is_empty() {
            true => {
                let error = Error::NotFound { what: format!("profile {name}") };
                Err(missing(tenant, name, None, error).await)
            }
            false => Ok(()),
        }
    }

    /// As [`Self::snapshot`], to load it: what another program has made the current one is taken in.
    pub(crate) async fn snapshot_to_load(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        reference: Option<&Reference>,
    ) -> Result<Record, Failure> {
        if let Err(Error::Foreign { .. }) = find::snapshot(tenant, lineage, reference).await {
            self.adopt(lineage).await?;
        }
        self.snapshot(tenant, lineage, reference).await
    }

    /// The snapshot that is meant. An archive of another program is told of, and not taken in: that
    /// hands its databases to SQLite, and writes to the store.
    pub(crate) async fn snapshot(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        reference: Option<&Reference>,
    ) -> Result<Record, Failure> {
        let found = find::snapshot(tenant, lineage, reference).await;
        found.map_err(|error| unfound(lineage, error))
    }
}

/// A snapshot that was asked for and not found, with the command that shows those there are.
pub(super) fn unfound(lineage: &Lineage, error: Error) -> Failure {
    let Lineage { name, chrome_major } = lineage;
    let hint = match &error {
        Error::Foreign { .. } => taking_in(lineage),
        Error::AmbiguousPrefix { candidates, .. } => {
            match candidates.first().and_then(|first| first.split(' ').next()) {
                Some(first) => format!("give more digits, as {name}@{first}"),
                None => "give more digits".to_owned(),
            }
        }
        Error::NotFound { .. } | Error::InvalidInput { .. } => {
            format!("`pstore list {name} --chrome-major {chrome_major}` shows the snapshots there are")
        }
        _ => return error.into(),
    };
    Failure::from(error).hint(hint)
}

/// How to take in the archive that another program has made the current snapshot.
pub(super) fn taking_in(lineage: &Lineage) -> String {
    let Lineage { name, chrome_major } = lineage;
    format!("`pstore import --current {name} --chrome-major {chrome_major}` takes it in; so does loading it")
}

async fn missing(
    tenant: &TenantStore,
    name: &ProfileName,
    major: Option<ChromeMajor>,
    error: Error,
) -> Failure {
    let failure = Failure::from(error);
    if major.is_some() {
        let majors = records::lineages(tenant, name).await.unwrap_or_default();
        let majors: Vec<ChromeMajor> = majors.into_iter().map(|lineage| lineage.chrome_major).collect();
        if let Some(majors) = suggestions(&majors) {
            return failure.hint(format!("there are snapshots of Chrome {majors}"));
        }
    }
    let others = records::profiles(tenant).await.unwrap_or_default();
    match suggestions(&others) {
        Some(names) => failure.hint(format!("the profiles of {} are {names}", name.tenant)),
        None => failure.hint(format!("{} has no profiles yet", name.tenant)),
    }
}

fn suggestions(names: &[impl ToString]) -> Option<String> {
    let mut shown: Vec<String> = names.iter().take(SUGGESTIONS).map(ToString::to_string).collect();
    if names.len() > SUGGESTIONS {
        shown.push(format!("and {} more", names.len() - SUGGESTIONS));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}
