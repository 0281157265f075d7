//! `ReceivedFile` keeps what a caller sends in a file of this host, and knows its digest.

use std::{
    fs::File,
    io::{self, Write},
    path::Path,
    time::Duration,
};

use axum::{
    body::{Body, Bytes},
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
/// How many pieces wait for the disk.
const PIECES: usize = 8;
const NAME: &str = "archive";

/// What a caller has sent. It goes when it is dropped, or with the process.
#[derive(Debug)]
pub(crate) struct ReceivedFile {
    folder: Scratch,
    /// Its digest.
    pub(crate) sha256: Sha256,
}

impl ReceivedFile {
    /// Takes all of a body, unless it has more than `most` bytes or stops arriving.
    pub(crate) async fn receive(body: Body, most: u64, place: &Path) -> Result<Self, Refusal> {
        let folder = Scratch::make(place, scratch::Kind::Import).map_err(Failure::from)?;
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

fn unwritable(path: &Path, error: io::Error) -> Refusal {
    // Where it is, is nothing for callers.
    tracing::error!("cannot write {}: {error}", path.display());
    Failure::new(ErrorKind::Unavailable, "the server has no room for the archive now").into()
}

async fn take(mut body: Body, most: u64, pieces: &mpsc::Sender<Bytes>) -> Result<(), Refusal> {
    let mut left = most;
    loop {
        let Ok(frame) = tokio::time::timeout(SILENCE, body.frame()).await else {
            let message = format!("nothing more arrived for {} s", SILENCE.as_secs());
            return Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, Failure::usage(message)));
        };
        let Some(frame) = frame else { return Ok(()) };
        let frame = frame.map_err(|error| Failure::usage(format!("the body broke off: {error}")))?;
        let Ok(bytes) = frame.into_data() else { continue };
        left = left.checked_sub(bytes.len() as u64).ok_or_else(|| {
            let message = format!("the archive is longer than {most} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, Failure::usage(message))
        })?;
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
}
