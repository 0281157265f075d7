//! `lineages` chooses lineages and snapshots by the names that people give them.

use store::{
    Error, ErrorKind,
    catalog::{lineage_handle::LineageHandle, records},
    content::TenantStore,
    format::{pointer::Pointer, record::Record},
    name::{ChromeMajor, Lineage, LineageKind, ProfileName},
    ops::read::resolve::{self, Reference},
};

use crate::{Engine, failure::Failure, location::Purpose, names::LineageName};

/// How many names a hint lists.
const SUGGESTIONS: usize = 8;

impl Engine {
    /// The lineage that is meant. If there were several to choose from, that is said.
    #[crate::boxed]
    pub async fn lineage(&self, args: &LineageName) -> Result<(TenantStore, Lineage), Failure> {
        let tenant = self.tenant(&args.profile.tenant).await?;
        self.lineage_in(tenant, args).await
    }

    /// As [`Self::lineage`], to change something of it.
    #[crate::boxed]
    pub async fn lineage_to_change(&self, args: &LineageName) -> Result<(TenantStore, Lineage), Failure> {
        let tenant = self.tenant_to_change(&args.profile.tenant).await?;
        self.lineage_in(tenant, args).await
    }

    /// As [`Self::lineage`], to say whether something of it has expired, or to keep it while it
    /// is read: a directory tells the time of its file system only to those who may write there.
    #[crate::boxed]
    pub async fn lineage_to_judge(&self, args: &LineageName) -> Result<(TenantStore, Lineage), Failure> {
        let purpose = self.purpose_of_keeping().await?;
        let tenant = self.existing(&args.profile.tenant, purpose).await?;
        self.lineage_in(tenant, args).await
    }

    /// As [`Self::lineage_to_judge`], to load the current snapshot, whichever program has stored it.
    #[crate::boxed]
    pub async fn lineage_to_load(&self, args: &LineageName) -> Result<(TenantStore, Lineage), Failure> {
        let purpose = self.purpose_of_keeping().await?;
        let tenant = self.tenant_to_load(&args.profile.tenant, purpose).await?;
        self.lineage_in(tenant, args).await
    }

    /// For those who read, and would keep others from deleting what they read: where that
    /// cannot be written down, they only read.
    #[crate::boxed]
    pub async fn purpose_of_keeping(&self) -> Result<Purpose, Failure> {
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
    #[crate::boxed]
    pub async fn writable_lineage(&self, args: &LineageName) -> Result<(TenantStore, Lineage), Failure> {
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
        args: &LineageName,
    ) -> Result<(TenantStore, Lineage), Failure> {
        let (lineage, majors) = self.chosen(&tenant, args).await?;
        if args.chrome_major.is_none() && majors.len() > 1 {
            let all: Vec<String> = majors.iter().map(ToString::to_string).collect();
            let which = match majors.last() == Some(&lineage.chrome_major) {
                true => "the newest",
                false => "the newest that has a current snapshot",
            };
            self.say(&format!(
                "{} has snapshots of Chrome {}; taking {}, {which} (--chrome-major chooses another)",
                args.profile,
                all.join(", "),
                lineage.chrome_major
            ));
        }
        Ok((tenant, lineage))
    }

    /// The lineage that is meant, and the Chrome versions there were to choose from.
    #[crate::boxed]
    pub async fn chosen(
        &self,
        tenant: &TenantStore,
        args: &LineageName,
    ) -> Result<(Lineage, Vec<ChromeMajor>), Failure> {
        match resolve::lineage(tenant, &args.profile, args.chrome_major).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(missing(tenant, &args.profile, args.chrome_major, error).await)
            }
            answer => Ok(answer?),
        }
    }

    /// Fails if the profile is not there, with the names there are, or if it is deleted.
    #[crate::boxed]
    pub async fn require_living_profile(
        &self,
        tenant: &TenantStore,
        name: &ProfileName,
    ) -> Result<(), Failure> {
        match resolve::profile(tenant, name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Err(missing(tenant, name, None, error).await)
            }
            found => Ok(found?),
        }
    }

    /// Fails, with the names there are, if there is no such profile.
    #[crate::boxed]
    pub async fn require_profile(&self, tenant: &TenantStore, name: &ProfileName) -> Result<(), Failure> {
        match records::lineages(tenant, name).await?.is_empty() {
            true => {
                let error = Error::NotFound { what: format!("profile {name}") };
                Err(missing(tenant, name, None, error).await)
            }
            false => Ok(()),
        }
    }

    /// As [`Self::resolve_snapshot`], to load it: what another program has made the current one is taken in.
    #[crate::boxed]
    pub async fn snapshot_to_load(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        reference: Option<&Reference>,
    ) -> Result<Record, Failure> {
        if let Err(Error::Foreign { .. }) = resolve::snapshot(tenant, lineage, reference).await {
            self.adopt(lineage).await?;
        }
        self.resolve_snapshot(tenant, lineage, reference).await
    }

    /// The snapshot that is meant. An archive of another program is told of, and not taken in: that
    /// hands its databases to SQLite, and writes to the store.
    #[crate::boxed]
    pub async fn resolve_snapshot(
        &self,
        tenant: &TenantStore,
        lineage: &Lineage,
        reference: Option<&Reference>,
    ) -> Result<Record, Failure> {
        let found = resolve::snapshot(tenant, lineage, reference).await;
        found.map_err(|error| unfound(lineage, error))
    }

    /// The pointer, for somebody who is about to move it without the lock, and whether it is
    /// damaged. Neither that nor somebody else's lock keeps off who uses `force`.
    #[crate::boxed]
    pub async fn pointer_to_move(
        &self,
        handle: &LineageHandle,
        force: bool,
    ) -> Result<(Option<Pointer>, bool), Failure> {
        if !force {
            handle.must_be_free(handle.lock().await?.as_ref()).map_err(|error| {
                Failure::from(error)
                    .hint("wait for it, or use --force: the holder can then no longer move the pointer")
            })?;
        }
        match handle.pointer().await {
            Err(error @ Error::Damaged { .. }) if force => {
                self.warn(&error.to_string());
                Ok((None, true))
            }
            Err(error @ Error::Damaged { .. }) => {
                Err(Failure::from(error).hint("--force writes a new one in its place"))
            }
            read => Ok((read?.map(|read| read.pointer), false)),
        }
    }
}

/// Refuses a number that is no Chrome's for what stores or runs a browser's profile.
pub(crate) fn require_browser(chrome_major: Option<ChromeMajor>) -> Result<(), Failure> {
    match chrome_major.filter(|major| major.kind() != LineageKind::Chrome) {
        None => Ok(()),
        Some(major) => {
            let message = format!(
                "{major} is no major version of Chrome: numbers from {} on are for workspaces and other things",
                ChromeMajor::FIRST_RESERVED
            );
            Err(Failure::usage(message).hint(
                "say the Chrome's, for example --chrome-major 131; `pstore checkpoint` stores a workspace",
            ))
        }
    }
}

/// A snapshot that was asked for and not found, with the command that shows those there are.
pub fn unfound(lineage: &Lineage, error: Error) -> Failure {
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
pub fn taking_in(lineage: &Lineage) -> String {
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

pub(crate) fn suggestions(names: &[impl ToString]) -> Option<String> {
    let mut shown: Vec<String> = names.iter().take(SUGGESTIONS).map(ToString::to_string).collect();
    if names.len() > SUGGESTIONS {
        shown.push(format!("and {} more", names.len() - SUGGESTIONS));
    }
    (!shown.is_empty()).then(|| shown.join(", "))
}
