//! `SpillMap` maps packs to small values, within a limit of memory: beyond it the lines go to a file.
//!
//! The lines are sorted into a file without a name, which goes with the process.
//! Two lines about one pack are added up, in any order.

use std::{
    collections::{BTreeMap, HashSet},
    fs::{self, DirBuilder, File},
    io::{self, BufWriter, Write},
    os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use crate::{
    Error, Result,
    error::IoContext,
    id::{self, Nonce, PackId, PackSeq, RecordId},
};

/// The approximate memory of a line.
const LINE_BYTES: u64 = 128;
/// Fewer are never sorted away.
const FEWEST_LINES: usize = 64;
/// So many lines are read at once.
const BLOCK_LINES: usize = 128;
/// More files than this are made one.
const MOST_RUNS: usize = 8;
const KEY_LEN: usize = 20;

/// The value of a pack in the map.
pub(super) trait Line: Copy + 'static {
    const LEN: usize;

    fn put(&self, out: &mut Vec<u8>);
    /// From as many bytes as [`Self::LEN`].
    fn take(bytes: &[u8]) -> Self;
    fn and(self, other: Self) -> Self;
}

/// The memory there is, and the directory for the excess.
#[derive(Clone, Debug)]
pub(super) struct Room {
    pub bytes: u64,
    /// Without one, everything stays in memory.
    pub scratch: Option<PathBuf>,
}

#[derive(Debug)]
pub(super) struct SpillMap<V> {
    room: Room,
    recent: BTreeMap<PackId, V>,
    runs: Vec<Run>,
    removed: HashSet<PackId>,
}

impl<V: Line> SpillMap<V> {
    pub(super) fn new(room: Room) -> Self {
        Self { room, recent: BTreeMap::new(), runs: Vec::new(), removed: HashSet::new() }
    }

    pub(super) fn add(&mut self, pack: PackId, line: V) -> Result<()> {
        let known = self.recent.get(&pack).map_or(line, |known| known.and(line));
        self.recent.insert(pack, known);
        let most = usize::try_from(self.room.bytes / LINE_BYTES).unwrap_or(usize::MAX).max(FEWEST_LINES);
        let Some(scratch) = self.room.scratch.clone().filter(|_| self.recent.len() >= most) else {
            return Ok(());
        };
        let recent = std::mem::take(&mut self.recent);
        let lines = recent.into_iter().map(Ok);
        self.runs.push(Run::write(&scratch, lines)?);
        if self.runs.len() > MOST_RUNS {
            let all = Run::write(&scratch, self.lines())?;
            self.runs = vec![all];
        }
        Ok(())
    }

    pub(super) fn get(&self, pack: &PackId) -> Result<Option<V>> {
        let mut found = self.recent.get(pack).copied();
        for run in &self.runs {
            if let Some(line) = run.get::<V>(pack)? {
                found = Some(found.map_or(line, |found| found.and(line)));
            }
        }
        Ok(found.filter(|_| !self.removed.contains(pack)))
    }

    pub(super) fn has(&self, pack: &PackId) -> Result<bool> {
        Ok(self.get(pack)?.is_some())
    }

    /// Whether there is a pack of this write.
    pub(super) fn has_write(&self, write: RecordId) -> Result<bool> {
        let first = PackId { write, seq: PackSeq::Data(0) };
        let is_there = |pack: &PackId| *pack >= first && !self.removed.contains(pack);
        let recent = self.recent.range(first..).map(|(pack, _)| pack).find(|pack| is_there(pack));
        if recent.is_some_and(|pack| pack.write == write) {
            return Ok(true);
        }
        for run in &self.runs {
            let next = run.lines::<V>(run.block_of(&first)).find(|line| match line {
                Ok((pack, _)) => is_there(pack),
                Err(_) => true,
            });
            if next.transpose()?.is_some_and(|(pack, _)| pack.write == write) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// As if it had never been there.
    pub(super) fn remove(&mut self, pack: PackId) {
        self.removed.insert(pack);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.recent.is_empty() && self.runs.is_empty()
    }

    /// All of them, by pack.
    pub(super) fn lines(&self) -> impl Iterator<Item = Result<(PackId, V)>> + '_ {
        let recent = self.recent.iter().map(|(pack, line)| Ok((*pack, *line)));
        let mut sources: Vec<Source<'_, V>> = vec![Source::new(Box::new(recent))];
        sources.extend(self.runs.iter().map(|run| Source::new(Box::new(run.lines(0)))));
        let mut merged = Merged { sources };
        std::iter::from_fn(move || merged.next()).filter(|line| match line {
            Ok((pack, _)) => !self.removed.contains(pack),
            Err(_) => true,
        })
    }
}

type Lines<'a, V> = Box<dyn Iterator<Item = Result<(PackId, V)>> + 'a>;

/// Sorted lines, and the next of them.
struct Source<'a, V> {
    next: Option<Result<(PackId, V)>>,
    rest: Lines<'a, V>,
}

