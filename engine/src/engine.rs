//! `Engine` carries out requests on one store, as the settings of this host and user say.

use std::{path::PathBuf, sync::Arc, time::Duration};

use store::{
    bucket::{RequestMeter, StoreUrl},
    catalog::{
        clock,
        lock::{Patience, Waiting},
        store::Store,
    },
    content::{chunk_fetcher::Limits, known_objects::KnownObjects},
    format::{event::Actor, record::Record},
    id::Nonce,
    name::ProfileName,
    progress::Progress,
    scratch,
};

use crate::{
    failure::Failure,
    host::{mountpoint::Mountpoint, private},
    interrupt::Interrupt,
    location::{Location, Purpose},
    metrics::{CountingObserver, Metrics, Outlets},
    names::ActorName,
    observer::{LockTeller, Observation, Observer},
    settings::{Overrides, Settings},
    text::time,
};

/// The environment variable in which `pstore lock hold` leaves the token for its command.
pub const LOCK_TOKEN: &str = "PSTORE_LOCK_TOKEN";
const SLOW_ANSWER: Duration = Duration::from_secs(3);

/// Carries out requests. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Engine {
    /// The observer of its work.
    pub observer: Arc<dyn Observer>,
    /// The settings in force.
    pub settings: Settings,
    /// Where the store is.
    pub location: Location,
    /// Where this host keeps what it has learnt.
    pub cache_root: Option<PathBuf>,
    /// Raised when the work is to end early.
    pub interrupt: Interrupt,
    /// Counts what is observed.
    pub metrics: Arc<Metrics>,
    /// Records that this process has read.
    pub known_records: Arc<KnownObjects<Record>>,
}

impl Engine {
    /// Reads the settings and gets this host ready. The store is opened by what needs it.
    pub fn open(
        overrides: &Overrides,
        observer: Arc<dyn Observer>,
        interrupt: Interrupt,
    ) -> Result<Self, Failure> {
        let settings = Settings::load(overrides)?;
        let metrics = Arc::new(counted_by(&settings));
        let location = settings.location()?.metered(Arc::clone(&metrics) as Arc<dyn RequestMeter>);
        let cache_root = settings.cache_root();
        if let Some(root) = &cache_root {
            private::require(root, "the cache", "--cache-dir")?;
        }
        scratch::sweep(&std::env::temp_dir());
        cache_root.iter().for_each(|root| scratch::sweep(root));
        Mountpoint::sweep();
        let observer = Arc::new(CountingObserver { metrics: Arc::clone(&metrics), observer });
        let known_records = Arc::default();
        let engine = Self { observer, settings, location, cache_root, interrupt, metrics, known_records };
        if let Some(server) = engine.location.exposed_to() {
            engine.warn(&format!(
                "requests to {server} are not encrypted: anybody on the way can read what is stored; use https://"
            ));
        }
        Ok(engine)
    }

    /// For a process that serves many requests: what it opens is kept, and shared by what
    /// [`Self::for_request`] makes of it.
    pub fn serving(self) -> Self {
        Self { location: self.location.kept_open(), ..self }
    }

    /// The same engine for one request, with an observer and an interrupt of its own.
    pub fn for_request(&self, observer: Arc<dyn Observer>, interrupt: Interrupt) -> Self {
        let observer = Arc::new(CountingObserver { metrics: Arc::clone(&self.metrics), observer });
        Self { observer, interrupt, ..self.clone() }
    }

    /// Makes a remark that is not part of an outcome.
    pub fn say(&self, text: &str) {
        self.observer.observe(&Observation::Remark(text));
    }

    /// Warns of something that does not keep the work from going on.
    pub fn warn(&self, text: &str) {
        self.observer.observe(&Observation::Warning(text));
    }

    /// Tells that a step is done.
    pub fn step(&self, text: &str) {
        self.observer.observe(&Observation::Step(text));
    }

    /// The follower of the operation that begins now.
    pub fn progress(&self) -> Arc<dyn Progress> {
        self.observer.progress()
    }

