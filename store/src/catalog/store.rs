//! `Store` opens a store, and a tenant in it.
//!
//! A store is probed when it is made; the verdict is kept in its configuration, so that
//! later opens do not pay for it. A process that opens it for writing, and finds a server there
//! that was never judged, probes again, and adds the verdict. A tenant's configuration
//! repeats what it needs, so that a credential for one tenant suffices for everything but
//! listing tenants.

use std::{fmt, path::PathBuf, sync::Arc, time::SystemTime};

use super::{cas, clock, records::list_all, tombstone};
use crate::{
    Error, Result,
    bucket::{
        Bucket, BucketError, Depth, KeptVerdicts, Prefix, ProbeOptions, StoreClock, TenantBucket, Verdict,
        Version, Write, probe,
    },
    content::{TenantStore, cache::Cache, known_objects::KnownObjects},
    format::{
        WRITER,
        config::{self, Chunking, Features, HASH, STORE_SCHEMA, StoreConfig, TENANT_SCHEMA, TenantConfig},
        layout, limits,
        record::Record,
        tombstone::Deletion,
    },
    id::{self, ChunkKey, StoreId},
    name::Tenant,
    observer::{StoreObserver, Unobserved},
};

/// How often a tenant's configuration is changed anew that others change.
const ATTEMPTS: u32 = 8;

/// A bucket that holds, or will hold, snapshots.
#[derive(Clone, Debug)]
pub struct Store {
    bucket: Arc<dyn Bucket>,
    cache_root: Option<PathBuf>,
    clock: Arc<StoreClock>,
    probe_handles: Vec<Arc<dyn Bucket>>,
    teller: Option<Teller>,
    observer: Arc<dyn StoreObserver>,
    known_records: Arc<KnownObjects<Record>>,
}

/// Hears that a server is about to be tried, which takes some round trips.
#[derive(Clone)]
struct Teller(Arc<dyn Fn() + Send + Sync>);

impl fmt::Debug for Teller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Teller")
    }
}

/// Whether something was there or had to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Made {
    /// It was made by this call.
    New,
    /// It was there before.
    Existing,
}

impl Store {
    /// `cache_root` is this host's directory for its cache, if it has one.
    pub fn new(bucket: Arc<dyn Bucket>, cache_root: Option<PathBuf>) -> Self {
        let probe_handles = vec![Arc::clone(&bucket)];
        let observer = Arc::new(Unobserved);
        let (clock, known_records) = (Arc::default(), Arc::default());
        Self { bucket, cache_root, clock, probe_handles, teller: None, observer, known_records }
    }

    /// Probes through these handles to the same bucket, so that writers race over
    /// connections of their own.
    pub fn with_probe_handles(self, probe_handles: Vec<Arc<dyn Bucket>>) -> Self {
        Self { probe_handles, ..self }
    }

    /// Tells before a server is tried that was not tried yet.
    pub fn telling(self, tell: impl Fn() + Send + Sync + 'static) -> Self {
        Self { teller: Some(Teller(Arc::new(tell))), ..self }
    }

    /// Tells `observer` of the events of this store's locks.
    pub fn observed(self, observer: Arc<dyn StoreObserver>) -> Self {
        Self { observer, ..self }
    }

    /// Shares the records that are known with other handles to the same store.
    pub fn knowing(self, known_records: Arc<KnownObjects<Record>>) -> Self {
        Self { known_records, ..self }
    }

    /// The whole bucket, of all tenants.
    pub fn bucket(&self) -> &Arc<dyn Bucket> {
        &self.bucket
    }

    /// Makes the store unless it exists. New tenants will start with `chunking`.
    pub async fn init(&self, chunking: Chunking) -> Result<(StoreConfig, Made)> {
        if let Some(config) = self.config().await? {
            return Ok((config, Made::Existing));
        }
        chunking.check(WRITER).map_err(|error| Error::InvalidInput { what: error.to_string() })?;
        let verdict = self.accepted(&Prefix::root()).await?;
        let (minor, writer) = config::stamp();
        let config = StoreConfig {
            version: 1,
            minor,
            schema: STORE_SCHEMA.to_owned(),
            writer,
            store_id: clock::new_store_id(),
            created_at_ms: clock::unix_ms(),
            features: Features::default(),
            chunking,
            probe: KeptVerdicts::default().with(&verdict).into_json(),
            unknown: serde_json::Map::new(),
        };
        if self.create(&layout::store_config(), config.encode()).await? {
            return Ok((config, Made::New));
        }
        let config =
            self.config().await?.ok_or_else(|| Error::NotFound { what: "pstore.json".to_owned() })?;
        Ok((config, Made::Existing))
    }

