//! `pstore diff --profile`: what became of a browser profile, in a person's words.
//!
//! The few files that tell it are fetched from both snapshots; databases are read in a process that
//! has nothing to lose. No value of a cookie or a setting is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs::{self, File},
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use capture::{
    cell::Cell,
    change::{
        names::{self, Extension},
        settings,
        sites::{self, AFTER, BEFORE, Sites},
        storage::{self, Storage},
    },
};
use engine::{failure::Failure, text::escape};
use serde_json::{Value, json};
use store::{
    Error,
    content::TenantStore,
    error::IoContext,
    format::{
        record::Record,
        tree::{Entry, Kind, TreePath},
    },
    ops::read::{
        browse,
        restore::{self, Request},
    },
    progress::Silent,
    scratch::{self, Scratch},
};

/// Beside a database of SQLite's, and part of it.
const JOURNALS: [&str; 2] = ["-journal", "-wal"];
/// Chrome's settings: of a profile, those it guards, and of all profiles together.
const SETTINGS: [&str; 3] = ["Preferences", "Secure Preferences", "Local State"];

/// What a person wants to know of two snapshots.
pub(super) struct Profile {
    cookies: BTreeMap<PathBuf, Sites>,
    /// Of each file of settings, the names of those that changed; `None` if it is no such file.
    settings: BTreeMap<PathBuf, Option<BTreeSet<String>>>,
    extensions: (Vec<Extension>, Vec<Extension>),
    /// Those that have an IndexedDB.
    origins: (Vec<String>, Vec<String>),
    local_storage: BTreeMap<PathBuf, Storage>,
}

impl Profile {
    pub(super) async fn compare(
        tenant: &TenantStore,
        before: &Record,
        after: &Record,
    ) -> Result<Self, Failure> {
        let (old, new) = (browse::entries(tenant, before).await?, browse::entries(tenant, after).await?);
        let changed = changed(&old, &new);
        let cookies = databases(&changed);
        let settings: BTreeSet<PathBuf> =
            changed.iter().filter(|path| is_of_settings(path)).cloned().collect();
        let storage: BTreeSet<PathBuf> =
            changed.iter().filter_map(|path| storage::directory_of(path)).collect();
        let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Look)?;
        let in_storage = |path: &PathBuf| path.parent().is_some_and(|parent| storage.contains(parent));
        let wanted: BTreeSet<PathBuf> = cookies
            .iter()
            .flat_map(|path| whole(path))
            .chain(settings.clone())
            .chain(old.iter().chain(&new).map(path_of).filter(in_storage))
            .collect();
        fetch(tenant, before, &old, &wanted, &scratch.path().join(BEFORE)).await?;
        fetch(tenant, after, &new, &wanted, &scratch.path().join(AFTER)).await?;
        let captured_at_ms = after.captured_at_ms;
        let read = move || read(&scratch, &cookies, &storage, settings, captured_at_ms);
        let read = tokio::task::spawn_blocking(read).await;
        let Told { cookies, local_storage, settings } =
            read.map_err(|error| Failure::internal(error.to_string()))??;
        Ok(Self {
            cookies,
            settings,
            local_storage,
            extensions: names::changed(&told(&old, names::extension), &told(&new, names::extension)),
            origins: names::changed(&told(&old, names::origin), &told(&new, names::origin)),
        })
    }

    pub(super) fn document(&self) -> Value {
        let extension = |extension: &Extension| json!({ "profile": extension.profile, "id": extension.id, "version": extension.version });
        let extensions = |all: &[Extension]| all.iter().map(extension).collect::<Vec<Value>>();
        let cookies = self.cookies.iter().map(|(path, sites)| {
            json!({
                "path": path.to_string_lossy(),
                "sites": sites.sites,
                "more_sites": sites.more,
                "problem": sites.problem,
            })
        });
        let local_storage = self.local_storage.iter().map(|(path, storage)| {
            json!({
                "path": path.to_string_lossy(),
                "added": storage.added,
                "gone": storage.gone,
                "more_origins": storage.more,
                "problem": storage.problem,
            })
        });
        let settings = self
            .settings
            .iter()
            .map(|(path, names)| json!({ "path": path.to_string_lossy(), "changed": names }));
        json!({
            "cookies": cookies.collect::<Vec<Value>>(),
            "settings": settings.collect::<Vec<Value>>(),
            "extensions_added": extensions(&self.extensions.0),
            "extensions_gone": extensions(&self.extensions.1),
            "origins_added": self.origins.0,
            "origins_gone": self.origins.1,
            "local_storage": local_storage.collect::<Vec<Value>>(),
        })
    }

    /// A line for each thing; all that is foreign in it is made plain.
    pub(super) fn text(&self) -> String {
        let mut lines = Vec::new();
        for (path, sites) in &self.cookies {
            let path = path.to_string_lossy();
            lines.extend(sites.problem.iter().map(|problem| format!("cookies     {path}: {problem}")));
            lines.extend(
                sites.sites.iter().map(|site| format!("cookies     {}  {}", site.site, counts(site))),
            );
            if sites.more > 0 {
                lines.push(format!("cookies     and {} more sites", sites.more));
            }
        }
        let extension = |sign: char, of: &Extension| format!("extension   {sign} {} {}", of.id, of.version);
        lines.extend(self.extensions.0.iter().map(|of| extension('+', of)));
        lines.extend(self.extensions.1.iter().map(|of| extension('-', of)));
        lines.extend(self.origins.0.iter().map(|origin| format!("storage     + {origin}")));
        lines.extend(self.origins.1.iter().map(|origin| format!("storage     - {origin}")));
        for (path, storage) in &self.local_storage {
            let path = path.to_string_lossy();
            lines.extend(storage.problem.iter().map(|problem| format!("storage     {path}: {problem}")));
            lines
                .extend(storage.added.iter().map(|origin| format!("storage     + {origin} (Local Storage)")));
            lines.extend(storage.gone.iter().map(|origin| format!("storage     - {origin} (Local Storage)")));
            if storage.more > 0 {
                lines.push(format!("storage     and {} more origins (Local Storage)", storage.more));
            }
        }
        for (path, names) in &self.settings {
            let path = path.to_string_lossy();
            match names {
                Some(names) => lines.extend(names.iter().map(|name| format!("setting     {path}: {name}"))),
                None => lines.push(format!("setting     {path} cannot be read")),
            }
        }
        lines.iter().map(|line| format!("{}\n", escape::line(line))).collect()
    }
}

