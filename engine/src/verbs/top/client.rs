//! `ServerAccess` asks a `pstore serve` for documents, over HTTP, HTTPS or a socket of this host.

use std::{fmt, path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::{Request, StatusCode, client::conn::http1, header};
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, RootCertStore, crypto::aws_lc_rs, pki_types::ServerName, version::TLS13};
use serde::Deserialize;
use store::ErrorKind;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::timeout,
};
use tokio_rustls::TlsConnector;

use crate::failure::{Failure, codes};

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);
/// No answer is longer.
const MAX_BYTES: usize = 64 << 20;
/// What a socket's path begins with.
const UNIX: &str = "unix:";

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerUrl {
    /// At an address.
    Address {
        /// Whether it encrypts.
        is_encrypted: bool,
        /// The name of its host.
        host: String,
        /// Its port.
        port: u16,
    },
    /// At a socket of this host.
    Socket(PathBuf),
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix(UNIX).filter(|path| path.starts_with('/')) {
            return Ok(Self::Socket(path.into()));
        }
        let wrong = || "it takes http://HOST:PORT, https://HOST or unix:/path".to_owned();
        let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
        let is_encrypted = match scheme {
            "https" => true,
            "http" => false,
            _ => return Err(wrong()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        // The name of a host in brackets is an address with colons.
        let (host, port) = match rest.rsplit_once(':').filter(|(_, port)| !port.contains(']')) {
            Some((host, port)) => (host, port.parse().map_err(|_| wrong())?),
            None => (rest, if is_encrypted { 443 } else { 80 }),
        };
        match host.is_empty() || host.contains(['/', '@', '?', '#']) || host.contains(char::is_whitespace) {
            true => Err(wrong()),
            false => Ok(Self::Address { is_encrypted, host: host.to_owned(), port }),
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { is_encrypted: true, host, port } => write!(f, "https://{host}:{port}"),
            Self::Address { is_encrypted: false, host, port } => write!(f, "http://{host}:{port}"),
            Self::Socket(path) => write!(f, "{UNIX}{}", path.display()),
        }
    }
}

/// Where a server is, and what says who calls.
#[derive(Clone)]
pub struct ServerAccess {
    /// Where it is.
    pub url: ServerUrl,
    /// The secret of a token; a socket may know its callers without one.
    token: Option<String>,
    tls: Option<TlsConnector>,
}

impl fmt::Debug for ServerAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerAccess").field("url", &self.url).finish_non_exhaustive()
    }
}

impl ServerAccess {
    /// To this server with the secret of a token. Certificates are those that this host trusts.
    pub fn new(url: ServerUrl, token: Option<String>) -> Result<Self, Failure> {
        let tls = match url {
            ServerUrl::Address { is_encrypted: true, .. } => Some(connector()?),
            _ => None,
        };
        Ok(Self { url, token, tls })
    }

    /// A connection, for one question after another.
    pub(super) async fn connect(&self) -> Result<Connection, Failure> {
        let shown = self.url.to_string();
        let opened =
            timeout(PATIENCE, self.open()).await.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        let sender = opened.map_err(|problem| {
            Failure::new(ErrorKind::Unavailable, format!("{shown} cannot be reached: {problem}"))
                .hint("--server says where `pstore serve` listens")
        })?;
        let host = match &self.url {
            ServerUrl::Address { host, port, .. } => format!("{host}:{port}"),
            ServerUrl::Socket(_) => "localhost".to_owned(),
        };
        Ok(Connection { sender, host, shown, token: self.token.clone() })
    }

    async fn open(&self) -> Result<http1::SendRequest<Empty<Bytes>>, String> {
        match (&self.url, &self.tls) {
            (ServerUrl::Socket(path), _) => {
                spoken_over(UnixStream::connect(path).await.map_err(|error| error.to_string())?).await
            }
            (ServerUrl::Address { host, port, .. }, tls) => {
                let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let stream =
                    TcpStream::connect((name.as_str(), *port)).await.map_err(|error| error.to_string())?;
                let Some(tls) = tls else { return spoken_over(stream).await };
                let name = ServerName::try_from(name).map_err(|error| error.to_string())?;
                spoken_over(tls.connect(name, stream).await.map_err(|error| error.to_string())?).await
            }
        }
    }
}

fn connector() -> Result<TlsConnector, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let config = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| Failure::internal(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}

async fn spoken_over<S>(stream: S) -> Result<http1::SendRequest<Empty<Bytes>>, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // It ends with its sender, or when the server closes it.
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!("the connection to the server ended: {error}");
        }
    });
    Ok(sender)
}

/// A connection to a server.
pub(super) struct Connection {
    sender: http1::SendRequest<Empty<Bytes>>,
    host: String,
    shown: String,
    token: Option<String>,
}

/// A refusal of the server, as far as it is told on.
#[derive(Deserialize)]
struct Refused {
    detail: String,
    kind: String,
    hint: Option<String>,
}

impl Connection {
    /// What the server answers at a path.
    pub(super) async fn get(&mut self, path: &str) -> Result<Bytes, Failure> {
        let asked =
            timeout(PATIENCE, self.ask(path)).await.unwrap_or_else(|_| Err("it takes too long".to_owned()));
        let (status, bytes) = asked.map_err(|problem| {
            Failure::new(
                ErrorKind::Unavailable,
                format!("{} does not answer GET {path}: {problem}", self.shown),
            )
        })?;
        if status == StatusCode::OK {
            return Ok(bytes);
        }
        Err(match serde_json::from_slice::<Refused>(&bytes) {
            Ok(Refused { detail, kind, hint }) => {
                let hint = match status {
                    StatusCode::UNAUTHORIZED => {
                        Some("PSTORE_SERVER_TOKEN has the secret of a token".to_owned())
                    }
                    _ => hint,
                };
                let kind = codes::kind(&kind).unwrap_or(ErrorKind::Unavailable);
                Failure { hint, ..Failure::new(kind, detail) }
            }
            Err(_) => {
                Failure::new(ErrorKind::Unavailable, format!("{} answers {status} to GET {path}", self.shown))
            }
        })
    }

    async fn ask(&mut self, path: &str) -> Result<(StatusCode, Bytes), String> {
        self.sender.ready().await.map_err(|error| error.to_string())?;
        let mut request = Request::get(path).header(header::HOST, &self.host);
        if let Some(token) = &self.token {
            request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Empty::new()).map_err(|error| error.to_string())?;
        let answer = self.sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let body = Limited::new(answer.into_body(), MAX_BYTES).collect().await;
        Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_by_its_scheme_its_host_and_its_port() {
        let address = |is_encrypted, host: &str, port| {
            Ok(ServerUrl::Address { is_encrypted, host: host.to_owned(), port })
        };
        let read = |text: &str| text.parse::<ServerUrl>();
        assert_eq!(read("http://127.0.0.1:7070"), address(false, "127.0.0.1", 7070));
        assert_eq!(read("https://pstore.example/"), address(true, "pstore.example", 443));
        assert_eq!(read("http://[::1]:7070"), address(false, "[::1]", 7070));
        assert_eq!(read("http://[::1]"), address(false, "[::1]", 80));
        assert_eq!(read("unix:/run/pstore.sock"), Ok(ServerUrl::Socket("/run/pstore.sock".into())));
        for wrong in
            ["127.0.0.1:7070", "ftp://a", "http://", "http://a:b", "http://me:hush@a", "unix:a", "http://a/b"]
        {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        for shown in ["http://127.0.0.1:7070", "https://a:443", "unix:/run/x"] {
            assert_eq!(read(shown).unwrap().to_string(), shown);
        }
    }
}
