//! `ReceivedFile` writes an upload to a file of this host, and knows its digest.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes, HttpBody},
    http::StatusCode,
};
use engine::failure::Failure;
use http_body_util::BodyExt;
use sha2::{Digest, Sha256 as Hasher};
use store::{
    Error, ErrorKind,
    id::Sha256,
    scratch::{self, Scratch},
};
use tokio::sync::mpsc;

use crate::problem::Refusal;

/// How long the other side may send nothing.
const SILENCE: Duration = Duration::from_secs(30);
/// A body that takes longer than `SILENCE` comes at least this fast, as a whole.
const LEAST_BYTES_PER_SECOND: u64 = 16 << 10;
/// How many pieces wait for the disk.
const PIECES: usize = 8;
const NAME: &str = "archive";

/// A received body. Its file goes when it is dropped, or with the process.
#[derive(Debug)]
pub(crate) struct ReceivedFile {
    folder: Scratch,
    /// Its digest.
    pub(crate) sha256: Sha256,
}

impl ReceivedFile {
    /// Takes all of a body, unless it has more than `most` bytes or stops arriving.
    pub(crate) async fn receive(body: Body, most: u64, place: &Path) -> Result<Self, Refusal> {
        let announced = body.size_hint().lower();
        if announced > most {
            return Err(too_long(most));
        }
        let folder = Scratch::make(place, scratch::Kind::Import).map_err(Failure::from)?;
        require_room(announced, folder.path())?;
        let path = folder.path().join(NAME);
        let file = File::create_new(&path).map_err(|error| unwritable(&path, error))?;
        let (pieces, arrived) = mpsc::channel(PIECES);
        let writing = tokio::task::spawn_blocking(move || write(file, arrived));
        let taken = take(body, most, &pieces).await;
        drop(pieces);
        let written = writing.await;
        taken?;
        let written = written.map_err(|error| Failure::internal(format!("the upload failed: {error}")))?;
        Ok(Self { folder, sha256: written.map_err(|error| unwritable(&path, error))? })
    }

    /// Reads it from its beginning.
    pub(crate) fn open(&self) -> Result<File, Failure> {
        let path = self.folder.path().join(NAME);
        File::open(&path).map_err(|error| Error::io("cannot read", &path, error).into())
    }
}

/// Fails if the disk has no room for as many bytes as the caller says that it sends.
fn require_room(announced: u64, place: &Path) -> Result<(), Refusal> {
    let disk = rustix::fs::statvfs(place).map_err(|error| unwritable(place, error.into()))?;
    match disk.f_bavail.saturating_mul(disk.f_frsize) < announced {
        true => Err(unwritable(place, io::ErrorKind::StorageFull.into())),
        false => Ok(()),
    }
}

fn too_long(most: u64) -> Refusal {
    let message = format!("the archive is longer than {most} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Failure::usage(message))
}

fn too_slow(message: String) -> Refusal {
    Refusal::new(StatusCode::REQUEST_TIMEOUT, Failure::usage(message))
}

/// Whether a body that has sent so much in this time comes fast enough.
fn is_fast_enough(bytes: u64, elapsed: Duration) -> bool {
    elapsed <= SILENCE || bytes >= LEAST_BYTES_PER_SECOND * elapsed.as_secs()
}

fn unwritable(path: &Path, error: io::Error) -> Refusal {
    // Where it is, is nothing for callers.
    tracing::error!("cannot write {}: {error}", path.display());
    Failure::new(ErrorKind::Unavailable, "the server has no room for the archive now").into()
}

async fn take(mut body: Body, most: u64, pieces: &mpsc::Sender<Bytes>) -> Result<(), Refusal> {
    let (mut left, began) = (most, Instant::now());
    loop {
        let Ok(frame) = tokio::time::timeout(SILENCE, body.frame()).await else {
            return Err(too_slow(format!("nothing more arrived for {} s", SILENCE.as_secs())));
        };
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| Failure::usage(format!("the body broke off: {error}")))?;
        let Ok(bytes) = frame.into_data() else { continue };
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| too_long(most))?;
        if !is_fast_enough(most - left, began.elapsed()) {
            return Err(too_slow(format!("less than {LEAST_BYTES_PER_SECOND} bytes arrive in a second")));
        }
        if pieces.send(bytes).await.is_err() {
            // The writer has stopped; its error says why.
            return Ok(());
        }
    }
}

fn write(mut file: File, mut pieces: mpsc::Receiver<Bytes>) -> io::Result<Sha256> {
    let mut hasher = Hasher::new();
    while let Some(piece) = pieces.blocking_recv() {
        hasher.update(&piece);
        file.write_all(&piece)?;
    }
    Ok(Sha256::from_bytes(hasher.finalize().into()))
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    #[tokio::test]
    async fn what_arrives_is_kept_until_it_is_dropped_and_not_more_than_may() {
        let place = tempfile::tempdir().unwrap();
        let received = ReceivedFile::receive(Body::from("some bytes"), 10, place.path()).await.unwrap();
        let mut text = String::new();
        received.open().unwrap().read_to_string(&mut text).unwrap();
        assert_eq!(text, "some bytes");
        assert_eq!(received.sha256, Sha256::from_bytes(Hasher::digest("some bytes").into()));
        drop(received);
        let refusal = ReceivedFile::receive(Body::from("some bytes"), 9, place.path()).await.unwrap_err();
        assert_eq!(refusal.status, 413);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_body_must_come_fast_enough_once_it_has_had_some_time() {
        assert!(is_fast_enough(0, SILENCE));
        assert!(!is_fast_enough(1_000_000, Duration::from_secs(100)));
        assert!(is_fast_enough(2_000_000, Duration::from_secs(100)));
    }
}
