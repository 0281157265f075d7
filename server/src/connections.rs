//! `connections` accepts connections and speaks HTTP/1.1 with each, within limits, until the server is to stop.

use std::{sync::Arc, time::Duration};

use axum::{Router, body::Body, http::Request};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::Semaphore,
};
use tower_service::Service;

use crate::{
    dispatch,
    listen::{Connection, Listener},
    peer::{LocalUser, Peer},
    server_state::Server,
    stall_guard::StallGuard,
    tls::{Certified, Tls},
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
    server: &Arc<Server>,
    stopped: impl Future<Output = ()>,
    patience: Duration,
) -> bool {
    let router = dispatch::router(server);
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
            (Ok(connection), Ok(permit)) => {
                let spoken = spoken(connection, Arc::clone(server), router.clone(), graceful.watcher());
                tokio::spawn(async move {
                    spoken.await;
                    drop(permit);
                });
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

/// Speaks HTTP over a connection to its end, encrypted if the server has certificates.
async fn spoken(connection: Connection, server: Arc<Server>, router: Router, watcher: Watcher) {
    match (connection, &server.tls) {
        (Connection::Unix(stream), _) => {
            let user = stream.peer_cred().ok();
            let user = user.map(|user| LocalUser { uid: user.uid(), gid: user.gid() });
            speak(stream, (Peer::Socket(user), None), router, watcher).await;
        }
        (Connection::Tcp(stream, from), None) => {
            speak(stream, (Peer::Address(from.ip()), None), router, watcher).await;
        }
        (Connection::Tcp(stream, from), Some(tls)) => {
            encrypted(stream, (Peer::Address(from.ip()), tls), router, watcher).await;
        }
    }
}

async fn encrypted(stream: TcpStream, (peer, tls): (Peer, &Tls), router: Router, watcher: Watcher) {
    match tls.accept(stream).await {
        Ok((stream, certified)) => speak(stream, (peer, certified), router, watcher).await,
        Err(problem) => tracing::debug!(%peer, "a connection was not encrypted: {problem}"),
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    (peer, certified): (Peer, Option<Certified>),
    router: Router,
    watcher: Watcher,
) {
    let service = service_fn(move |mut request: Request<Incoming>| {
        let mut router = router.clone();
        request.extensions_mut().insert(peer);
        if let Some(certified) = &certified {
            request.extensions_mut().insert(certified.clone());
        }
        async move { router.call(request.map(Body::new)).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(StallGuard::new(stream, WRITE_TIME)), service);
    if let Err(error) = watcher.watch(connection).await {
        tracing::debug!("a connection broke: {error}");
    }
}
