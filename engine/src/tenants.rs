//! `tenants` opens tenants, each with the access that its use needs.

use store::{
    Error, ErrorKind,
    bucket::Depth as Look,
    catalog::{records, store::Store},
    content::TenantStore,
    format::layout,
    name::Tenant,
};

use crate::{Engine, failure::Failure, lineages::suggestions, location::Purpose};

impl Engine {
    /// The tenants of the store, which must be one: a bucket without one answers, too.
    #[crate::boxed]
    pub async fn tenants(&self) -> Result<Vec<Tenant>, Failure> {
        let store = self.store(Purpose::Read).await?;
        let tenants = self.answer(store.tenants()).await?;
        if tenants.is_empty() && matches!(store.config().await, Ok(None)) {
            return Err(self.location.no_store());
        }
        Ok(tenants)
    }

    /// A tenant to read from; if it is not there, those that are get mentioned.
    #[crate::boxed]
    pub async fn tenant(&self, tenant: &Tenant) -> Result<TenantStore, Failure> {
        self.existing(tenant, Purpose::Read).await
    }

    pub(crate) async fn existing(&self, tenant: &Tenant, purpose: Purpose) -> Result<TenantStore, Failure> {
        let store = self.store(purpose).await?;
        match self.answer(store.tenant(tenant)).await {
            // Others are told neither which tenants there are nor where they are stored.
            Err(error) if error.kind() == ErrorKind::NotFound && self.location.is_kept_open() => {
                Err(Failure::new(ErrorKind::NotFound, error.to_string()))
            }
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
    #[crate::boxed]
    pub async fn tenant_or_tombstone(
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
    pub(crate) async fn tenant_to_load(
        &self,
        tenant: &Tenant,
        purpose: Purpose,
    ) -> Result<TenantStore, Failure> {
        let store = self.store(purpose).await?;
        match self.answer(store.tenant(tenant)).await {
            Ok(found) => Ok(found),
            Err(error) if error.kind() == ErrorKind::NotFound && self.has_archives(&store, tenant).await => {
                self.writable_tenant(tenant).await
            }
            Err(_) => self.existing(tenant, purpose).await,
        }
    }

    /// A tenant to list: what other programs have stored for one that pstore does not know counts, and
    /// nothing is written.
    #[crate::boxed]
    pub async fn tenant_to_list(&self, tenant: &Tenant) -> Result<TenantStore, Failure> {
        let store = self.store(Purpose::Read).await?;
        match self.answer(store.tenant(tenant)).await {
            Ok(found) => Ok(found),
            Err(error) if error.kind() == ErrorKind::NotFound && self.has_archives(&store, tenant).await => {
                Ok(store.unknown_tenant(tenant))
            }
            Err(_) => self.existing(tenant, Purpose::Read).await,
        }
    }

    /// Whether other programs have stored something for a tenant that pstore does not know.
    #[crate::boxed]
    pub async fn has_archives(&self, store: &Store, tenant: &Tenant) -> bool {
        let listed =
            records::list_all(&*store.bucket_of(tenant), &layout::snapshots(tenant), Look::Children).await;
        listed.is_ok_and(|(_, profiles)| !profiles.is_empty())
    }

    /// A tenant that exists, to change something of it.
    #[crate::boxed]
    pub async fn tenant_to_change(&self, tenant: &Tenant) -> Result<TenantStore, Failure> {
        let found = self.existing(tenant, Purpose::Change).await?;
        found.config.check_write().map_err(|error| error.of(layout::tenant_config(tenant)))?;
        Ok(found)
    }

    /// A tenant to write to, made if it is new; so is the store. A server makes no store: what it serves may
    /// only be away, as a disk that is not mounted, and everybody would begin with nothing.
    #[crate::boxed]
    pub async fn writable_tenant(&self, tenant: &Tenant) -> Result<TenantStore, Failure> {
        let shown = self.location.shown();
        if self.location.is_missing() {
            if self.location.is_kept_open() {
                return Err(self.location.no_store());
            }
            self.say(&format!("making a store at {shown}"));
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
                if self.location.is_kept_open() && matches!(store.config().await, Ok(None)) {
                    return Err(self.location.no_store());
                }
                self.say(&format!("{tenant} is a new tenant of {shown}"));
                let store = self.store_to_make().await?;
                Ok(store.writable_tenant(tenant).await?)
            }
            Err(error) => Err(error.into()),
        }
    }
}