    /// The store's configuration, if it has been made.
    pub async fn config(&self) -> Result<Option<StoreConfig>> {
        let key = layout::store_config();
        match self.bucket.get(&key, limits::CONFIG).await {
            Ok(object) => Ok(Some(StoreConfig::decode(&object.bytes).map_err(|error| error.of(&key))?)),
            Err(BucketError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The time of the store's clock; `None` if it does not tell.
    pub async fn now(&self) -> Option<SystemTime> {
        let asked = self.bucket.get(&layout::store_config(), limits::CONFIG).await;
        asked.ok().map(|object| object.stamp.now)
    }

    /// The tenants that have content.
    pub async fn tenants(&self) -> Result<Vec<Tenant>> {
        let (_, folders) = list_all(&*self.bucket, &layout::tenants(), Depth::Children).await?;
        Ok(folders.iter().filter_map(|folder| folder.name().parse().ok()).collect())
    }

    /// All that a tenant may see, before anything is known of it.
    pub fn bucket_of(&self, tenant: &Tenant) -> Arc<dyn Bucket> {
        let allowed = [layout::content(tenant), layout::snapshots(tenant)];
        let bucket = TenantBucket::new(Arc::clone(&self.bucket), allowed);
        Arc::new(bucket.with_clock(Arc::clone(&self.clock)))
    }

    /// A tenant to read from.
    pub async fn tenant(&self, tenant: &Tenant) -> Result<TenantStore> {
        self.readable(tenant, self.tenant_config(tenant).await?)
    }

    /// As [`Self::tenant`], while something else is looked at that needs only the bucket.
    pub(crate) async fn tenant_beside<T>(
        &self,
        tenant: &Tenant,
        beside: impl Future<Output = T>,
    ) -> Result<(TenantStore, T)> {
        let (found, seen) = futures::future::join(self.tenant_config(tenant), beside).await;
        Ok((self.readable(tenant, found?)?, seen))
    }

    fn readable(&self, tenant: &Tenant, found: Option<(TenantConfig, Version)>) -> Result<TenantStore> {
        let (config, _) = found.ok_or_else(|| Error::NotFound { what: format!("tenant {tenant}") })?;
        require_undeleted(&config)?;
        self.trust(&config);
        Ok(self.scoped(tenant, config))
    }

    /// A tenant that may have been deleted, for the verbs that finish or undo that.
    pub async fn tenant_or_tombstone(&self, tenant: &Tenant) -> Result<TenantStore> {
        let found = self.tenant_config(tenant).await?;
        let (config, _) = found.ok_or_else(|| Error::NotFound { what: format!("tenant {tenant}") })?;
        self.trust(&config);
        Ok(self.scoped(tenant, config))
    }

    /// A tenant that pstore does not know, for listing the archives of other programs. Its
    /// key is nobody's: nothing may be written with it.
    pub fn unknown_tenant(&self, tenant: &Tenant) -> TenantStore {
        let config = new_config(
            tenant,
            clock::new_store_id(),
            Features::default(),
            Chunking::default(),
            serde_json::Value::Null,
        );
        TenantStore { cache: None, ..self.scoped(tenant, config) }
    }

    /// Changes the deletion in the tenant's configuration, unless `change` says that it
    /// is as it should be; returns the tenant as it is then.
    pub async fn change_deletion(
        &self,
        tenant: &Tenant,
        change: impl Fn(&TenantConfig) -> Option<Option<Deletion>>,
    ) -> Result<TenantStore> {
        for _ in 0..ATTEMPTS {
            let found = self.tenant_config(tenant).await?;
            let (mut config, version) =
                found.ok_or_else(|| Error::NotFound { what: format!("tenant {tenant}") })?;
            let Some(deletion) = change(&config) else {
                self.trust(&config);
                return Ok(self.scoped(tenant, config));
            };
            config.deletion = deletion;
            let key = layout::tenant_config(tenant);
            if cas::replace(&*self.bucket, &key, config.encode().into(), version).await?.is_some() {
                self.trust(&config);
                return Ok(self.scoped(tenant, config));
            }
        }
        Err(Error::Conflict { what: format!("the configuration of tenant {tenant}") })
    }

    /// Whether the server that answers now was probed; if not, nothing may be written before
    /// [`Store::writable_tenant`] has probed it.
    pub fn is_judged(&self, config: &TenantConfig) -> bool {
        self.verdict(&config.probe).is_some()
    }

    /// A tenant to write to, made if it is new; so is the store.
    pub async fn writable_tenant(&self, tenant: &Tenant) -> Result<TenantStore> {
        self.writable(tenant, self.tenant_config(tenant).await?).await
    }

    /// As [`Self::writable_tenant`], while something else is looked at that needs only the bucket.
    pub(crate) async fn writable_tenant_beside<T>(
        &self,
        tenant: &Tenant,
        beside: impl Future<Output = T>,
    ) -> Result<(TenantStore, T)> {
        let (found, seen) = futures::future::join(self.tenant_config(tenant), beside).await;
        Ok((self.writable(tenant, found?).await?, seen))
    }

    async fn writable(&self, tenant: &Tenant, found: Option<(TenantConfig, Version)>) -> Result<TenantStore> {
        let (config, version) = match found {
            Some((config, version)) => (config, Some(version)),
            None => (self.make_tenant(tenant).await?, None),
        };
        require_undeleted(&config)?;
        config.check_write().map_err(|error| error.of(layout::tenant_config(tenant)))?;
        let config = match version {
            Some(version) if !self.is_judged(&config) => self.judged_again(tenant, config, version).await?,
            _ => config,
        };
        self.trust(&config);
        Ok(self.scoped(tenant, config))
    }

    /// The newest verdict on the server that has just given this configuration.
    fn verdict(&self, kept: &serde_json::Value) -> Option<Verdict> {
        KeptVerdicts::from_json(kept).on(&self.bucket.server())
    }

    fn trust(&self, config: &TenantConfig) {
        if let Some(verdict) = self.verdict(&config.probe) {
            self.bucket.trust(&verdict);
        }
    }

    /// Probes a server that was not judged yet, and adds the verdict to the tenant's own
    /// configuration: every writer reads that, and every writer may write it.
    async fn judged_again(
        &self,
        tenant: &Tenant,
        config: TenantConfig,
        version: Version,
    ) -> Result<TenantConfig> {
        tracing::info!(server = ?self.bucket.server(), "probing a server that was not probed before");
        let verdict = self.accepted(&layout::content(tenant)).await?;
        let probe = KeptVerdicts::from_json(&config.probe).with(&verdict).into_json();
        let config = TenantConfig { probe, ..config };
        let key = layout::tenant_config(tenant);
        // The probe is what counts. That it is not noted, or somebody else noted theirs at the
        // same time, costs another one at the next opening.
        if let Err(error) = self.bucket.put(&key, config.encode().into(), Write::Replace(version)).await {
            tracing::info!(%key, %error, "the verdict on the server was not kept");
        }
        Ok(config)
    }

    async fn tenant_config(&self, tenant: &Tenant) -> Result<Option<(TenantConfig, Version)>> {
        let key = layout::tenant_config(tenant);
        let (config, version) = match self.bucket.get(&key, limits::CONFIG).await {
            Ok(object) => {
                self.clock.learn(object.stamp.now);
                (TenantConfig::decode(&object.bytes).map_err(|error| error.of(&key))?, object.version)
            }
            Err(BucketError::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if config.tenant_id != *tenant {
            return Err(Error::damaged(
                key,
                format!("it is the configuration of tenant {}", config.tenant_id),
            ));
        }
        Ok(Some((config, version)))
    }

    async fn make_tenant(&self, tenant: &Tenant) -> Result<TenantConfig> {
        let (store_id, features, chunking, probe) = match self.init(Chunking::default()).await {
            Ok((store, _)) => {
                store.check_write().map_err(|error| error.of(layout::store_config()))?;
                let probe = match self.verdict(&store.probe) {
                    Some(_) => store.probe,
                    None => {
                        let verdict = self.accepted(&layout::content(tenant)).await?;
                        KeptVerdicts::from_json(&store.probe).with(&verdict).into_json()
                    }
                };
                (store.store_id, store.features, store.chunking, probe)
            }
            // This credential sees one tenant and nothing else: the tenant is probed by itself.
            Err(Error::Bucket(BucketError::Denied { .. })) => {
                let verdict = self.accepted(&layout::content(tenant)).await?;
                let probe = KeptVerdicts::default().with(&verdict).into_json();
                (clock::new_store_id(), Features::default(), Chunking::default(), probe)
            }
            Err(error) => return Err(error),
        };
        let config = new_config(tenant, store_id, features, chunking, probe);
        if self.create(&layout::tenant_config(tenant), config.encode()).await? {
            return Ok(config);
        }
        // Somebody else was first; theirs is the one that counts.
        let config = self.tenant_config(tenant).await?.map(|(config, _)| config);
        config.ok_or_else(|| Error::NotFound { what: format!("the configuration of tenant {tenant}") })
    }

    /// Creates a document that everybody would create alike; says whether ours is the one.
    async fn create(&self, key: &crate::bucket::Key, bytes: Vec<u8>) -> Result<bool> {
        let mut attempts = self.bucket.retry_policy().start();
        loop {
            match self.bucket.put(key, bytes.clone().into(), Write::Create).await {
                Ok(_) => return Ok(true),
                Err(BucketError::AlreadyExists { .. }) => {
                    return Ok(self.bucket.get(key, limits::CONFIG).await?.bytes == bytes);
                }
                Err(error) if error.is_retryable() && attempts.again(&error).await => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Finds out by trying whether the store keeps its promises, with scratch keys below `below`.
    pub async fn probe(&self, below: &Prefix) -> Result<Verdict> {
        let options = ProbeOptions { scratch: below.join("probe/")?, ..ProbeOptions::default() };
        Ok(probe(&self.probe_handles, &options).await?)
    }

    /// The verdict on a store that keeps its promises; others are refused.
    async fn accepted(&self, below: &Prefix) -> Result<Verdict> {
        if let Some(Teller(tell)) = &self.teller {
            tell();
        }
        Ok(self.probe(below).await?.require(&self.bucket.describe())?)
    }

    fn scoped(&self, tenant: &Tenant, config: TenantConfig) -> TenantStore {
        let bucket = self.bucket_of(tenant);
        let cache = self.cache_root.as_ref().map(|root| Arc::new(Cache::new(root, config.store_id, tenant)));
        let (config, clock) = (Arc::new(config), Arc::clone(&self.clock));
        let (observer, known_records) = (Arc::clone(&self.observer), Arc::clone(&self.known_records));
        TenantStore { bucket, tenant: tenant.clone(), config, clock, cache, observer, known_records }
    }
}

fn new_config(
    tenant: &Tenant,
    store_id: StoreId,
    features: Features,
    chunking: Chunking,
    probe: serde_json::Value,
) -> TenantConfig {
    let (minor, writer) = config::stamp();
    TenantConfig {
        version: 1,
        minor,
        schema: TENANT_SCHEMA.to_owned(),
        writer,
        tenant_id: tenant.clone(),
        store_id,
        created_at_ms: clock::unix_ms(),
        chunk_key: ChunkKey::from_bytes(id::random()),
        hash: HASH.to_owned(),
        features,
        chunking,
        probe,
        deletion: None,
        unknown: serde_json::Map::new(),
    }
}

fn require_undeleted(config: &TenantConfig) -> Result<()> {
    match &config.deletion {
        Some(deletion) => Err(tombstone::refusal(format!("tenant {}", config.tenant_id), deletion)),
        None => Ok(()),
    }
}
