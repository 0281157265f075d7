//! These tests do random work in a workspace beside a model of it: a tree that is given back is the one that was taken.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use crate::fixture::{Desk, Node, tree};

/// Numbers that follow from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

type Tree = BTreeMap<PathBuf, Node>;

/// `PSTORE_WORKSPACE_ROUNDS` and `PSTORE_WORKSPACE_SEED` make it longer, or another.
#[test]
fn whatever_happens_a_revert_gives_back_the_tree_that_was_taken() {
    play(&Desk::new());
}

#[test]
fn the_same_holds_on_a_mount_where_no_event_is_missing() {
    play(&Desk::mounted("acme/agent-7", 65535));
}

fn play(desk: &Desk) {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (rounds, seed) = (number("PSTORE_WORKSPACE_ROUNDS", 30), number("PSTORE_WORKSPACE_SEED", 28));
    let mut random = Random(seed);
    desk.watch(&["--manual-max", "1000"]);
    let mut taken: BTreeMap<String, Tree> = BTreeMap::new();
    let mut before = tree(&desk.project);
    for round in 0..rounds {
        for _ in 0..random.below(8) {
            work(&desk.project, &mut random);
        }
        match random.below(8) {
            0 | 1 => {
                let name = format!("round-{round}");
                desk.run("checkpoint", &["--name", &name]);
                let now = tree(&desk.project);
                check_events(desk, &before, &now, seed);
                before.clone_from(&now);
                taken.insert(name, now);
            }
            2 | 3 if !taken.is_empty() => {
                let at = random.below(taken.len() as u64) as usize;
                let (name, expected) = taken.iter().nth(at).unwrap();
                desk.run("workspace revert", &["--all", "--to", name]);
                assert_eq!(&tree(&desk.project), expected, "seed {seed}, round {round}: {name}");
            }
            4 if !taken.is_empty() => {
                let at = random.below(taken.len() as u64) as usize;
                let (name, expected) = taken.iter().nth(at).unwrap();
                let Some((path, node)) = expected.iter().nth(random.below(20) as usize) else { continue };
                desk.run("workspace revert", &[path.to_str().unwrap(), "--to", name]);
                let found = tree(&desk.project);
                assert_eq!(found.get(path), Some(node), "seed {seed}, round {round}: {path:?} of {name}");
            }
            5 if !taken.is_empty() => {
                let at = random.below(taken.len() as u64) as usize;
                let (name, expected) = taken.iter().nth(at).unwrap();
                check_fork(desk, (round, name.as_str()), expected, &mut random, seed);
            }
            6 if !taken.is_empty() => {
                // Who watches is killed while it gives everything back; the command sees to the rest.
                let at = random.below(taken.len() as u64) as usize;
                let (name, expected) = taken.iter().nth(at).unwrap();
                let project = desk.project.to_str().unwrap();
                let running = desk.host.start(["workspace", "revert", project, "--all", "--to", name]);
                thread::sleep(Duration::from_millis(random.below(60)));
                desk.kill_watcher();
                let ended = running.wait();
                assert_eq!(ended.code, Some(0), "seed {seed}, round {round}: {ended:#?}");
                assert_eq!(&tree(&desk.project), expected, "seed {seed}, round {round}: {name}");
            }
            _ => {
                desk.kill_watcher();
                if random.below(2) == 0 {
                    desk.watch(&[]);
                }
            }
        }
    }
    desk.check_db();
    desk.host.verify("acme/agent-7", &[]);
}

/// A fork has the tree of its checkpoint, and what is done there is given back there.
fn check_fork(desk: &Desk, (round, from): (u64, &str), expected: &Tree, random: &mut Random, seed: u64) {
    let place = desk.folder.path().join(format!("fork-{round}"));
    let target = place.to_str().unwrap();
    desk.run("workspace fork", &[target, "--from", from]);
    assert_eq!(&tree(&place), expected, "seed {seed}, round {round}: a fork of {from}");
    for _ in 0..4 {
        work(&place, random);
    }
    let tried = tree(&place);
    desk.host.succeed(["checkpoint", target, "--name", "tried"]);
    desk.host.succeed(["workspace", "revert", target, "--all", "--to", "cp-0"]);
    assert_eq!(&tree(&place), expected, "seed {seed}, round {round}");
    desk.host.succeed(["workspace", "revert", target, "--all", "--to", "tried"]);
    assert_eq!(tree(&place), tried, "seed {seed}, round {round}");
}

/// Every file that came, went or has other bytes since the checkpoint before was told of since then.
fn check_events(desk: &Desk, before: &Tree, now: &Tree, seed: u64) {
    let query = "SELECT DISTINCT replace(path, substr(path, instr(path || ' (from cp-', ' (from cp-')), '') FROM fs_events
                 WHERE id > (SELECT COALESCE(MAX(stop_fs_event_id), 0) FROM snapshot_events
                             WHERE id < (SELECT MAX(id) FROM snapshot_events WHERE name LIKE 'round-%')
                             AND name LIKE 'round-%')";
    let db = desk.db();
    let mut told = db.prepare(query).unwrap();
    let told: Vec<String> = told.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let content = |node: Option<&Node>| match node {
        Some(Node::File(_, _, bytes)) => Some(bytes.clone()),
        Some(Node::Link(target)) => Some(target.as_os_str().as_encoded_bytes().to_vec()),
        Some(Node::Directory(_)) | None => None,
    };
    for path in before.keys().chain(now.keys()) {
        if content(before.get(path)) != content(now.get(path)) {
            let path = path.to_str().unwrap();
            assert!(told.iter().any(|of| of == path), "seed {seed}: {path} in {told:?}");
        }
    }
}

/// Does something to some path, as far as it can be done.
fn work(root: &Path, random: &mut Random) {
    let name = |random: &mut Random| {
        let parts: Vec<String> = (0..=random.below(3)).map(|_| format!("n{}", random.below(4))).collect();
        root.join(parts.join("/"))
    };
    let path = name(random);
    let content = vec![b'a' + random.below(26) as u8; random.below(100_000) as usize];
    // Many of these fail, since something else is there: that is all the same.
    let _ = match random.below(8) {
        0..=2 => path.parent().map(fs::create_dir_all).map(|_| fs::write(&path, content)).unwrap(),
        3 => fs::remove_file(&path),
        4 => fs::remove_dir_all(&path),
        5 => fs::rename(&path, name(random)),
        6 => symlink("../n1", &path),
        _ => match fs::symlink_metadata(&path) {
            Ok(found) if found.is_file() => {
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600 + random.below(64) as u32))
            }
            _ => Ok(()),
        },
    };
}
