//! `StallGuard` ends a connection whose client accepts no bytes for too long, and knows whether the client has begun a request
//! and whether an answer was sent.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::Sleep,
};

use crate::delivery::Delivery;

/// The answer that is being written, if it is to be known whether it was sent.
pub(crate) type Sending = Arc<Mutex<Option<Delivery>>>;

/// A stream on which writing must get on.
#[derive(Debug)]
pub(crate) struct StallGuard<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// The other side has sent something since the last answer.
    unanswered: bool,
    sending: Sending,
}

impl<S> StallGuard<S> {
    /// A write that gets nowhere for as long as `patience` fails. What is in `sending` was sent once all that was written
    /// before has gone out.
    pub(crate) fn new(stream: S, patience: Duration, sending: Sending) -> Self {
        Self { stream, patience, waiting: None, unanswered: false, sending }
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
        if let Poll::Ready(Ok(())) = polled
            && let Some(answer) = self.sending.lock().take()
        {
            answer.is_sent();
        }
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

    use engine::interrupt::Interrupt;
    use futures::future::join;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::unfinished_work::UnfinishedWork;

    const PATIENCE: Duration = Duration::from_millis(200);

    #[tokio::test]
    async fn a_request_is_unanswered_until_something_is_written() {
        let (near, mut far) = tokio::io::duplex(64);
        let mut near = StallGuard::new(near, PATIENCE, Sending::default());
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
        let mut near = StallGuard::new(near, PATIENCE, Sending::default());
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

    /// The answer counts as sent once it was written and flushed, and as lost if that fails.
    #[tokio::test]
    async fn an_answer_is_sent_once_all_of_it_has_gone_out() {
        for is_there in [true, false] {
            let (near, far) = tokio::io::duplex(64);
            let is_undone = Arc::new(Mutex::new(false));
            let undone = Arc::clone(&is_undone);
            let work = UnfinishedWork::default();
            let answer = Delivery::new(work.begin(), Interrupt::new(), async move { *undone.lock() = true });
            let mut near = StallGuard::new(near, PATIENCE, Arc::new(Mutex::new(Some(answer))));
            if !is_there {
                drop(far);
            }
            let sent = async {
                near.write_all(b"HTTP/1.1 200 OK").await?;
                near.flush().await
            };
            assert_eq!(sent.await.is_ok(), is_there);
            drop(near);
            work.all_ended().await;
            assert_eq!(*is_undone.lock(), !is_there);
        }
    }
}
