//! `Sessions` finds the sessions of this host that no daemon serves: those that can be continued, and those that
//! cannot even be read. pstore never ignores one: a user who mounts an older snapshot beside it would not know what
//! is missing.

use std::{
    fs,
    path::{Path, PathBuf},
};

use fuse::{
    mount::{
        clean_up,
        info::{self, Info, Mode},
        is_stale, release_if_stuck,
    },
    overlay::{
        recovery::Unfinished,
        session::{SessionDir, SessionPlace},
    },
};
use serde_json::Value;
use store::{Error, ErrorKind};

use crate::{failure::Failure, settings::Settings};

/// A session that was cut short with changes in it.
#[derive(Debug)]
pub struct Candidate {
    /// Its directory, held.
    pub session: SessionDir,
    /// Its own description.
    pub info: Info,
    /// Its changes.
    pub unfinished: Unfinished,
}

/// A session of which it is not known what is in it.
#[derive(Debug)]
pub struct Unreadable {
    /// Its id.
    pub id: String,
    /// Where it lies.
    pub path: PathBuf,
    /// Why it cannot be read.
    pub problem: String,
    /// The part of it that can be told.
    pub about: About,
}

/// The known facts of a session, readable or not. An unknown fact could have any value.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The store it is of.
    pub store: Option<String>,
    /// The profile it is of.
    pub profile: Option<String>,
    /// The Chrome it is for.
    pub chrome_major: Option<u64>,
    /// Whether it can be committed.
    pub mode: Option<Mode>,
}

/// The treatment of sessions that are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// They are taken, to be continued or removed.
    Take,
    /// They are only told about.
    Look,
}

/// All sessions that were asked for.
#[derive(Debug, Default)]
pub struct Sessions {
    /// Those with changes that nobody serves.
    pub unfinished: Vec<Candidate>,
    /// Those that cannot be read.
    pub unreadable: Vec<Unreadable>,
    /// Those that somebody serves.
    pub busy: Vec<Info>,
    /// Those that hold no changes.
    pub empty: Vec<(SessionDir, Info)>,
}

impl About {
    fn of(info: &Info) -> Self {
        Self {
            store: Some(info.store.clone()),
            profile: Some(info.profile.clone()),
            chrome_major: Some(info.chrome_major),
            mode: Some(info.mode),
        }
    }

    /// Whether it may be a session of this profile.
    pub fn may_be_of(&self, store: &str, profile: &str) -> bool {
        let is = |known: &Option<String>, wanted: &str| known.as_ref().is_none_or(|known| known == wanted);
        is(&self.store, store) && is(&self.profile, profile)
    }

    /// The facts in a description that another version wrote, or that is damaged.
    fn salvaged(path: &Path) -> Self {
        let bytes = fs::read(path.join("session.json")).unwrap_or_default();
        let said: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        let text = |field: &str| said[field].as_str().map(ToOwned::to_owned);
        let in_journal = || {
            let session = SessionDir::look(path).ok()??;
            let unfinished = Unfinished::read(&session, false).ok()?;
            Some(unfinished.below()?.lineage.name.to_string())
        };
        Self {
            store: text("store"),
            profile: text("profile").or_else(in_journal),
            chrome_major: said["chrome_major"].as_u64(),
            mode: serde_json::from_value(said["mode"].clone()).ok(),
        }
    }
}

impl Sessions {
    /// Finds those that are wanted, given where they lie and what is known of them.
    pub fn find(
        settings: &Settings,
        place: SessionPlace,
        taking: Taking,
        wanted: impl Fn(&Path, &About) -> bool,
    ) -> Result<Self, Failure> {
        let mut found = Self::default();
        for path in SessionDir::list(&settings.sessions()?, place)? {
            let info = described(&path);
            let about = info.as_ref().map_or_else(|_| About::salvaged(&path), About::of);
            if !wanted(&path, &about) {
                continue;
            }
            if let Err(error) = info.and_then(|info| found.examine(&path, info, taking)) {
                let id = path.file_name().map(|name| name.to_string_lossy().into_owned());
                let problem = error.to_string();
                found.unreadable.push(Unreadable { id: id.unwrap_or_default(), path, problem, about });
            }
        }
        Ok(found)
    }

    fn examine(&mut self, path: &Path, info: Info, taking: Taking) -> store::Result<()> {
        release_if_stuck(&info);
        let held = match taking {
            Taking::Take => SessionDir::open(path)?,
            Taking::Look => SessionDir::look(path)?,
        };
        let Some(session) = held else {
            self.busy.push(info);
            return Ok(());
        };
        if taking == Taking::Take && is_stale(&info.mountpoint) {
            // Nobody serves it: whatever uses it gets errors, and it may be in the way.
            clean_up(&info.mountpoint)?;
        }
        let unfinished = Unfinished::read(&session, info.is_of_this_boot())?;
        if unfinished.has_changes() {
            self.unfinished.push(Candidate { session, info, unfinished });
        } else {
            self.empty.push((session, info));
        }
        Ok(())
    }

    /// Fails if there is one that cannot be read: it may be newer than any snapshot.
    pub fn require_readable(&self, profile: &str) -> Result<(), Failure> {
        // What a fork holds is not of the profile.
        let is_locked = |found: &&Unreadable| found.about.mode.is_none_or(|mode| mode == Mode::Locked);
        let first = self.unreadable.iter().find(is_locked);
        let Some(Unreadable { id, path, problem, about }) = first else { return Ok(()) };
        let whose = match &about.profile {
            Some(_) => format!("session {id} of {profile}"),
            None => format!("session {id}, which may be of {profile},"),
        };
        let message =
            format!("{whose} cannot be read, and may hold changes that are stored nowhere: {problem}");
        Err(Failure::new(ErrorKind::SessionUnreadable, message).hint(format!(
            "it lies in {}; `pstore sessions set-aside {id}` keeps it out of the way, `--ignore-session {id}` goes on without it this once",
            path.display()
        )))
    }
}

/// The description of a session, unless a newer pstore wrote it.
pub fn described(path: &Path) -> store::Result<Info> {
    let info: Info = SessionDir::read_info(path)?;
    if info.v > info::VERSION {
        return Err(Error::UnsupportedFormat {
            object: path.join("session.json").display().to_string(),
            found: info.v.to_string(),
            supported: info::VERSION.to_string(),
            writer: "a newer pstore".to_owned(),
        });
    }
    Ok(info)
}

/// Whether a session is one of these, of which the first digits are given.
pub fn is_named(path: &Path, prefixes: &[String]) -> bool {
    let id = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    prefixes.iter().any(|prefix| !prefix.is_empty() && id.starts_with(&prefix.to_ascii_uppercase()))
}
