//! `profile` compares the browser profiles of two snapshots: cookies, settings, extensions, storage.
//!
//! It fetches the few needed files of both snapshots; a confined process reads databases. It returns no value of a
//! cookie or a setting.

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
        sites::{self, AFTER, BEFORE, Site, Sites},
        storage::{self, Storage},
    },
};
use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error,
    content::TenantStore,
    error::IoContext,
    format::{
        record::Record,
        tree::{Entry, Kind, TreePath},
    },
    ops::read::{browse, restore},
    progress::Silent,
    scratch::{self, Scratch},
};

use crate::{engine::threads, failure::Failure};

/// Beside a database of SQLite's, and part of it.
const JOURNALS: [&str; 2] = ["-journal", "-wal"];
/// Chrome's settings: of a profile, those it guards, and of all profiles together.
const SETTINGS: [&str; 3] = ["Preferences", "Secure Preferences", "Local State"];

/// Cookies of one site.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SiteFields {
    /// The site.
    pub site: String,
    /// How many cookies the earlier snapshot has.
    pub before: u64,
    /// How many cookies the later snapshot has.
    pub after: u64,
    /// How many were added.
    pub added: u64,
    /// How many were removed.
    pub gone: u64,
    /// How many of the later ones lapse within 7 days.
    pub expiring: u64,
}

/// Cookies of one database.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CookieChanges {
    /// The database.
    pub path: String,
    /// The sites whose cookies changed, those with most changes first.
    pub sites: Vec<SiteFields>,
    /// How many more sites there are.
    pub more_sites: u64,
    /// Why the cookies could not be read.
    pub problem: Option<String>,
}

/// Settings of one file.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SettingChanges {
    /// The file.
    pub path: String,
    /// The names of the settings that changed; nothing if the file cannot be read.
    pub changed: Option<BTreeSet<String>>,
}

/// An extension of a profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExtensionFields {
    /// The profile of Chrome's.
    pub profile: String,
    /// The extension's id.
    pub id: String,
    /// Its version.
    pub version: String,
}

/// Origins of one Local Storage.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LocalStorageChanges {
    /// The directory of the Local Storage.
    pub path: String,
    /// The origins that were added.
    pub added: Vec<String>,
    /// The origins that were removed.
    pub gone: Vec<String>,
    /// How many more origins there are.
    pub more_origins: u64,
    /// Why the origins could not be read.
    pub problem: Option<String>,
}

/// The change of a browser profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ProfileChanges {
    /// Each database of cookies that changed.
    pub cookies: Vec<CookieChanges>,
    /// Each file of settings that changed.
    pub settings: Vec<SettingChanges>,
    /// The extensions that were added.
    pub extensions_added: Vec<ExtensionFields>,
    /// The extensions that were removed.
    pub extensions_gone: Vec<ExtensionFields>,
    /// The origins that have an IndexedDB only now.
    pub origins_added: Vec<String>,
    /// The origins that have an IndexedDB no longer.
    pub origins_gone: Vec<String>,
    /// Each Local Storage that changed.
    pub local_storage: Vec<LocalStorageChanges>,
}

/// Compares the browser profiles of two snapshots.
pub(super) async fn compare(
    tenant: &TenantStore,
    before: &Record,
    after: &Record,
) -> Result<ProfileChanges, Failure> {
    let (old, new) = (browse::entries(tenant, before).await?, browse::entries(tenant, after).await?);
    let changed = changed(&old, &new);
    let cookies = databases(&changed);
    let settings: BTreeSet<PathBuf> = changed.iter().filter(|path| is_of_settings(path)).cloned().collect();
    let storage: BTreeSet<PathBuf> = changed.iter().filter_map(|path| storage::directory_of(path)).collect();
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
    let (came, went) = names::changed(&told(&old, names::extension), &told(&new, names::extension));
    let (origins_added, origins_gone) =
        names::changed(&told(&old, names::origin), &told(&new, names::origin));
    let setting = |(path, changed): (PathBuf, _)| SettingChanges { path: text(&path), changed };
    Ok(ProfileChanges {
        cookies: cookies.into_iter().map(cookie_changes).collect(),
        settings: settings.into_iter().map(setting).collect(),
        extensions_added: came.into_iter().map(ExtensionFields::from).collect(),
        extensions_gone: went.into_iter().map(ExtensionFields::from).collect(),
        origins_added,
        origins_gone,
        local_storage: local_storage.into_iter().map(storage_changes).collect(),
    })
}

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn cookie_changes((path, sites): (PathBuf, Sites)) -> CookieChanges {
    let site = |site: Site| SiteFields {
        site: site.site,
        before: site.before,
        after: site.after,
        added: site.added,
        gone: site.gone,
        expiring: site.expiring,
    };
    CookieChanges {
        path: text(&path),
        sites: sites.sites.into_iter().map(site).collect(),
        more_sites: sites.more,
        problem: sites.problem,
    }
}

fn storage_changes((path, storage): (PathBuf, Storage)) -> LocalStorageChanges {
    let Storage { added, gone, more, problem } = storage;
    LocalStorageChanges { path: text(&path), added, gone, more_origins: more, problem }
}

impl From<Extension> for ExtensionFields {
    fn from(Extension { profile, id, version }: Extension) -> Self {
        Self { profile, id, version }
    }
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
    let request = restore::Request {
        paths,
        target: target.to_owned(),
        force: false,
        keeping: Default::default(),
        threads: threads(),
        inspector: None,
        point_of_no_return: Default::default(),
    };
    restore::restore(tenant, record, &request, Arc::new(Silent)).await?;
    Ok(())
}

/// The facts in the fetched files.
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
