//! These tests take checkpoints of a workspace while programs write to it: no writer keeps a checkpoint from being
//! taken.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};

use crate::fixture::Desk;

/// Somebody who works until this is dropped.
struct Busy(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Busy {
    fn with(mut work: impl FnMut(u64) + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let working = thread::spawn(move || {
            for round in 0.. {
                if told.load(Ordering::Relaxed) {
                    return;
                }
                work(round);
            }
        });
        Self(is_over, Some(working))
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        if let Some(working) = self.1.take() {
            working.join().unwrap();
        }
    }
}

/// A file as a checkpoint has it.
fn stored(desk: &Desk, checkpoint: &str, path: &str) -> Vec<u8> {
    let target = desk.folder.path().join(format!("restored-{checkpoint}"));
    let name = format!("acme/agent-7@{checkpoint}");
    desk.host.succeed(["restore", &name, target.to_str().unwrap(), "--chrome-major", "65535"]);
    fs::read(target.join(path)).unwrap()
}

fn warning(taken: &Value) -> &str {
    taken["warning"].as_str().unwrap_or_default()
}

#[test]
fn a_log_that_grows_and_directories_that_come_and_go_keep_no_checkpoint_from_being_taken() {
    let desk = Desk::new();
    desk.write("src/main.py", "good");
    desk.write("log", "");
    for at in 0..300 {
        desk.write(&format!("many/{at}"), "x");
    }
    desk.start(&[]);
    let project = desk.project.clone();
    let mut log = fs::File::options().append(true).open(project.join("log")).unwrap();
    let building = Busy::with(move |round| {
        writeln!(log, "line {round}").unwrap();
        let folder = project.join(format!("build-{}/deep/er", round % 3));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("object"), round.to_string()).unwrap();
        fs::remove_dir_all(folder.parent().unwrap().parent().unwrap()).unwrap();
    });
    let mut warned = Vec::new();
    for at in 0..4 {
        desk.write("src/main.py", &format!("version {at}"));
        let name = format!("busy-{at}");
        let taken = desk.run("checkpoint", &["--name", &name]);
        assert_eq!(taken["outcome"], "created", "{taken:#}");
        if warning(&taken).contains("has changed while") {
            warned.push((name, taken["warning"].clone()));
        }
    }
    // On a busy machine somebody may have paused just then.
    assert!(!warned.is_empty());
    let listed = desk.run("workspace list", &[]);
    let history = desk.run("workspace history", &["src/main.py"]);
    let checkpoints = listed["checkpoints"].as_array().unwrap().iter();
    let versions = history["versions"].as_array().unwrap().iter().map(|version| &version["checkpoint"]);
    for told in [checkpoints.collect::<Vec<_>>(), versions.collect()] {
        let told = told.into_iter().filter(|one| !one["warning"].is_null());
        let mut told: Vec<_> =
            told.map(|one| (one["name"].as_str().unwrap().to_owned(), one["warning"].clone())).collect();
        told.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!(told, warned);
    }
    for text in [desk.text("workspace list", &[]), desk.text("workspace history", &["src/main.py"])] {
        assert_eq!(text.matches("may be of different moments").count(), warned.len(), "{text}");
    }
    let name = format!("acme/agent-7@{}", warned[0].0);
    let shown = desk.host.succeed(["show", &name, "--chrome-major", "65535"]);
    assert!(shown["labels"]["changed-meanwhile"].is_string(), "{shown:#}");
    // The checkpoint before a revert can be taken, too.
    desk.run("workspace changes", &["--since", "busy-1"]);
    desk.run("workspace revert", &["src/main.py", "--to", "busy-2"]);
    assert_eq!(desk.read("src/main.py"), "version 2");
    drop(building);
    let whole = fs::read(desk.project.join("log")).unwrap();
    let log = stored(&desk, "busy-3", "log");
    assert!(!log.is_empty() && whole.starts_with(&log), "{} of {} bytes", log.len(), whole.len());
    // Where nobody works there is nothing to warn of.
    desk.write("src/main.py", "quiet");
    assert_eq!(desk.run("checkpoint", &["--name", "quiet"])["warning"], Value::Null);
    desk.host.verify("acme/agent-7", &["--chrome-major", "65535"]);
}

/// A file system of its own, until this is dropped.
struct Disk(PathBuf);

