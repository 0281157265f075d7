//! `stream` sends bytes to a caller while they are still being fetched, and never holds more than a few pieces of them.

use std::{
    io::{self, Write},
    sync::Arc,
};

use axum::body::Bytes;
use engine::failure::Failure;
use futures::{Stream, stream};
use tokio::sync::mpsc;

use crate::problem::Refusal;

/// How many pieces wait for the caller.
const PIECES: usize = 8;

/// A message from the writer to the reader.
#[derive(Debug)]
enum Piece {
    Bytes(Bytes),
    /// Nothing comes after it, and nothing is missing.
    End,
    Broken(Failure),
}

/// A writer, and the reader of its bytes.
pub(crate) fn channel() -> (PieceWriter, PieceReader) {
    let (pieces, read) = mpsc::channel(PIECES);
    (PieceWriter { pieces: pieces.clone() }, PieceReader { pieces, read })
}

/// Takes bytes on a thread that may block. A caller that goes away is a broken pipe.
#[derive(Debug)]
pub(crate) struct PieceWriter {
    pieces: mpsc::Sender<Piece>,
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.pieces.blocking_send(Piece::Bytes(Bytes::copy_from_slice(bytes))) {
            Ok(()) => Ok(bytes.len()),
            Err(_) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Gives the bytes to the caller.
#[derive(Debug)]
pub(crate) struct PieceReader {
    pieces: mpsc::Sender<Piece>,
    read: mpsc::Receiver<Piece>,
}

impl PieceReader {
    /// Begins the writing and waits for its first bytes: a failure before them is an ordinary
    /// refusal. A later failure breaks the connection, so that nobody takes a part for the whole. The
    /// `room` is taken until both the writing and the reading have ended.
    pub(crate) async fn begun<R: Send + Sync + 'static>(
        self,
        room: R,
        writing: impl Future<Output = Result<(), Failure>> + Send + 'static,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + Send + 'static, Refusal> {
        let Self { pieces, mut read } = self;
        let room = Arc::new(room);
        let kept = Arc::clone(&room);
        tokio::spawn(async move {
            let last = match writing.await {
                Ok(()) => Piece::End,
                Err(failure) => Piece::Broken(failure),
            };
            let _ = pieces.send(last).await;
            drop(kept);
        });
        let first = next(&mut read).await?;
        Ok(stream::try_unfold((Some(first), read, room), |(first, mut read, room)| async move {
            let piece = match first {
                Some(first) => first,
                None => next(&mut read).await.map_err(|failure| {
                    tracing::error!("a file broke off: {}", failure.message);
                    io::Error::other(failure.message)
                })?,
            };
            Ok(piece.map(|bytes| (bytes, (None, read, room))))
        }))
    }
}

/// The next bytes; none after the last. A writer that vanished has not written all.
async fn next(read: &mut mpsc::Receiver<Piece>) -> Result<Option<Bytes>, Failure> {
    match read.recv().await {
        Some(Piece::Bytes(bytes)) => Ok(Some(bytes)),
        Some(Piece::End) => Ok(None),
        Some(Piece::Broken(failure)) => Err(failure),
        None => Err(Failure::internal("the writer of the file ended before its end")),
    }
}

#[cfg(test)]
mod tests {
    use futures::StreamExt;
    use store::ErrorKind;

    use super::*;

    async fn read(
        writing: impl FnOnce(PieceWriter) -> Result<(), Failure> + Send + 'static,
    ) -> Result<Vec<io::Result<Bytes>>, Refusal> {
        let (writer, reader) = channel();
        let work = async move {
            let done = tokio::task::spawn_blocking(move || writing(writer)).await;
            done.unwrap()
        };
        let stream = reader.begun((), work).await?;
        Ok(stream.collect().await)
    }

    #[tokio::test]
    async fn all_that_is_written_is_read_in_order() {
        let pieces = read(|mut writer| {
            (0..100_u8).for_each(|byte| writer.write_all(&[byte]).unwrap());
            Ok(())
        });
        let bytes: Vec<u8> = pieces.await.unwrap().into_iter().flat_map(|piece| piece.unwrap()).collect();
        assert_eq!(bytes, (0..100).collect::<Vec<u8>>());
        assert!(read(|_| Ok(())).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn what_fails_at_once_is_refused_and_what_fails_later_breaks_off() {
        let failure = || Failure::new(ErrorKind::NotFound, "gone");
        assert_eq!(read(move |_| Err(failure())).await.unwrap_err().status, 404);
        let pieces = read(move |mut writer| {
            writer.write_all(b"some").unwrap();
            Err(failure())
        });
        let pieces = pieces.await.unwrap();
        assert!(pieces[0].is_ok() && pieces[1].is_err() && pieces.len() == 2, "{pieces:?}");
    }

    #[tokio::test]
    async fn a_writer_that_vanishes_has_not_written_all() {
        let refusal = read(|_| panic!("on purpose")).await.unwrap_err();
        assert_eq!(refusal.status, 500);
        let pieces = read(|mut writer| {
            writer.write_all(b"some").unwrap();
            panic!("on purpose")
        });
        let pieces = pieces.await.unwrap();
        assert!(pieces[0].is_ok() && pieces[1].is_err() && pieces.len() == 2, "{pieces:?}");
    }

    #[tokio::test]
    async fn room_is_taken_until_the_last_byte_is_read() {
        let room = Arc::new(());
        let (mut writer, reader) = channel();
        let work = async move {
            let written = tokio::task::spawn_blocking(move || writer.write_all(b"some")).await;
            written.unwrap().map_err(|error| Failure::internal(error.to_string()))
        };
        let stream = reader.begun(Arc::clone(&room), work).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        assert_eq!(Arc::strong_count(&room), 2);
        drop(stream);
        assert_eq!(Arc::strong_count(&room), 1);
    }
}