fn counts(site: &sites::Site) -> String {
    let parts = [(site.added, "added"), (site.gone, "gone"), (site.expiring, "expiring within 7 days")];
    let parts: Vec<String> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    format!("{} -> {}: {}", site.before, site.after, parts.join(", "))
}

fn path_of(entry: &Entry) -> PathBuf {
    Path::new(OsStr::from_bytes(entry.path.as_bytes())).to_owned()
}

/// The files whose content is another, or that only one of the two has.
fn changed(before: &[Entry], after: &[Entry]) -> BTreeSet<PathBuf> {
    let differs = |entry: &&Entry, others: &[Entry]| {
        matches!(entry.kind, Kind::File { .. })
            && browse::entry(others, &entry.path).is_none_or(|other| other.kind != entry.kind)
    };
    let gone = before.iter().filter(|entry| differs(entry, after));
    let new = after.iter().filter(|entry| differs(entry, before));
    gone.chain(new).map(path_of).collect()
}

/// The databases of cookies that a change of these files concerns.
fn databases(changed: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let database = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        let name = JOURNALS.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name);
        (name == "Cookies").then(|| path.with_file_name(name))
    };
    changed.iter().filter_map(database).collect()
}

/// A database and what belongs to it.
fn whole(database: &Path) -> Vec<PathBuf> {
    let beside = JOURNALS.iter().map(|suffix| {
        let mut name = database.as_os_str().to_owned();
        name.push(suffix);
        PathBuf::from(name)
    });
    beside.chain([database.to_owned()]).collect()
}

fn is_of_settings(path: &Path) -> bool {
    path.components().count() <= 2
        && path.file_name().is_some_and(|name| SETTINGS.iter().any(|known| name == *known))
}

fn told<T: Ord>(entries: &[Entry], tell: impl Fn(&[u8]) -> Option<T>) -> BTreeSet<T> {
    let directories = entries.iter().filter(|entry| entry.kind == Kind::Directory);
    directories.filter_map(|entry| tell(entry.path.as_bytes())).collect()
}

/// Writes those of `wanted` that the snapshot has to `target`.
async fn fetch(
    tenant: &TenantStore,
    record: &Record,
    entries: &[Entry],
    wanted: &BTreeSet<PathBuf>,
    target: &Path,
) -> Result<(), Failure> {
    let path = |path: &PathBuf| TreePath::new(path.as_os_str().as_bytes()).ok();
    let is_file = |path: &TreePath| {
        browse::entry(entries, path).is_some_and(|entry| browse::file(entries, entry).is_some())
    };
    let paths: Vec<TreePath> = wanted.iter().filter_map(path).filter(is_file).collect();
    if paths.is_empty() {
        return Ok(fs::create_dir(target).at("cannot make", target)?);
    }
    let request = Request {
        paths,
        target: target.to_owned(),
        force: false,
        keeping: Default::default(),
        threads: engine::threads(),
        inspector: None,
        point_of_no_return: Default::default(),
    };
    restore::restore(tenant, record, &request, Arc::new(Silent)).await?;
    Ok(())
}

/// What the files that were fetched tell.
struct Told {
    cookies: BTreeMap<PathBuf, Sites>,
    local_storage: BTreeMap<PathBuf, Storage>,
    settings: BTreeMap<PathBuf, Option<BTreeSet<String>>>,
}

/// Reads what was fetched.
fn read(
    scratch: &Scratch,
    cookies: &BTreeSet<PathBuf>,
    storage: &BTreeSet<PathBuf>,
    settings: BTreeSet<PathBuf>,
    captured_at_ms: u64,
) -> Result<Told, Failure> {
    let root = scratch.path();
    let copies = Scratch::make(&std::env::temp_dir(), scratch::Kind::Check)?;
    let sites = match cookies.is_empty() {
        true => BTreeMap::new(),
        false => sites::compare(root, cookies, captured_at_ms, (Cell::own(), copies.path()))
            .map_err(|error| Error::io("cannot read the cookies in", root, error))?,
    };
    let local_storage = match storage.is_empty() {
        true => BTreeMap::new(),
        false => storage::compare(root, storage, (Cell::own(), copies.path()))
            .map_err(|error| Error::io("cannot read the Local Storage in", root, error))?,
    };
    let named = settings.into_iter().map(|path| {
        let side = |side: &str| content(&root.join(side).join(&path));
        let changed = match (side(BEFORE), side(AFTER)) {
            (Ok(before), Ok(after)) => settings::changed(before.as_deref(), after.as_deref()),
            _ => None,
        };
        (path, changed)
    });
    Ok(Told { cookies: sites, local_storage, settings: named.collect() })
}

/// `None` if there is no such file.
fn content(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(settings::MAX_BYTES + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > settings::MAX_BYTES {
        true => Err(std::io::ErrorKind::FileTooLarge.into()),
        false => Ok(Some(bytes)),
    }
}