impl<'a, V> Source<'a, V> {
    fn new(mut rest: Lines<'a, V>) -> Self {
        Self { next: rest.next(), rest }
    }

    fn take(&mut self) -> Option<Result<(PackId, V)>> {
        std::mem::replace(&mut self.next, self.rest.next())
    }

    fn pack(&self) -> Option<PackId> {
        self.next.as_ref()?.as_ref().ok().map(|(pack, _)| *pack)
    }
}

/// Several sorted sources as one, each pack once.
struct Merged<'a, V> {
    sources: Vec<Source<'a, V>>,
}

impl<V: Line> Merged<'_, V> {
    fn next(&mut self) -> Option<Result<(PackId, V)>> {
        let failed = |source: &&mut Source<'_, V>| matches!(source.next, Some(Err(_)));
        if let Some(source) = self.sources.iter_mut().find(failed) {
            return source.take();
        }
        let least = self.sources.iter().filter_map(Source::pack).min()?;
        let mut merged: Option<V> = None;
        for source in self.sources.iter_mut().filter(|source| source.pack() == Some(least)) {
            if let Some(Ok((_, line))) = source.take() {
                merged = Some(merged.map_or(line, |merged| merged.and(line)));
            }
        }
        merged.map(|line| Ok((least, line)))
    }
}

/// Sorted lines in a file.
#[derive(Debug)]
struct Run {
    file: File,
    scratch: PathBuf,
    lines: usize,
    /// The first pack of each block.
    fences: Vec<PackId>,
}

impl Run {
    fn write<V: Line>(scratch: &Path, lines: impl Iterator<Item = Result<(PackId, V)>>) -> Result<Self> {
        let mut out = BufWriter::new(unnamed(scratch).at("cannot make a file in", scratch)?);
        let (mut count, mut fences, mut bytes) = (0, Vec::new(), Vec::with_capacity(KEY_LEN + V::LEN));
        for line in lines {
            let (pack, line) = line?;
            if count % BLOCK_LINES == 0 {
                fences.push(pack);
            }
            count += 1;
            bytes.clear();
            bytes.extend_from_slice(&pack.write.to_bytes());
            bytes.extend_from_slice(&pack.seq.to_u32().to_be_bytes());
            line.put(&mut bytes);
            out.write_all(&bytes).at("cannot write a file in", scratch)?;
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error);
        let file = file.at("cannot write a file in", scratch)?;
        Ok(Self { file, scratch: scratch.to_owned(), lines: count, fences })
    }

    /// The block in which the pack is, if it is anywhere.
    fn block_of(&self, pack: &PackId) -> usize {
        self.fences.partition_point(|first| first <= pack).saturating_sub(1)
    }

    fn get<V: Line>(&self, pack: &PackId) -> Result<Option<V>> {
        let block = self.block::<V>(self.block_of(pack))?;
        Ok(block.into_iter().find(|(found, _)| found == pack).map(|(_, line)| line))
    }

