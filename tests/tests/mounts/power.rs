//! These tests fail the power, or refuse a request, at any request that an overlay makes of its disk: what was
//! synced is there, and what was not is as it was at some moment since.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use fuse::{
    Errno,
    fs::{Fs, SetAttributes},
    overlay::{change::NewKind, node::Ino},
};
use tests::{
    overlay::{ME, Mounted},
    power::{Disk, Reached, Trouble},
    tree::noise,
};

/// What a file has been: `None` is nothing at all.
struct Been {
    content: Option<Vec<u8>>,
    /// How many requests there had been before it became this.
    since: usize,
    /// How many there had been when it was said to be safe.
    safe: Option<usize>,
}

/// A program that keeps a record of its files.
struct Life {
    // Before the disk that it is on.
    mounted: Mounted,
    disk: Disk,
    files: BTreeMap<&'static str, Vec<Been>>,
}

impl Life {
    async fn new() -> Self {
        let disk = Disk::new();
        let mounted = Mounted::at(disk.path()).await;
        disk.settle();
        Self { mounted, disk, files: BTreeMap::new() }
    }

    fn becomes(&mut self, name: &'static str, content: Option<Vec<u8>>) {
        let since = self.disk.requests();
        let nothing = Been { content: None, since: 0, safe: Some(0) };
        self.files.entry(name).or_insert_with(|| vec![nothing]).push(Been { content, since, safe: None });
    }

    fn ino(&self, name: &str) -> Option<Ino> {
        self.mounted.ask(|fs| fs.lookup(Ino::ROOT, name.as_bytes())).ok().map(|found| found.ino)
    }

    /// Empties or makes the file, then writes all of it.
    fn write(&mut self, name: &'static str, seed: u64) -> Result<(), Errno> {
        let found = self.ino(name);
        self.becomes(name, Some(Vec::new()));
        let ino = match found {
            Some(ino) => {
                let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
                self.mounted.ask(|fs| fs.set_attributes(&fs.enter(), ino, empty))?.ino
            }
            None => {
                let make =
                    |fs: &Fs| fs.make(&fs.enter(), ME, Ino::ROOT, name.as_bytes(), NewKind::File, 0o600);
                self.mounted.ask(make)?.ino
            }
        };
        let bytes = noise(300 + seed as usize, seed);
        self.becomes(name, Some(bytes.clone()));
        self.mounted.ask(|fs| fs.write(&fs.enter(), ino, 0, &bytes)).map(drop)
    }

    fn remove(&mut self, name: &'static str) -> Result<(), Errno> {
        let fs = Arc::clone(&self.mounted.fs);
        let ino = self.ino(name).ok_or(Errno::NOENT)?;
        self.becomes(name, None);
        let removed = self.mounted.ask(|fs| fs.unlink(&fs.enter(), Ino::ROOT, name.as_bytes()));
        fs.forget(ino, u64::MAX);
        removed
    }

    async fn sync(&mut self, name: &'static str) -> Result<(), Errno> {
        let ino = self.ino(name).ok_or(Errno::NOENT)?;
        // Not what it was last to become, if that was refused.
        let content = Some(self.mounted.read(name).await);
        self.mounted.ask(|fs| fs.sync(&fs.enter(), ino))?;
        let now = self.disk.requests();
        let been = self.files.get_mut(name).unwrap().iter_mut().rfind(|been| been.content == content);
        been.expect("it shows what it never was").safe = Some(now);
        Ok(())
    }

    fn compact(&self) -> Result<(), Errno> {
        self.mounted.fs.compact(&self.mounted.session)
    }

    async fn resume(&mut self) {
        if self.mounted.try_kill(true).await.is_err() {
            // Nobody could mount it; once there is room, somebody can.
            self.disk.trouble(None);
            self.mounted.kill(true).await;
        }
    }

    /// Everything that an overlay does to its disk. What is refused is left undone.
    async fn live(&mut self) {
        let _ = self.write("a", 1);
        let _ = self.sync("a").await;
        let _ = self.write("b", 2);
        // Cut off though synced, and not synced since.
        let _ = self.write("a", 3);
        self.resume().await;
        let _ = self.write("c", 4);
        let _ = self.sync("c").await;
        let _ = self.compact();
        let _ = self.write("a", 5);
        let _ = self.sync("a").await;
        let _ = self.remove("b");
        self.mounted.fs.reclaim();
        let _ = self.write("d", 6);
        let _ = self.compact();
        self.mounted.fs.reclaim();
        let _ = self.write("c", 7);
        let _ = self.remove("d");
        self.resume().await;
        // By a daemon that did not make its data file.
        let _ = self.sync("c").await;
        let _ = self.sync("a").await;
        let _ = self.write("b", 8);
        let _ = self.sync("b").await;
    }

    /// Whether what is found after so many requests was promised or is at least nothing else.
    async fn check(&self, found: &Mounted, requests: usize, what: &str) {
        for (name, been) in &self.files {
            let content = match found.fs.lookup(Ino::ROOT, name.as_bytes()) {
                Ok(_) => Some(found.read(name).await),
                Err(_) => None,
            };
            let safe = been.iter().rposition(|been| been.safe.is_some_and(|safe| safe <= requests));
            let mut fitting = been[safe.unwrap_or(0)..].iter().filter(|been| been.since <= requests);
            assert!(fitting.any(|been| been.content == content), "{name} is not what it was: {what}");
        }
    }
}

