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
        tree::{Kind, TreePath},
    },
    ops::read::{
        browse,
        diff::{Change, Diff, Line},
        restore,
    },
    progress::Silent,
    scratch::{self, Scratch},
};

use crate::{engine::threads, failure::Failure};

/// Beside a database of SQLite's, and part of it.
const JOURNALS: [&str; 2] = ["-journal", "-wal"];
/// What a comparison calls a regular file.
const FILE: &str = "file";
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

/// Compares the browser profiles of two snapshots, which differ as `diff` says. Their trees are read as streams.
pub(super) async fn compare(
    tenant: &TenantStore,
    before: &Record,
    after: &Record,
    diff: &Diff,
) -> Result<ProfileChanges, Failure> {
    let changed = changed(&diff.lines);
    let cookies = databases(&changed);
    let settings: BTreeSet<PathBuf> = changed.iter().filter(|path| is_of_settings(path)).cloned().collect();
    let storage: BTreeSet<PathBuf> = changed.iter().filter_map(|path| storage::directory_of(path)).collect();
    let wanted = FilesToFetch {
        files: cookies.iter().flat_map(|path| whole(path)).chain(settings.clone()).collect(),
        directories: storage.clone(),
    };
    let scratch = Scratch::make(&std::env::temp_dir(), scratch::Kind::Look)?;
    let old = Named::of(tenant, before, &wanted).await?;
    let new = Named::of(tenant, after, &wanted).await?;
    fetch(tenant, before, old.files, &scratch.path().join(BEFORE)).await?;
    fetch(tenant, after, new.files, &scratch.path().join(AFTER)).await?;
    let captured_at_ms = after.captured_at_ms;
    let read = move || read(&scratch, &cookies, &storage, settings, captured_at_ms);
    let read = tokio::task::spawn_blocking(read).await;
    let FetchedFacts { cookies, local_storage, settings } =
        read.map_err(|error| Failure::internal(error.to_string()))??;
    let (came, went) = names::changed(&old.extensions, &new.extensions);
    let (origins_added, origins_gone) = names::changed(&old.origins, &new.origins);
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

fn path_of(path: &TreePath) -> PathBuf {
    Path::new(OsStr::from_bytes(path.as_bytes())).to_owned()
}

/// The files whose content is another, or that only one of the two has.
fn changed(lines: &[Line]) -> BTreeSet<PathBuf> {
    let differs = |line: &&Line| {
        let [before, after] = [line.before, line.after].map(|side| side.map(|side| side.kind));
        // What was a file of its own and is another name of one now is read again.
        (line.change != Change::Metadata || before != after) && [before, after].contains(&Some(FILE))
    };
    lines.iter().filter(differs).map(|line| path_of(&line.path)).collect()
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

/// The files to fetch, if there are such.
struct FilesToFetch {
    files: BTreeSet<PathBuf>,
    /// Of these, all files directly in them.
    directories: BTreeSet<PathBuf>,
}

impl FilesToFetch {
    fn has(&self, path: &Path) -> bool {
        self.files.contains(path) || path.parent().is_some_and(|parent| self.directories.contains(parent))
    }
}

/// What the names of one snapshot tell.
#[derive(Default)]
struct Named {
    /// Those of the wanted files that it has.
    files: Vec<TreePath>,
    extensions: BTreeSet<Extension>,
    origins: BTreeSet<String>,
}

impl Named {
    /// Goes through the tree of a snapshot.
    async fn of(tenant: &TenantStore, record: &Record, wanted: &FilesToFetch) -> Result<Self, Failure> {
        let mut named = Self::default();
        browse::each(tenant, record, |entry, file| {
            if entry.kind == Kind::Directory {
                named.extensions.extend(names::extension(entry.path.as_bytes()));
                named.origins.extend(names::origin(entry.path.as_bytes()));
            } else if file.is_some() && wanted.has(&path_of(&entry.path)) {
                named.files.push(entry.path.clone());
            }
        })
        .await?;
        Ok(named)
    }
}

/// Writes these files of a snapshot to `target`.
async fn fetch(
    tenant: &TenantStore,
    record: &Record,
    paths: Vec<TreePath>,
    target: &Path,
) -> Result<(), Failure> {
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
struct FetchedFacts {
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
) -> Result<FetchedFacts, Failure> {
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
    Ok(FetchedFacts { cookies: sites, local_storage, settings: named.collect() })
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
