//! `writer` works inside a mount: it writes, appends, renames, writes through mappings and syncs, and logs outside
//! the mount which writes it has begun, done and synced.
//!
//! A note is made before the write begins and after the call has returned, so at any moment what
//! the log has as done is in the mount, and what it has as synced outlives the host.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufRead, BufReader, Read, Write},
    path::{Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use super::{content, lot::Lot};

/// How a slot is written, always the same way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Beside it, then renamed over it: never half there.
    Replace,
    /// From its beginning.
    Rewrite,
    /// One more part at its end.
    Append,
    /// Through a shared mapping.
    Map,
}

impl Style {
    pub fn of(slot: usize) -> Self {
        [Self::Replace, Self::Rewrite, Self::Append, Self::Map][slot % 4]
    }
}

/// After so many parts a file that grows begins anew.
const PARTS: u64 = 12;

#[derive(Debug)]
pub struct Writer {
    root: PathBuf,
    log: File,
    lot: Lot,
    generation: content::Generation,
    slots: usize,
    mapper: Option<Mapper>,
    end: Arc<AtomicBool>,
}

impl Writer {
    /// Ends between two writes when this process's standard input does.
    pub fn new(root: &Path, log: &Path, seed: u64, generation: u64, slots: usize) -> Self {
        let end = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&end);
        thread::spawn(move || {
            io::stdin().read_to_end(&mut Vec::new()).ok();
            ended.store(true, Ordering::SeqCst);
        });
        let log = OpenOptions::new().append(true).create(true).open(log).unwrap();
        Self { root: root.to_owned(), log, lot: Lot::new(seed), generation, slots, mapper: None, end }
    }

    pub fn run(&mut self) -> io::Result<()> {
        fs::create_dir_all(self.root.join(content::FOLDER))?;
        while !self.end.load(Ordering::SeqCst) {
            let (slot, synced) = (self.lot.below(self.slots), self.lot.once_in(3));
            self.generation += 1;
            self.note("begin", slot)?;
            self.write(slot, synced)?;
            self.note("done", slot)?;
            if synced {
                self.note("synced", slot)?;
            }
            thread::sleep(Duration::from_millis(self.lot.below(8) as u64));
        }
        Ok(())
    }

    fn note(&mut self, what: &str, slot: usize) -> io::Result<()> {
        self.log.write_all(format!("{what} {slot} {}\n", self.generation).as_bytes())
    }

    fn write(&mut self, slot: usize, synced: bool) -> io::Result<()> {
        let (path, bytes) = (self.root.join(content::name(slot)), content::part(slot, self.generation));
        match Style::of(slot) {
            Style::Replace => {
                let beside = self.root.join(format!("{}/beside-{slot}", content::FOLDER));
                write_to(&mut File::create(&beside)?, &bytes, synced)?;
                fs::rename(&beside, &path)?;
            }
            Style::Rewrite => write_to(&mut File::create(&path)?, &bytes, synced)?,
            Style::Append => {
                let anew = self.generation.is_multiple_of(PARTS);
                let mut options = OpenOptions::new();
                let options = if anew { options.write(true).truncate(true) } else { options.append(true) };
                write_to(&mut options.create(true).open(&path)?, &bytes, synced)?;
            }
            Style::Map => {
                let mapper = match &mut self.mapper {
                    Some(mapper) => mapper,
                    none => none.insert(Mapper::start()?),
                };
                mapper.write(&path, &bytes, synced)?;
            }
        }
        if synced {
            File::open(self.root.join(content::FOLDER))?.sync_all()?;
        }
        Ok(())
    }
}

/// In several calls, so that there is something between them.
fn write_to(file: &mut File, bytes: &[u8], synced: bool) -> io::Result<()> {
    for piece in bytes.chunks(bytes.len().div_ceil(3)) {
        file.write_all(piece)?;
    }
    if synced { file.sync_all() } else { Ok(()) }
}

/// Python writes through mappings: in Rust that is unsafe.
#[derive(Debug)]
struct Mapper {
    process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

const SCRIPT: &str = "
import mmap, os, sys
asked, answers = sys.stdin.buffer, sys.stdout
for line in asked:
    size, synced = map(int, line.split())
    path, data = asked.readline()[:-1], asked.read(size)
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(fd, size)
        mapped = mmap.mmap(fd, size)
        for at in range(0, size, 3000):
            mapped[at:at + 3000] = data[at:at + 3000]
        if synced:
            mapped.flush()
            os.fsync(fd)
        mapped.close()
        os.close(fd)
        print('done', flush=True)
    except OSError as error:
        print(error, flush=True)
";

impl Mapper {
    fn start() -> io::Result<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let (asks, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Ok(Self { process, asks, answers: BufReader::new(answers) })
    }

    fn write(&mut self, path: &Path, bytes: &[u8], synced: bool) -> io::Result<()> {
        write!(self.asks, "{} {}\n{}\n", bytes.len(), u8::from(synced), path.display())?;
        self.asks.write_all(bytes)?;
        self.asks.flush()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        if answer.trim() == "done" { Ok(()) } else { Err(io::Error::other(answer)) }
    }
}

impl Drop for Mapper {
    fn drop(&mut self) {
        self.process.kill().ok();
        self.process.wait().ok();
    }
}