    fn lines<V: Line>(&self, from: usize) -> impl Iterator<Item = Result<(PackId, V)>> + '_ {
        (from..self.fences.len()).flat_map(|at| match self.block(at) {
            Ok(block) => block.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }

    fn block<V: Line>(&self, at: usize) -> Result<Vec<(PackId, V)>> {
        let (line, first) = (KEY_LEN + V::LEN, at * BLOCK_LINES);
        let mut bytes = vec![0; self.lines.saturating_sub(first).min(BLOCK_LINES) * line];
        self.file
            .read_exact_at(&mut bytes, (first * line) as u64)
            .at("cannot read a file in", &self.scratch)?;
        bytes.chunks_exact(line).map(decode).collect()
    }
}

/// A file that is nobody else's, and gone when it is closed.
fn unnamed(scratch: &Path) -> io::Result<File> {
    DirBuilder::new().recursive(true).mode(0o700).create(scratch)?;
    let path = scratch.join(format!("pstore-gc-{}", Nonce::from_bytes(id::random())));
    let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

fn decode<V: Line>(line: &[u8]) -> Result<(PackId, V)> {
    let mut write = [0; 16];
    write.copy_from_slice(&line[..16]);
    let number = u32::from_be_bytes([line[16], line[17], line[18], line[19]]);
    let seq = PackSeq::from_u32(number)
        .ok_or_else(|| Error::Internal { what: "a line of a file that nobody else writes".to_owned() })?;
    Ok((PackId { write: RecordId::from_bytes(write), seq }, V::take(&line[KEY_LEN..])))
}

/// The number at `at`, which is there.
pub(super) fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Line for u64 {
        const LEN: usize = 8;

        fn put(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.to_le_bytes());
        }

        fn take(bytes: &[u8]) -> Self {
            number(bytes, 0)
        }

        fn and(self, other: Self) -> Self {
            self + other
        }
    }

    fn pack(number: u64) -> PackId {
        let seq = match number % 7 {
            0 => PackSeq::Meta,
            data => PackSeq::Data(data as u32),
        };
        // In no order at all.
        let digest = blake3::hash(&(number / 7).to_le_bytes());
        let mut random = [0; 10];
        random.copy_from_slice(&digest.as_bytes()[..10]);
        PackId { write: RecordId::from_parts(u64::from(digest.as_bytes()[11]), random), seq }
    }

    #[test]
    fn with_little_memory_it_says_the_same() {
        let scratch = tempfile::tempdir().unwrap();
        let mut roomy = SpillMap::new(Room { bytes: u64::MAX, scratch: Some(scratch.path().to_owned()) });
        let mut tight = SpillMap::new(Room { bytes: 0, scratch: Some(scratch.path().to_owned()) });
        let mut truth: BTreeMap<PackId, u64> = BTreeMap::new();
        for step in 0..5000_u64 {
            let (pack, line) = (pack(step * 31 % 1999), step);
            *truth.entry(pack).or_default() += line;
            roomy.add(pack, line).unwrap();
            tight.add(pack, line).unwrap();
        }
        assert!(roomy.runs.is_empty() && !tight.runs.is_empty() && tight.recent.len() < FEWEST_LINES);
        assert!(tight.runs.len() <= MOST_RUNS);
        assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 0, "the files have no names");
        for ledger in [&mut roomy, &mut tight] {
            for number in 0..2500 {
                let pack = pack(number);
                assert_eq!(ledger.get(&pack).unwrap(), truth.get(&pack).copied());
                let has_write = truth.keys().any(|other| other.write == pack.write);
                assert_eq!(ledger.has_write(pack.write).unwrap(), has_write, "{number}");
            }
            let gone = pack(77);
            ledger.remove(gone);
            let lines: BTreeMap<PackId, u64> = ledger.lines().map(Result::unwrap).collect();
            let kept = truth.iter().filter(|(pack, _)| **pack != gone);
            assert!(lines.iter().eq(kept) && !ledger.has(&gone).unwrap());
            // A write whose last pack goes has none, though others have.
            for number in 78..84 {
                assert!(ledger.has_write(gone.write).unwrap(), "{number}");
                ledger.remove(pack(number));
            }
            assert!(!ledger.has_write(gone.write).unwrap());
            assert!(ledger.has_write(pack(70).write).unwrap() && ledger.has_write(pack(84).write).unwrap());
        }
    }
}
