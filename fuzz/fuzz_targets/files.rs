//! `files` fuzzes what a program does to the files of a mount.

use std::{path::Path, sync::LazyLock};

use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use tests::overlay::{Mounted, Room, Step, play};

/// Steps as [`Step::decode`] has them: what, which, where.
pub(super) fn steps() -> Vec<Vec<u8>> {
    let (make, link, symlink, truncate, zero, rename) = (0, 1, 2, 3, 4, 5);
    let (remove, mark, sync, kill, commit, compact, write) = (6, 7, 8, 9, 10, 11, 12);
    let lives: [&[[u8; 7]]; 3] = [
        // A file is stored, written to in the middle, cut, and found again after each.
        &[
            [make, 0, 0, 0, 0, 0, 0],
            [write, 0, 0, 0, 20, 100, 1],
            [commit, 0, 0, 0, 0, 0, 0],
            [write, 0, 8, 255, 1, 0, 2],
            [kill, 0, 0, 0, 0, 0, 0],
            [truncate, 0, 4, 1, 0, 0, 0],
            [truncate, 0, 12, 0, 0, 0, 0],
            [commit, 0, 0, 0, 0, 0, 0],
            [zero, 0, 2, 10, 3, 0, 1],
            [kill, 0, 0, 0, 0, 0, 0],
        ],
        // A folder takes another's place, with what is in it and a second name of that.
        &[
            [make, 0, 0, 0, 1, 0, 0],
            [make, 0, 0, 1, 1, 0, 0],
            [make, 0, 1, 3, 0, 0, 0],
            [write, 0, 0, 0, 1, 7, 3],
            [link, 0, 2, 4, 0, 0, 0],
            [symlink, 0, 0, 5, 0, 0, 0],
            [commit, 0, 0, 0, 0, 0, 0],
            [rename, 0, 0, 1, 1, 0, 0],
            [mark, 1, 2, 0, 0, 0, 0],
            [kill, 0, 0, 0, 0, 0, 0],
            [rename, 2, 0, 4, 0, 0, 0],
            [commit, 0, 0, 0, 0, 0, 0],
        ],
        // A program saves by a new file, which takes the name of the old one.
        &[
            [make, 0, 0, 0, 0, 0, 0],
            [write, 0, 0, 0, 2, 0, 4],
            [commit, 0, 0, 0, 0, 0, 0],
            [make, 0, 0, 1, 0, 0, 0],
            [write, 1, 0, 0, 3, 0, 5],
            [sync, 1, 0, 0, 0, 0, 0],
            [rename, 1, 0, 0, 0, 0, 0],
            [compact, 0, 0, 0, 0, 0, 0],
            [kill, 0, 0, 0, 0, 0, 0],
            [remove, 0, 0, 0, 0, 0, 0],
            [kill, 0, 0, 0, 0, 0, 0],
        ],
    ];
    lives.iter().map(|life| life.concat()).collect()
}

pub(super) fn play_steps(bytes: &[u8]) {
    // One for all inputs: its threads take longer to start than most inputs do.
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap());
    for room in [Room::Plenty, Room::None] {
        RUNTIME.block_on(async {
            play(Mounted::new(folder_in_memory()).await.with(room), &Step::decode(bytes)).await
        });
    }
}

/// No input is the machine's end, so nothing need be on a disk; where there is no memory for
/// files, it is.
fn folder_in_memory() -> TempDir {
    let memory = Path::new("/dev/shm");
    tempfile::tempdir_in(memory).or_else(|_| tempfile::tempdir()).unwrap()
}
