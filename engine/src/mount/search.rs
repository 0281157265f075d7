//! `Search` finds the session of this host that a mount continues.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fuse::{mount::info::Mode, overlay::session::SessionPlace};
use store::{ErrorKind, name::ChromeMajor};

use super::{
    assembly::blocking,
    request::MountRequest,
    sessions::{About, Candidate, Sessions, Taking, is_named},
};
use crate::{Engine, failure::Failure, settings::Settings};

/// A process that has ended holds its session no longer than this.
const ENDED_ARE_GONE: Duration = Duration::from_secs(2);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// The session that a mount looks for.
#[derive(Clone, Debug)]
pub(super) struct Search {
    settings: Settings,
    store: String,
    profile: String,
    chrome_major: Option<ChromeMajor>,
    ignored: Vec<String>,
}

/// A session that was there before the lock was.
#[derive(Debug)]
pub(super) struct EarlierSession {
    pub(super) id: String,
    pub(super) chrome_major: Option<ChromeMajor>,
}

impl Search {
    pub(super) fn new(engine: &Engine, args: &MountRequest) -> Self {
        Self {
            settings: engine.settings.clone(),
            store: engine.location.shown(),
            profile: args.source.profile.to_string(),
            chrome_major: args.chrome_major,
            ignored: args.ignore_session.clone(),
        }
    }

    /// The same for another Chrome.
    pub(super) fn of(&self, chrome_major: ChromeMajor) -> Self {
        Self { chrome_major: Some(chrome_major), ..self.clone() }
    }

    /// The session that would be continued, if the lock could be had now.
    pub(super) async fn look(&self) -> Result<Option<EarlierSession>, Failure> {
        Ok(self.look_around().await?.0)
    }

    /// As [`Self::look`], and where the profile is mounted now.
    pub(super) async fn look_around(&self) -> Result<(Option<EarlierSession>, Option<PathBuf>), Failure> {
        let (candidate, others) = self.choose(self.find(Taking::Look).await?)?;
        let seen = candidate.map(|candidate| EarlierSession {
            id: candidate.session.id(),
            chrome_major: ChromeMajor::try_from(candidate.info.chrome_major).ok(),
        });
        Ok((seen, others.busy.into_iter().next().map(|info| info.mountpoint)))
    }

    /// Takes the session that is continued, for the holder of the lock; with it all others.
    pub(super) async fn take(&self) -> Result<(Option<Candidate>, Sessions), Failure> {
        let began = Instant::now();
        loop {
            let found = self.find(Taking::Take).await?;
            let is_clear = !found.unfinished.is_empty() || found.busy.is_empty();
            if is_clear || began.elapsed() > ENDED_ARE_GONE {
                return self.choose(found);
            }
            drop(found);
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    async fn find(&self, taking: Taking) -> Result<Sessions, Failure> {
        let search = self.clone();
        blocking(move || {
            let wanted = |path: &Path, about: &About| search.is_wanted(path, about);
            Sessions::find(&search.settings, SessionPlace::Here, taking, wanted)
        })
        .await
    }

    fn is_wanted(&self, path: &Path, about: &About) -> bool {
        about.may_be_of(&self.store, &self.profile)
            && about.mode.is_none_or(|mode| mode == Mode::Locked)
            && self.chrome_major.zip(about.chrome_major).is_none_or(|(major, of)| u64::from(major) == of)
            && !is_named(path, &self.ignored)
    }

    fn choose(&self, mut found: Sessions) -> Result<(Option<Candidate>, Sessions), Failure> {
        found.require_readable(&self.profile)?;
        let mut mine = std::mem::take(&mut found.unfinished).into_iter();
        let candidate = mine.next();
        if let (Some(first), Some(_)) = (&candidate, mine.next()) {
            let (profile, id) = (&self.profile, first.session.id());
            let message = format!("{profile} has several unfinished sessions, one of them {id}");
            return Err(Failure::new(ErrorKind::Conflict, message).hint(SESSIONS));
        }
        Ok((candidate, found))
    }
}

const SESSIONS: &str = "`pstore sessions` lists them; `pstore sessions rescue` and `discard` settle one";
