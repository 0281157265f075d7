//! `Ledger` reads the log of a writer, and decides which writes must have survived.

use std::{collections::BTreeMap, fs, path::Path};

use super::{
    content::{self, Generation},
    writer::Style,
};

/// How each slot of a tree was found; one that is absent is left out.
pub type Found = BTreeMap<usize, Result<Generation, String>>;

/// How a session ended that is left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// It was asked to: all that was done is there.
    None,
    /// Written data is there. Data stored through a mapping is the kernel's alone until it is
    /// synced or the daemon is asked for it, and nobody was told that it is kept.
    OfTheDaemon,
    /// Synced writes are there.
    OfTheHost,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    begun: Option<Generation>,
    done: Option<Generation>,
    synced: Option<Generation>,
}

/// The slots of one session, by the notes of its writer and the content it found there.
#[derive(Clone, Debug)]
pub struct Ledger {
    slots: Vec<Slot>,
}

impl Ledger {
    pub fn read(base: &Found, log: &Path, slots: usize) -> Self {
        let found = |slot| base.get(&slot).and_then(|found| found.as_ref().ok()).copied();
        let of_base = |slot| Slot { begun: found(slot), done: found(slot), synced: found(slot) };
        let mut slots: Vec<Slot> = (0..slots).map(of_base).collect();
        for line in fs::read_to_string(log).unwrap_or_default().lines() {
            let words: Vec<&str> = line.split(' ').collect();
            let slot = &mut slots[words[1].parse::<usize>().unwrap()];
            let generation = words[2].parse().ok();
            match words[0] {
                "begin" => slot.begun = generation,
                "done" => slot.done = generation,
                _ => slot.synced = generation,
            }
        }
        Self { slots }
    }

    /// Fails unless a commit that began after `self` and ended before `later` may be this: whole,
    /// with all that was done before, and nothing that was not begun by then.
    pub fn committed(&self, later: &Self, found: &Found) -> Result<(), String> {
        for (number, (before, after)) in self.slots.iter().zip(&later.slots).enumerate() {
            let name = content::name(number);
            match found.get(&number) {
                None if before.done.is_none() => {}
                None => return Err(format!("{name} is missing, with generation {:?} done", before.done)),
                Some(Err(reason)) => return Err(format!("{name} is torn: {reason}")),
                Some(Ok(at)) if Some(*at) < before.done => {
                    return Err(format!("{name} has generation {at}, and {:?} was done", before.done));
                }
                Some(Ok(at)) if Some(*at) > after.begun => {
                    return Err(format!("{name} has generation {at}, and only {:?} was begun", after.begun));
                }
                Some(Ok(_)) => {}
            }
        }
        Ok(())
    }

    /// Fails unless a session that was cut short by `crash` may have left this.
    pub fn survived(&self, crash: Crash, found: &Found) -> Result<(), String> {
        for (number, slot) in self.slots.iter().enumerate() {
            let name = content::name(number);
            let mapped = Style::of(number) == Style::Map;
            let of_synced = crash == Crash::OfTheHost || (crash == Crash::OfTheDaemon && mapped);
            let kept = if of_synced { slot.synced } else { slot.done };
            let disturbed = slot.begun != kept;
            match found.get(&number) {
                None if kept.is_none() => {}
                None if disturbed && of_synced => {}
                None => return Err(format!("{name} is lost, with generation {kept:?} kept")),
                Some(Ok(at)) if Some(*at) == kept => {}
                Some(Ok(at)) if disturbed && Some(*at) >= kept && Some(*at) <= slot.begun => {}
                Some(Ok(_)) if disturbed && of_synced => {}
                Some(Ok(at)) => return Err(format!("{name} has generation {at}, and {kept:?} was kept")),
                // Whoever is cut short in the middle leaves the middle.
                Some(Err(_)) if disturbed && (of_synced || Style::of(number) != Style::Replace) => {}
                Some(Err(reason)) => {
                    return Err(format!("{name} is torn, with generation {kept:?} kept: {reason}"));
                }
            }
        }
        Ok(())
    }
}
