//! `Cell::examine` has databases examined in a cell, and starts another cell when one dies.

use std::{
    collections::{BTreeMap, VecDeque},
    io,
    path::Path,
};

use super::{Cell, Confinement, process::End};
use crate::{
    check_job::{CheckJob, CheckResult},
    db_state::{DbState, Deadline},
    sqlite::Means,
};

/// More side by side would gain little, and each may take memory.
const MOST_THREADS: usize = 8;

/// How many databases one process is asked about: their names must fit into its memory.
const MOST_JOBS: usize = 20_000;

/// How many processes an examination may use up.
const MOST_DEATHS: usize = 8;

/// How many of them may die before they have begun.
const MOST_UNREADY: usize = 3;

impl Cell {
    /// Checks these databases below `root`, up to `threads` of them at a time. All are answered for, in their order; an error says
    /// that no database can be examined here at all.
    ///
    /// A process may die because it was killed from outside, or because of another database that it
    /// had begun. So each that was begun and not answered is tried once more, alone. What ends
    /// that process too could not be examined.
    pub(crate) fn examine(
        &self,
        root: &Path,
        jobs: &[CheckJob],
        threads: usize,
        means: Means<'_>,
    ) -> io::Result<Vec<CheckResult>> {
        let mut rounds = Rounds {
            cell: self,
            jobs,
            found: BTreeMap::new(),
            waiting: (0..jobs.len()).collect(),
            suspects: VecDeque::new(),
            deaths: 0,
            unready: 0,
        };
        loop {
            if means.deadline.passed() {
                rounds.give_up(DbState::out_of_time(), "its process ended, and there is no time for another");
            } else if rounds.deaths == MOST_DEATHS {
                let why = format!("{MOST_DEATHS} processes have died of these databases");
                rounds.give_up(DbState::unexaminable(&why), &why);
            }
            let Some((batch, alone)) = rounds.next() else { break };
            let these: Vec<&CheckJob> = batch.iter().map(|at| &jobs[*at]).collect();
            let threads = threads.clamp(1, MOST_THREADS).min(these.len());
            let (heard, end) = self.run(root, &these, threads, means)?;
            let begun = |place| heard.begun.contains(&place);
            let answered = heard.found.into_iter().map(|(place, found)| (batch[place], found));
            rounds.found.extend(answered);
            let rest = batch.iter().copied().enumerate().filter(|(_, at)| !rounds.found.contains_key(at));
            let rest: Vec<(usize, bool)> = rest.map(|(place, at)| (at, begun(place))).collect();
            rounds.count(&end, heard.ready.is_some(), threads)?;
            rounds.settle(&rest, &end, alone, threads);
        }
        Ok(rounds.found.into_values().collect())
    }

    /// The kernel's restrictions on such a process.
    pub fn confinement(&self) -> io::Result<Confinement> {
        let scratch = tempfile::tempdir()?;
        let (depth, deadline) = (Default::default(), Deadline::after(self.grace));
        let means = Means { depth, deadline, scratch: scratch.path() };
        let (heard, end) = self.run(scratch.path(), &[], 1, means)?;
        heard.ready.ok_or_else(|| self.not_begun(&end, 1))
    }

    fn not_begun(&self, end: &End, threads: usize) -> io::Error {
        let how = self.told(end, threads);
        io::Error::other(format!("the process that examines databases ended before it began: {how}"))
    }
}

/// The remaining work. A database is identified by its place among all.
struct Rounds<'a> {
    cell: &'a Cell,
    jobs: &'a [CheckJob],
    found: BTreeMap<usize, CheckResult>,
    waiting: VecDeque<usize>,
    /// Begun by a process that died, and to be tried alone.
    suspects: VecDeque<usize>,
    deaths: usize,
    unready: usize,
}

impl Rounds<'_> {
    /// The jobs of the next process, and whether it is a suspect, alone.
    fn next(&mut self) -> Option<(Vec<usize>, bool)> {
        if self.waiting.is_empty() {
            return self.suspects.pop_front().map(|at| (vec![at], true));
        }
        let count = self.waiting.len().min(MOST_JOBS);
        Some((self.waiting.drain(..count).collect(), false))
    }

    fn count(&mut self, end: &End, ready: bool, threads: usize) -> io::Result<()> {
        self.deaths += usize::from(!matches!(end, End::Done | End::OutOfTime));
        self.unready += usize::from(!ready && !matches!(end, End::OutOfTime));
        if self.unready == MOST_UNREADY { Err(self.cell.not_begun(end, threads)) } else { Ok(()) }
    }

    /// Decides about those that were not answered, with whether each was begun.
    fn settle(&mut self, rest: &[(usize, bool)], end: &End, alone: bool, threads: usize) {
        for &(at, begun) in rest {
            match end {
                End::OutOfTime if !begun => self.answer(at, DbState::out_of_time()),
                // A check that is out of time was to look at the clock, and did not.
                _ if begun && (alone || matches!(end, End::OutOfTime)) => {
                    let why = self.cell.told(end, threads);
                    tracing::warn!(path = %self.jobs[at].path().display(), why, "a database could not be examined");
                    self.answer(at, DbState::unexaminable(why));
                }
                _ if begun || alone => self.suspects.push_back(at),
                _ => self.waiting.push_back(at),
            }
        }
    }

    /// Says `state` of all that nobody has looked at, and of suspects that nothing speaks for them.
    fn give_up(&mut self, state: DbState, suspicion: &str) {
        for at in std::mem::take(&mut self.waiting) {
            self.answer(at, state.clone());
        }
        for at in std::mem::take(&mut self.suspects) {
            self.answer(at, DbState::unexaminable(suspicion));
        }
    }

    fn answer(&mut self, at: usize, state: DbState) {
        self.found.insert(at, self.jobs[at].unseen(state));
    }
}
