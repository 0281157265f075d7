//! `connections` accepts connections and speaks HTTP/1.1 with each, within limits, until the server is to stop.

use std::{convert::Infallible, sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    http::{Request, StatusCode},
};
use engine::failure::Failure;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use store::ErrorKind;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::{Semaphore, watch},
};
use tower_service::Service;

use crate::{
    concurrency_limit::{ConcurrencyLimit, Permit},
    delivery::Delivery,
    dispatch,
    listen::{Connection, Listener},
    peer::Peer,
    problem::Refusal,
    server_state::Server,
    stall_guard::{Sending, StallGuard},
    tls::{Certified, Tls},
};

/// How many connections there may be at once; more have to wait.
const MAX_CONNECTIONS: usize = 1024;
/// How long a client that is not let in is listened to, so that it hears why.
const LAST_WORDS_TIME: Duration = Duration::from_secs(1);
/// How long the head of a request may take, and how long a connection may be idle.
const HEAD_TIME: Duration = Duration::from_secs(30);
/// How long the head of a request may be.
const MAX_HEAD_BYTES: usize = 32 << 10;
const MAX_HEADERS: usize = 64;
/// How long the other side may take no byte of an answer.
const WRITE_TIME: Duration = Duration::from_secs(30);
/// Tells a connection to end with the request it is within.
type Ending = watch::Receiver<()>;

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
    let most = most_connections();
    let router = dispatch::router(server);
    // Every connection has a receiver, and drops it when it has ended.
    let (end, ended) = watch::channel(());
    let (room, shares) = (Arc::new(Semaphore::new(most)), ConcurrencyLimit::new("connections", most));
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
                let (server, router, end) = (Arc::clone(server), router.clone(), ended.clone());
                let share = share(&shares, &connection);
                tokio::spawn(async move {
                    match share {
                        Ok(_share) => spoken(connection, server, router, end).await,
                        Err(refusal) => sent_away(connection, &server, &refusal).await,
                    }
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
    drop((listener, ended));
    // It fails only if there is no connection.
    let _ = end.send(());
    tokio::time::timeout(patience, end.closed()).await.is_ok()
}

/// How many connections there may be: half of the files that this process may have open, so that they leave the
/// others to the store. It asks for as many files as it may have.
fn most_connections() -> usize {
    let limit = getrlimit(Resource::Nofile);
    // If that fails, there is the limit that there was.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
    let files = getrlimit(Resource::Nofile).current.and_then(|files| usize::try_from(files).ok());
    files.map_or(MAX_CONNECTIONS, |files| (files / 2).clamp(1, MAX_CONNECTIONS))
}

/// Takes a connection out of the share of the address, or the user, that it came from.
fn share(shares: &ConcurrencyLimit, connection: &Connection) -> Result<Option<Permit>, Refusal> {
    connection.peer().network().map(|network| shares.take_as(network)).transpose()
}

/// Tells somebody why it is not let in. What it sends meanwhile is thrown away: else the kernel would throw away
/// the answer.
async fn sent_away(connection: Connection, server: &Server, refusal: &Refusal) {
    tracing::debug!("a connection was refused: {}", refusal.failure.message);
    let telling = async {
        match connection {
            // It would not understand.
            Connection::Tcp(..) if server.tls.is_some() => {}
            Connection::Tcp(stream, _) => tell(stream, refusal).await,
            Connection::Unix(stream) => tell(stream, refusal).await,
        }
    };
    let _ = tokio::time::timeout(LAST_WORDS_TIME, telling).await;
}

async fn tell(mut stream: impl AsyncRead + AsyncWrite + Unpin, refusal: &Refusal) {
    let told = async {
        stream.write_all(&refusal.last_words()).await?;
        stream.shutdown().await?;
        while stream.read(&mut [0; 4096]).await? > 0 {}
        Ok::<_, std::io::Error>(())
    };
    // Whether it arrives is its own affair.
    let _ = told.await;
}

/// Speaks HTTP over a connection to its end, encrypted if the server has certificates.
async fn spoken(connection: Connection, server: Arc<Server>, router: Router, end: Ending) {
    let peer = connection.peer();
    match (connection, &server.tls) {
        (Connection::Unix(stream), _) => speak(stream, (peer, None), router, end).await,
        (Connection::Tcp(stream, _), None) => speak(stream, (peer, None), router, end).await,
        (Connection::Tcp(stream, _), Some(tls)) => encrypted(stream, (peer, tls), router, end).await,
    }
}

async fn encrypted(stream: TcpStream, (peer, tls): (Peer, &Tls), router: Router, end: Ending) {
    match tls.accept(stream).await {
        Ok((stream, certified)) => speak(stream, (peer, certified), router, end).await,
        Err(problem) => tracing::debug!(%peer, "a connection was not encrypted: {problem}"),
    }
}

async fn speak(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    (peer, certified): (Peer, Option<Certified>),
    router: Router,
    mut end: Ending,
) {
    let sending = Sending::default();
    let handed_over = Arc::clone(&sending);
    let service = service_fn(move |mut request: Request<Incoming>| {
        let (mut router, sending) = (router.clone(), Arc::clone(&handed_over));
        request.extensions_mut().insert(peer);
        if let Some(certified) = &certified {
            request.extensions_mut().insert(certified.clone());
        }
        async move {
            let mut response = router.call(request.map(Body::new)).await?;
            *sending.lock() = response.extensions_mut().remove::<Delivery>();
            Ok::<_, Infallible>(response)
        }
    });
    let mut stream = StallGuard::new(stream, WRITE_TIME, sending);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(&mut stream), service);
    let ended = {
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            ended = &mut connection => ended,
            _ = end.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!("a connection broke: {error}");
        // Who has been idle for that long is left without a word.
        if error.is_timeout() && stream.is_unanswered() {
            let _ = tokio::time::timeout(LAST_WORDS_TIME, tell(stream, &slow_head())).await;
        }
    }
}

fn slow_head() -> Refusal {
    let message = format!("the head of a request has to arrive within {} s", HEAD_TIME.as_secs());
    Refusal::new(StatusCode::REQUEST_TIMEOUT, Failure::new(ErrorKind::InvalidInput, message))
}