    /// Who acts: what the arguments do not say is made up so that it can be found again.
    pub fn actor(&self, args: &ActorName) -> Actor {
        let run_id = args.run_id.clone().filter(|id| !id.is_empty());
        Actor {
            run_id: run_id.unwrap_or_else(|| format!("pstore-{}", clock::new_record_id())),
            host: args.host.clone().or_else(|| self.settings.host_name()).unwrap_or_default(),
            host_run_id: args.host_run_id.clone(),
            ..Actor::default()
        }
    }

    /// How a mount reads: no longer than requests are repeated.
    pub fn limits(&self) -> Limits {
        Limits::within(self.location.patience())
    }

    /// Waits for the holder of a profile's lock, and says so.
    pub fn patience(&self, profile: &ProfileName, wait: Duration) -> Patience {
        let (observer, profile) = (Arc::clone(&self.observer), profile.clone());
        let interrupt = self.interrupt.clone();
        Patience::telling(wait, move |waiting| {
            observer.observe(&Observation::Remark(&told(&profile, waiting)));
        })
        .until(move || interrupt.is_raised())
    }

    /// The token of a lock that is held already: as typed, else from the environment, where
    /// a variable that is set to nothing counts as not set.
    pub fn lock_token(&self, typed: Option<Nonce>) -> Result<Option<Nonce>, Failure> {
        if typed.is_some() {
            return Ok(typed);
        }
        let Some(text) = self.settings.of_this_run(LOCK_TOKEN) else { return Ok(None) };
        text.parse().map(Some).map_err(|error| Failure::usage(format!("{LOCK_TOKEN}: {error}")))
    }

    /// Opens the store.
    #[crate::boxed]
    pub async fn store(&self, purpose: Purpose) -> Result<Store, Failure> {
        let bucket = self.location.bucket(purpose).await?;
        self.step(&format!("opened {}", self.location.shown()));
        Ok(self.told_of(Store::new(bucket, self.cache_root.clone())))
    }

    /// A store that may have to be made, or tried.
    #[crate::boxed]
    pub async fn store_to_make(&self) -> Result<Store, Failure> {
        Ok(self.told_of(self.location.store_to_make(self.cache_root.clone()).await?))
    }

    /// A store that tells the observer of its locks, and when the server is tried: on a store that is far
    /// away this takes a moment.
    fn told_of(&self, store: Store) -> Store {
        let store = store
            .observed(Arc::new(LockTeller(Arc::clone(&self.observer))))
            .knowing(Arc::clone(&self.known_records));
        if matches!(self.location.url, StoreUrl::Directory(_)) {
            return store;
        }
        let (observer, shown) = (Arc::clone(&self.observer), self.location.shown());
        store.telling(move || {
            observer.observe(&Observation::Remark(&format!(
                "{shown} is reached through a server that was not tried yet; trying whether it keeps what \
                 conditional writes promise"
            )));
        })
    }

    /// The first answer of a store may take as long as requests are repeated; that is said.
    pub async fn answer<T>(&self, first: impl Future<Output = T>) -> T {
        let mut first = std::pin::pin!(first);
        tokio::select! {
            answer = &mut first => return answer,
            () = tokio::time::sleep(SLOW_ANSWER) => {}
        }
        self.say(&format!("no answer from {} yet; still trying", self.location.shown()));
        first.await
    }
}

/// Counts for this host, as the settings say.
fn counted_by(settings: &Settings) -> Metrics {
    let outlets =
        Outlets { textfile: settings.metrics_textfile().is_some(), reports: settings.metrics_reports() };
    Metrics::new(&settings.host_name().unwrap_or_default(), settings.metrics_profiles(), outlets)
}

/// How many threads wait for input and output, and as many again that compute.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from).max(2)
}

/// Whom somebody waits for, and for how long.
fn told(profile: &ProfileName, waiting: &Waiting<'_>) -> String {
    let Waiting { holder, ahead, left } = waiting;
    let since = time::utc(holder.acquired_at_ms);
    let queue = match ahead {
        0 => String::new(),
        1 => "; one other on this host comes first".to_owned(),
        count => format!("; {count} others on this host come first"),
    };
    let seconds = left.as_secs_f64().ceil();
    format!("waiting up to {seconds} s for {profile}, held since {since} by {holder}{queue}")
}
