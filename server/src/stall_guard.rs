//! `StallGuard` ends a connection whose client accepts no bytes for too long, and knows whether the client has begun a request.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

/// A stream on which writing must get on.
#[derive(Debug)]
pub(crate) struct StallGuard<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// The other side has sent something since the last answer.
    unanswered: bool,
}

impl<S> StallGuard<S> {
    /// A write that gets nowhere for as long as `patience` fails.
    pub(crate) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None, unanswered: false }
    }

    /// Whether the other side has sent something that nothing was written after.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    fn within_time<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        ready!(waiting.as_mut().poll(cx));
        let message = format!("the other side took no byte for {} s", patience.as_secs());
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for StallGuard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.unanswered |= buffer.filled().len() > before;
        polled
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for StallGuard<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.unanswered &= !matches!(polled, Poll::Ready(Ok(_)));
        self.within_time(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.unanswered &= !matches!(polled, Poll::Ready(Ok(_)));
        self.within_time(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.within_time(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within_time(cx, polled)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use futures::future::join;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const PATIENCE: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_request_is_unanswered_until_something_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = StallGuard::new(near, PATIENCE);
        assert!(!near.is_unanswered());
        far.write_all(b"GET /").await.unwrap();
        near.read_exact(&mut [0; 5]).await.unwrap();
        assert!(near.is_unanswered());
        near.write_all(b"HTTP/1.1 200 OK").await.unwrap();
        assert!(!near.is_unanswered());
    }

    #[tokio::test]
    async fn who_reads_slowly_gets_all_and_who_reads_nothing_is_left() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut near = StallGuard::new(near, PATIENCE);
        let reading = async {
            for _ in 0..8 {
                tokio::time::sleep(PATIENCE / 4).await;
                far.read_exact(&mut [0; 8]).await.unwrap();
            }
        };
        // In all it takes longer than one write may wait.
        join(async { near.write_all(&[7; 64]).await.unwrap() }, reading).await;
        let began = Instant::now();
        let error = near.write_all(&[7; 64]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(began.elapsed() >= PATIENCE);
    }
}