impl Disk {
    fn new(folder: &Path, make: &[&str]) -> Self {
        let (image, place) = (folder.join("disk.img"), folder.join("disk"));
        fs::File::create(&image).unwrap().set_len(400 << 20).unwrap();
        fs::create_dir(&place).unwrap();
        let run = |words: &[&str], paths: &[&Path]| {
            let ended = Command::new(words[0]).args(&words[1..]).args(paths).output().unwrap();
            assert!(ended.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ended.stderr));
        };
        run(make, &[&image]);
        run(&["mount", "-o", "loop"], &[&image, &place]);
        Self(place)
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// On a file system that shares blocks a file that is written to all the time is cloned. If a clone waits for a write
/// that is under way, the file is as it was at one moment.
fn clones(make: &[&str], waits_for_writes: bool) {
    const SIZE: usize = 1 << 20;
    let mut desk = Desk::new();
    assert_eq!(desk.start(&[])["method"], "directory");
    let disk = Disk::new(desk.folder.path(), make);
    desk.project = disk.0.join("project");
    fs::create_dir(&desk.project).unwrap();
    fs::write(desk.project.join("file"), vec![0; SIZE]).unwrap();
    let started = desk.run("workspace start", &["acme/agent-8", "--no-watch"]);
    assert_eq!(started["method"], "reflink", "{started:#}");
    let file = fs::File::options().write(true).open(desk.project.join("file")).unwrap();
    let writing = Busy::with(move |round| file.write_all_at(&vec![round as u8; SIZE], 0).unwrap());
    for at in 0..5 {
        let name = format!("busy-{at}");
        let taken = desk.run("checkpoint", &["--name", &name]);
        assert_eq!(
            (&taken["outcome"], &taken["method"]),
            (&json!("created"), &json!("reflink")),
            "{taken:#}"
        );
        let target = desk.folder.path().join(&name);
        let place = target.to_str().unwrap();
        desk.host.succeed(["restore", &format!("acme/agent-8@{name}"), place, "--chrome-major", "65535"]);
        let bytes = fs::read(target.join("file")).unwrap();
        let is_of_one_moment = bytes.iter().all(|byte| *byte == bytes[0]);
        assert!(bytes.len() == SIZE && (is_of_one_moment || !waits_for_writes), "it is of two moments");
    }
    drop(writing);
    desk.write("file", "broken");
    desk.run("workspace revert", &["file", "--to", "busy-4"]);
    assert_eq!(fs::read(desk.project.join("file")).unwrap().len(), SIZE);
    drop(disk);
}

/// Maps a file, and waits with the mapping alone.
const MAPPING: &str = "import mmap, os, sys\n\
    fd = os.open(sys.argv[1], os.O_RDWR); shared = mmap.mmap(fd, 4096); os.close(fd)\n\
    shared[0:4] = b'page'; print(flush=True); sys.stdin.read()";

/// On btrfs, mappings are of another device than files.
#[test]
fn on_btrfs_what_has_not_changed_is_not_read_again_but_for_files_that_somebody_has_mapped() {
    const FILES: u64 = 30;
    let mut desk = Desk::new();
    let disk = Disk::new(desk.folder.path(), &["mkfs.btrfs", "-q"]);
    desk.project = disk.0.join("project");
    for at in 0..FILES {
        desk.write(&format!("file-{at}"), &"x".repeat(4096));
    }
    let mut command = Command::new("python3");
    command
        .args(["-c", MAPPING])
        .arg(desk.project.join("file-7"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut mapping = command.spawn().unwrap();
    BufReader::new(mapping.stdout.as_mut().unwrap()).read_line(&mut String::new()).unwrap();
    // A file that has just been changed may change once more at the same time.
    let settle = || thread::sleep(Duration::from_millis(2500));
    settle();
    desk.start(&[]);
    let read = |name: &str| desk.run("checkpoint", &["--name", name])["read_files"].as_u64().unwrap();
    desk.write("file-3", "changed");
    settle();
    assert_eq!(read("first"), 2, "the one that was changed, and the one that is mapped");
    assert_eq!(read("second"), 1, "the one that is mapped");
    drop(mapping.stdin.take());
    mapping.wait().unwrap();
    settle();
    assert_eq!(read("third"), 1, "nobody knew until now that it would be the same");
    assert_eq!(read("fourth"), 0);
}

#[test]
fn on_xfs_a_busy_file_is_cloned() {
    clones(&["mkfs.xfs", "-q"], true);
}

#[test]
fn on_btrfs_a_busy_file_is_cloned() {
    clones(&["mkfs.btrfs", "-q"], false);
}