/// A new file may still be made, written and synced.
fn goes_on(fs: &Fs) {
    let pass = fs.enter();
    let ino = fs.make(&pass, ME, Ino::ROOT, b"new", NewKind::File, 0o600).unwrap().ino;
    fs.write(&pass, ino, 0, b"new").unwrap();
    fs.sync(&pass, ino).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_power_may_fail_at_any_request() {
    let mut life = Life::new().await;
    life.live().await;
    for (requests, image) in life.disk.images().iter().enumerate() {
        let endings = Reached::ALL.map(|reached| (reached, false));
        for (reached, same_boot) in endings.into_iter().chain([(Reached::EVERYTHING, true)]) {
            let folder = tempfile::tempdir().unwrap();
            image.write_to(folder.path(), reached);
            let found = life.mounted.found_in(folder, same_boot).await;
            let what = format!("after {requests} requests, {reached:?}, same boot: {same_boot}");
            life.check(&found, requests, &what).await;
            goes_on(&found.fs);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_may_be_full_at_any_request() {
    for forever in [false, true] {
        for at in 0.. {
            let mut life = Life::new().await;
            let trouble = if forever { Trouble::From(at) } else { Trouble::Once(at) };
            life.disk.trouble(Some((trouble, rustix::io::Errno::NOSPC)));
            life.live().await;
            life.disk.trouble(None);
            let requests = life.disk.requests();
            for (reached, same_boot) in [(Reached::ALL[0], false), (Reached::EVERYTHING, true)] {
                let folder = tempfile::tempdir().unwrap();
                life.disk.image().write_to(folder.path(), reached);
                let left = folder.path().join("session/journal.new");
                assert!(forever || !left.exists(), "a journal that is none takes up room");
                let found = life.mounted.found_in(folder, same_boot).await;
                life.check(&found, requests, &format!("no room at {trouble:?}, {reached:?}")).await;
                goes_on(&found.fs);
            }
            if at > requests {
                break;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_refused_once_is_not_told_later_that_all_is_well() {
    let mut life = Life::new().await;
    life.write("a", 1).unwrap();
    life.disk.trouble(Some((Trouble::Once(life.disk.requests()), rustix::io::Errno::IO)));
    life.sync("a").await.unwrap_err();
    // The kernel has told, and has forgotten what it could not write.
    life.sync("a").await.unwrap_err();
    let fs = &life.mounted.fs;
    fs.sync_names(&fs.enter()).unwrap_err();
    assert!(fs.is_read_only());
}

/// A write has begun when the file is cut off and written anew by another.
#[tokio::test(flavor = "multi_thread")]
async fn a_late_write_goes_where_those_after_the_truncation_go() {
    let mut life = Life::new().await;
    life.write("a", 1).unwrap();
    life.sync("a").await.unwrap();
    let (fs, ino) = (Arc::clone(&life.mounted.fs), life.ino("a").unwrap());
    let data = |generation: u32| format!("{:x}-{generation}", ino.0);
    let held = life.disk.hold_writes_to(&data(0));
    let late = thread::spawn({
        let fs = Arc::clone(&fs);
        move || fs.write(&fs.enter(), ino, 10, b"late").unwrap()
    });
    held.wait();
    let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
    fs.set_attributes(&fs.enter(), ino, empty).unwrap();
    fs.write(&fs.enter(), ino, 0, b"0123456789").unwrap();
    drop(held);
    late.join().unwrap();
    assert_eq!(life.mounted.read("a").await, b"0123456789late");
    let bytes = |generation| std::fs::read(life.mounted.session.data().join(data(generation))).unwrap();
    assert_eq!(bytes(1), b"0123456789late", "it went to the data file of what was cut off");
    drop(fs);
    life.mounted.kill(true).await;
    assert_eq!(life.mounted.read("a").await, b"0123456789late");
}

/// Opens, writes, syncs and closes file after file, until it is told to stop.
fn write_on(fs: &Fs, ino: Ino, stop: &AtomicBool) {
    while !stop.load(Ordering::Acquire) {
        let come = fs.come();
        let handle = fs.open(ino, true).unwrap();
        drop(come);
        fs.write(&fs.enter(), ino, 0, b"more").unwrap();
        fs.sync(&fs.enter(), ino).unwrap();
        fs.close(handle);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_finds_its_moment_though_each_sync_takes_longer_than_writers_are_held_up() {
    let mut life = Life::new().await;
    let fs = Arc::clone(&life.mounted.fs);
    let files: Vec<Ino> = ["a", "b", "c"]
        .into_iter()
        .map(|name| {
            life.write(name, 1).unwrap();
            life.ino(name).unwrap()
        })
        .collect();
    life.disk.slow_down(Duration::from_millis(600));
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        for ino in files {
            let (fs, stop) = (&fs, &stop);
            scope.spawn(move || write_on(fs, ino, stop));
            // So that they do not all sync at the same time.
            thread::sleep(Duration::from_millis(500));
        }
        let found = fs.close_when_quiet(Duration::from_secs(5)).map(drop);
        stop.store(true, Ordering::Release);
        assert_eq!(found, Ok(()));
    });
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_without_a_name_that_stays_open_does_not_keep_a_commit_from_its_moment() {
    let mut life = Life::new().await;
    let fs = Arc::clone(&life.mounted.fs);
    for name in ["a", "b"] {
        life.write(name, 1).unwrap();
    }
    let (nameless, named) = (life.ino("a").unwrap(), life.ino("b").unwrap());
    fs.open(nameless, true).unwrap();
    fs.unlink(&fs.enter(), Ino::ROOT, b"a").unwrap();
    let stop = AtomicBool::new(false);
    life.disk.slow_down(Duration::from_millis(20));
    thread::scope(|scope| {
        scope.spawn(|| write_on(&fs, named, &stop));
        let found = fs.close_when_quiet(Duration::from_secs(5)).map(drop);
        stop.store(true, Ordering::Release);
        assert_eq!(found, Ok(()));
    });
}
