//! `answer_reader` decodes the untrusted answers of a cell.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::{BufRead, BufReader, Read},
    sync::mpsc::SyncSender,
};

use super::{
    confinement::Confinement,
    messages::{Answer, MAX_ANSWER_BYTES},
};
use crate::{
    check_job::{CheckJob, CheckResult},
    db_state::brief,
    session_cookies::lasting::Lasting,
};

/// The answers so far. Jobs are told by their place in the order.
#[derive(Debug, Default)]
pub(super) struct Heard {
    pub ready: Option<Confinement>,
    /// Begun, and not answered.
    pub begun: BTreeSet<usize>,
    pub found: BTreeMap<usize, CheckResult>,
}

/// Why no more is listened to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    OutOfMemory,
    /// It could not begin.
    Failed(String),
    /// No answer at all, or one to another question.
    Nonsense,
}

impl Heard {
    /// Takes one line in. Each job can be begun and answered once, so their number is bounded.
    pub(super) fn hear(&mut self, line: &[u8], jobs: &[&CheckJob]) -> Result<(), Stop> {
        let answer = serde_json::from_slice(line).map_err(|_| Stop::Nonsense)?;
        match (answer, self.ready) {
            (Answer::Ready(confinement), None) => self.ready = Some(confinement),
            (Answer::Failed(why), None) => return Err(Stop::Failed(brief(&why))),
            (Answer::OutOfMemory, Some(_)) => return Err(Stop::OutOfMemory),
            (Answer::Began(at), Some(_))
                if at < jobs.len() && !self.found.contains_key(&at) && self.begun.insert(at) => {}
            (Answer::Sqlite(at, found), Some(_)) if self.begun.contains(&at) => {
                let Some(CheckJob::Sqlite(path)) = jobs.get(at) else { return Err(Stop::Nonsense) };
                self.take(at, found.of(path.clone()))?;
            }
            (Answer::LevelDb(at, found), Some(_)) if self.begun.contains(&at) => {
                let Some(CheckJob::LevelDb(path) | CheckJob::LevelDbLogs(path)) = jobs.get(at) else {
                    return Err(Stop::Nonsense);
                };
                self.take(at, found.of(path.clone()))?;
            }
            (Answer::Sites(at, sites), Some(_)) if self.begun.contains(&at) => {
                let Some(CheckJob::Sites(path, _)) = jobs.get(at) else { return Err(Stop::Nonsense) };
                self.take(at, sites.told().map(|sites| CheckResult::Sites(path.clone(), sites)))?;
            }
            (Answer::Storage(at, storage), Some(_)) if self.begun.contains(&at) => {
                let Some(CheckJob::Storage(path)) = jobs.get(at) else { return Err(Stop::Nonsense) };
                self.take(at, storage.told().map(|storage| CheckResult::Storage(path.clone(), storage)))?;
            }
            (Answer::Cookies(at, cookies), Some(_)) if self.begun.contains(&at) => {
                let Some(CheckJob::Cookies(path, _, names)) = jobs.get(at) else {
                    return Err(Stop::Nonsense);
                };
                self.take(
                    at,
                    cookies.told(names.len()).map(|found| CheckResult::Cookies(path.clone(), found)),
                )?;
            }
            (Answer::Origins(at, origins), Some(_)) if self.begun.contains(&at) => {
                let Some(CheckJob::Origins(path, names)) = jobs.get(at) else { return Err(Stop::Nonsense) };
                self.take(
                    at,
                    origins.told(names.len()).map(|found| CheckResult::Origins(path.clone(), found)),
                )?;
            }
            (Answer::SessionCookies(at, changed), Some(_)) if self.begun.contains(&at) => {
                let Some(CheckJob::SessionCookies(path, _)) = jobs.get(at) else {
                    return Err(Stop::Nonsense);
                };
                self.take(at, Some(CheckResult::SessionCookies(path.clone(), changed.told())))?;
            }
            _ => return Err(Stop::Nonsense),
        }
        Ok(())
    }

    fn take(&mut self, at: usize, found: Option<CheckResult>) -> Result<(), Stop> {
        self.found.insert(at, found.ok_or(Stop::Nonsense)?);
        self.begun.remove(&at);
        Ok(())
    }
}

/// Passes lines on, until there are none, or one is too long, or nobody listens.
pub(super) fn listen(answers: impl Read, tell: &SyncSender<Vec<u8>>) {
    let mut answers = BufReader::new(answers);
    loop {
        let mut line = Vec::new();
        let read = answers.by_ref().take(MAX_ANSWER_BYTES).read_until(b'\n', &mut line);
        // One that is cut off is passed on as it is, and is nonsense.
        if read.is_err() || line.is_empty() || tell.send(line).is_err() {
            return;
        }
    }
}

/// Whether these answers make sense after one question of each kind.
pub fn is_understood(answers: &[u8]) -> bool {
    let jobs = [
        CheckJob::Sqlite("Cookies".into()),
        CheckJob::LevelDb("leveldb".into()),
        CheckJob::Sites("Cookies".into(), 0),
        CheckJob::Storage("leveldb".into()),
        CheckJob::Cookies("Cookies".into(), 0, vec![("a.test".to_owned(), "sid".to_owned())]),
        CheckJob::Origins("leveldb".into(), vec!["https://a.test".to_owned()]),
        CheckJob::SessionCookies("Cookies".into(), Lasting { expires_utc: 0, name: "0".to_owned() }),
    ];
    let mut heard = Heard::default();
    answers.split_inclusive(|byte| *byte == b'\n').all(|line| heard.hear(line, &jobs.each_ref()).is_ok())
}

#[cfg(test)]
#[path = "answer_reader_tests.rs"]
mod tests;
