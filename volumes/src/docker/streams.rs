//! `spool` writes a stream of the daemon to a file, and `stream_of` makes a stream of what somebody writes.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use engine::failure::Failure;
use futures::{Stream, TryStreamExt, stream};
use store::{Error, ErrorKind, content::workers::blocking};
use tokio::sync::mpsc;

/// Pieces that wait to be written.
const WAITING: usize = 8;
/// How much is sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// Writes a stream to a new file, and no more than `most` bytes of it. Says how long it is. `what` tells people what is too large.
pub async fn spool(
    stream: impl Stream<Item = Result<Bytes, Failure>>,
    path: &Path,
    (what, most): (&str, u64),
) -> Result<u64, Failure> {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING);
    let path: PathBuf = path.to_owned();
    let writing = tokio::spawn(blocking(move || {
        let failed = |error| Error::io("cannot write", &path, error);
        let mut file = File::create_new(&path).map_err(failed)?;
        while let Some(bytes) = receiver.blocking_recv() {
            file.write_all(&bytes).map_err(failed)?;
        }
        Ok(())
    }));
    let mut stream = std::pin::pin!(stream);
    let (mut read, mut len) = (Ok(()), 0);
    loop {
        match stream.try_next().await {
            Ok(Some(bytes)) => {
                len += bytes.len() as u64;
                if len > most {
                    read = Err(too_large(what, most));
                    break;
                }
                // The writer has stopped; its error says why.
                if sender.send(bytes).await.is_err() {
                    break;
                }
            }
            Ok(None) => break,
            Err(failure) => {
                read = Err(failure);
                break;
            }
        }
    }
    drop(sender);
    let written = writing.await.map_err(|error| Failure::internal(error.to_string()))?;
    read?;
    written?;
    Ok(len)
}

fn too_large(what: &str, most: u64) -> Failure {
    let message = format!("{what} is too large: the daemon sends more than {most} bytes");
    Failure::new(ErrorKind::ProfileTooLarge, message)
        .hint("remove what is not needed, or raise max_profile_bytes of the tenant")
}

/// The bytes that `write` writes, as they come. Its error ends the stream.
pub fn stream_of(
    write: impl FnOnce(&mut dyn Write) -> io::Result<()> + Send + 'static,
) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    let (sender, receiver) = mpsc::channel::<io::Result<Bytes>>(WAITING);
    tokio::task::spawn_blocking(move || {
        let mut out = io::BufWriter::with_capacity(PIECE_BYTES, Sending(sender.clone()));
        let written = write(&mut out).and_then(|()| out.flush());
        if let Err(error) = written {
            let _ = sender.blocking_send(Err(error));
        }
    });
    stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) })
}

struct Sending(mpsc::Sender<io::Result<Bytes>>);

impl Write for Sending {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let sent = self.0.blocking_send(Ok(Bytes::copy_from_slice(bytes)));
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[tokio::test]
    async fn no_more_of_a_stream_is_written_than_is_allowed() {
        let folder = tempfile::tempdir().unwrap();
        let pieces = |count: usize| stream::iter((0..count).map(|_| Ok(Bytes::from_static(&[7; 100]))));
        let whole = folder.path().join("whole");
        assert_eq!(spool(pieces(10), &whole, ("it", 1000)).await.unwrap(), 1000);
        assert_eq!(fs::metadata(&whole).unwrap().len(), 1000);
        let cut = folder.path().join("cut");
        let failure = spool(pieces(1_000_000), &cut, ("it", 1000)).await.unwrap_err();
        assert_eq!(failure.kind, ErrorKind::ProfileTooLarge, "{failure:?}");
        assert!(fs::metadata(&cut).unwrap().len() <= 1000);
    }
}
