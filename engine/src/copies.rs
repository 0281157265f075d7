//! `copies` finds the copies of profiles that runs have left, because they were killed or could not store the changes.
//!
//! Such a copy may hold changes that are nowhere else. So pstore never removes it by itself. The copy is closed to
//! other users, and pstore warns of it until somebody stores or discards it.

use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use capture::chrome::processes;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};
use store::{
    Error, ErrorKind,
    catalog::clock,
    id::RecordId,
    name::{Lineage, ProfileName},
    scratch::{self, Scratch},
};

use crate::{Engine, failure::Failure, host::mountpoint::PROFILE};

/// The file beside the profile that says whose it is.
const ABOUT: &str = "copy.json";

/// A copy that no run uses any more.
#[derive(Debug)]
pub struct Copy {
    folder: Scratch,
    about: Value,
}

/// A copy as the documents list it. A field is missing if the copy does not say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct CopyFields {
    /// The digits that name it.
    pub copy: String,
    /// The directory of the profile.
    pub path: PathBuf,
    /// The store that it is of.
    pub store: Option<String>,
    /// The tenant.
    pub tenant_id: Option<String>,
    /// The profile of the tenant.
    pub profile_id: Option<String>,
    /// The Chrome that used it.
    pub chrome_major_version: Option<u64>,
    /// When its run began.
    pub started_at_ms: Option<u64>,
    /// How long ago that is.
    pub age_ms: Option<u64>,
}

/// Notes whose profile is about to be copied to `folder`, and which snapshot is `current`, if that is known.
pub fn note(
    engine: &Engine,
    folder: &Scratch,
    lineage: &Lineage,
    current: Option<Option<RecordId>>,
) -> Result<(), Failure> {
    let mut about = json!({
        "v": 1,
        "store": engine.location.shown(),
        "tenant_id": lineage.name.tenant,
        "profile_id": lineage.name.profile,
        "chrome_major_version": lineage.chrome_major,
        "started_at_ms": clock::unix_ms(),
    });
    if let Some(current) = current {
        about["record"] = json!(current);
    }
    let path = folder.path().join(ABOUT);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let noted = file.and_then(|mut file| file.write_all(about.to_string().as_bytes()));
    noted.map_err(|error| Error::io("cannot write", &path, error).into())
}

/// All that runs of this user have left. Of those that were killed before the profile was in its
/// place, nothing is kept: nobody has used them.
pub fn left() -> Vec<Copy> {
    let mut found = Vec::new();
    for path in scratch::list(&std::env::temp_dir(), scratch::Kind::Run) {
        // First: what is not ours may be anything, even what nobody ever finishes reading.
        let Some(folder) = Scratch::take(&path) else { continue };
        let Ok(about) = fs::read(path.join(ABOUT)) else { continue };
        if folder.path().join(PROFILE).exists() {
            found.push(Copy { folder, about: serde_json::from_slice(&about).unwrap_or_default() });
        } else if let Err(error) = folder.remove() {
            tracing::debug!(%error, path = %path.display(), "what a killed run has left could not be removed");
        }
    }
    found
}

/// The snapshot that was current when a run made this directory of the lineage: `Some(None)` if there was
/// none. `None` if the directory is no copy that a run of this user has left, or that is not known.
pub fn made_of(engine: &Engine, directory: &Path, lineage: &Lineage) -> Option<Option<RecordId>> {
    let place = directory.canonicalize().ok()?;
    let copy = left().into_iter().find(|copy| copy.path().canonicalize().is_ok_and(|path| path == place))?;
    let is_of = copy.about["store"] == json!(engine.location.shown())
        && copy.profile().is_some_and(|of| of == lineage.name.to_string())
        && copy.about["chrome_major_version"] == json!(lineage.chrome_major);
    let noted = copy.about.as_object()?.get("record").filter(|_| is_of)?;
    serde_json::from_value(noted.clone()).ok()
}

/// Warns of the copies of this profile.
pub fn warn_of(engine: &Engine, profile: &ProfileName) {
    let store = json!(engine.location.shown());
    for copy in left().iter().filter(|copy| copy.about["store"] == store) {
        if copy.profile().is_some_and(|of| of == profile.to_string()) {
            engine.warn(&copy.advice());
        }
    }
}

impl Copy {
    /// The digits of the directory's name.
    pub fn id(&self) -> String {
        let name = self.folder.path().file_name().unwrap_or_default().to_string_lossy();
        name.rsplit('-').next().unwrap_or_default().to_owned()
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join(PROFILE)
    }

    fn profile(&self) -> Option<String> {
        Some(format!("{}/{}", self.about["tenant_id"].as_str()?, self.about["profile_id"].as_str()?))
    }

    /// The copy as the documents list it.
    pub fn fields(&self) -> CopyFields {
        let text = |field: &str| self.about[field].as_str().map(str::to_owned);
        let started = self.about["started_at_ms"].as_u64();
        CopyFields {
            copy: self.id(),
            path: self.path(),
            store: text("store"),
            tenant_id: text("tenant_id"),
            profile_id: text("profile_id"),
            chrome_major_version: self.about["chrome_major_version"].as_u64(),
            started_at_ms: started,
            age_ms: started.map(|at| clock::unix_ms().saturating_sub(at)),
        }
    }

    /// A description of the copy, and the commands that store and remove it.
    pub fn advice(&self) -> String {
        let (id, path) = (self.id(), self.path());
        let (profile, major) = (self.profile(), self.about["chrome_major_version"].as_u64());
        let profile = profile.unwrap_or_else(|| "TENANT/PROFILE".to_owned());
        let major = major.map(|major| format!(" --chrome-major {major}")).unwrap_or_default();
        format!(
            "a run has left a copy of {profile} that may hold changes which are in no snapshot: \
             `pstore snapshot {} {profile}{major}` stores it, `pstore sessions discard {id} --confirm` removes it",
            path.display()
        )
    }

    /// Removes it, if no browser uses it.
    pub fn discard(self, confirm: bool) -> Result<String, Failure> {
        let (id, path) = (self.id(), self.path());
        if is_used(&path) {
            let message = format!("a browser still uses {}", path.display());
            return Err(Failure::new(ErrorKind::InUse, message).hint("end it first"));
        }
        if !confirm {
            let message = format!("what was changed in the copy {id}, {}, would be gone", path.display());
            return Err(
                Failure::usage(message).hint(format!("`pstore sessions discard {id} --confirm` removes it"))
            );
        }
        self.folder.remove().map_err(|error| Error::io("cannot remove", &path, error))?;
        Ok(id)
    }
}

fn is_used(profile: &Path) -> bool {
    processes::users(profile).is_ok_and(|users| users.runs() || !users.holders.is_empty())
}

/// The copy whose digits begin so; `None` if there is none.
pub fn find(prefix: &str) -> Result<Option<Copy>, Failure> {
    let wanted = prefix.to_ascii_lowercase();
    let mut fitting = left().into_iter().filter(|copy| !wanted.is_empty() && copy.id().starts_with(&wanted));
    match (fitting.next(), fitting.next()) {
        (Some(_), Some(_)) => {
            Err(Failure::new(ErrorKind::Ambiguous, format!("{prefix} fits several copies"))
                .hint("give more of it"))
        }
        (found, _) => Ok(found),
    }
}
