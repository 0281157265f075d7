//! `connections` accepts connections and speaks HTTP/1.1 with each, within limits, until the server is to stop.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulShutdown,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, Semaphore},
};
use tower_service::Service;

use crate::{
    listen::{Connection, Listener},
    peer::Peer,
    progress::Progress,
};

/// How many connections there may be at once; more have to wait.
const MAX_CONNECTIONS: usize = 1024;
/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long the head of a request may be.
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 64;
/// How long the other side may take no byte of an answer.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// How long to wait when the host has no room for one more connection.
const BREATH: Duration = Duration::from_millis(100);

/// Serves connections until `stopped`, and then those that are within a request to its end, for as long
/// as `patience` lasts. Whether all had ended by then.
pub(crate) async fn serve(
    listener: Listener,
    router: &Router,
    stopped: impl Future<Output = ()>,
    patience: Duration,
) -> bool {
    let (graceful, room) = (GracefulShutdown::new(), Arc::new(Semaphore::new(MAX_CONNECTIONS)));
    let mut stopped = std::pin::pin!(stopped);
    loop {
        let next = async {
            let permit = Arc::clone(&room).acquire_owned().await;
            (listener.accept().await, permit)
        };
        let (accepted, permit) = tokio::select! {
            next = next => next,
            () = &mut stopped => break,
        };
        match (accepted, permit) {
            (Ok(Connection::Tcp(stream, from)), Ok(permit)) => {
                speak(stream, Peer::Address(from.ip()), router, &graceful, permit);
            }
            (Ok(Connection::Unix(stream)), Ok(permit)) => {
                speak(stream, Peer::Socket, router, &graceful, permit)
            }
            (Err(error), _) => {
                tracing::warn!("a connection could not be accepted: {error}");
                tokio::time::sleep(BREATH).await;
            }
            // The semaphore is never closed.
            (_, Err(_)) => break,
        }
    }
    // Nobody connects any more.
    drop(listener);
    tokio::time::timeout(patience, graceful.shutdown()).await.is_ok()
}

/// Speaks HTTP over a connection, in a task of its own.
fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    peer: Peer,
    router: &Router,
    graceful: &GracefulShutdown,
    permit: OwnedSemaphorePermit,
) {
    let router = router.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let mut router = router.clone();
        request.extensions_mut().insert(peer);
        async move { router.call(request.map(Body::new)).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(Progress::new(stream, WRITE_TIME)), service);
    let connection = graceful.watch(connection);
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("a connection broke: {error}");
        }
        drop(permit);
    });
}
