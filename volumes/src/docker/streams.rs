//! `spool` writes a stream of the daemon to a file, and `stream_of` makes a stream of what somebody writes.

use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

use bytes::Bytes;
use engine::failure::Failure;
use futures::{Stream, TryStreamExt, stream};
use store::{Error, content::workers::blocking};
use tokio::sync::mpsc;

/// Pieces that wait to be written.
const WAITING: usize = 8;
/// How much is sent at once.
const PIECE_BYTES: usize = 256 << 10;

/// Writes a stream to a new file. Says how long it is.
pub async fn spool(stream: impl Stream<Item = Result<Bytes, Failure>>, path: &Path) -> Result<u64, Failure> {
    let (sender, mut receiver) = mpsc::channel::<Bytes>(WAITING);
    let path: PathBuf = path.to_owned();
    let writing = tokio::spawn(blocking(move || {
        let failed = |error| Error::io("cannot write", &path, error);
        let mut file = File::create_new(&path).map_err(failed)?;
        let mut len = 0;
        while let Some(bytes) = receiver.blocking_recv() {
            file.write_all(&bytes).map_err(failed)?;
            len += bytes.len() as u64;
        }
        Ok(len)
    }));
    let mut stream = std::pin::pin!(stream);
    let mut read = Ok(());
    loop {
        match stream.try_next().await {
            // The writer has stopped; its error says why.
            Ok(Some(bytes)) => {
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
    Ok(written?)
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
