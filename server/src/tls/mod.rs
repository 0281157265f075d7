//! `tls` encrypts connections, and identifies a client by its certificate.

mod identity;

use std::{path::PathBuf, sync::Arc, time::Duration};

use engine::failure::Failure;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::{CryptoProvider, aws_lc_rs},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject},
    server::{NoServerSessionStorage, WebPkiClientVerifier, danger::ClientCertVerifier},
    version::TLS13,
};
use tokio::{io::AsyncWriteExt, net::TcpStream};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

pub(crate) use self::identity::Certified;
use crate::{
    problem::Refusal,
    reloaded_files::{ReloadedFiles, read_own},
};

/// How long a client may take until the connection is encrypted.
const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE: u8 = 0x16;
/// A private key may not be read by everybody.
const OF_EVERYBODY: u32 = 0o007;
/// The one protocol that is spoken within.
const HTTP_1_1: &[u8] = b"http/1.1";

/// The files that a server needs for TLS, as PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its certificate, and those that lead from it to an authority.
    pub certificate: PathBuf,
    /// The key of the certificate.
    pub key: PathBuf,
    /// The authorities whose certificates tell who a client is.
    pub client_authorities: Option<PathBuf>,
}

/// Encrypts connections by the present content of the files.
#[derive(Debug)]
pub(crate) struct Tls {
    watched: ReloadedFiles<Loaded>,
}

/// The content of the files.
struct Loaded {
    config: Arc<ServerConfig>,
    /// Looks at the certificates of clients; none if no authority is trusted.
    clients: Option<Arc<dyn ClientCertVerifier>>,
}

impl Tls {
    /// Reads the files, which must be in order.
    pub(crate) fn open(files: &TlsFiles) -> Result<Self, Failure> {
        let mut paths = vec![files.certificate.clone(), files.key.clone()];
        paths.extend(files.client_authorities.clone());
        let files = files.clone();
        Ok(Self { watched: ReloadedFiles::open("certificates", paths, move || load(&files))? })
    }

    /// Whether the files could be read as they are now.
    pub(crate) fn is_in_order(&self) -> bool {
        self.watched.is_in_order()
    }

    /// Fails unless the authorities that are trusted now vouch for a client now. A connection may live longer
    /// than the certificate that it began with.
    pub(crate) fn require_trust(&self, certified: &Certified) -> Result<(), String> {
        let loaded = self.watched.current();
        let clients = loaded.clients.as_ref().ok_or("no authority is trusted any more")?;
        vouched(&**clients, &certified.chain, UnixTime::now())
    }

    /// Encrypts a connection. A client that speaks plain HTTP gets an answer that says so.
    pub(crate) async fn accept(
        &self,
        stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<Certified>), String> {
        let handshake = self.shaken(stream);
        let ended = tokio::time::timeout(HANDSHAKE_TIME, handshake).await;
        ended.unwrap_or_else(|_| Err(format!("no handshake within {} s", HANDSHAKE_TIME.as_secs())))
    }

    async fn shaken(
        &self,
        mut stream: TcpStream,
    ) -> Result<(TlsStream<TcpStream>, Option<Certified>), String> {
        let mut first = [0];
        let seen = stream.peek(&mut first).await.map_err(|error| error.to_string())?;
        if seen == 1 && first[0] != HANDSHAKE {
            // Whether it arrives is its own affair.
            let _ = stream.write_all(&plain_refusal()).await;
            let _ = stream.shutdown().await;
            return Err("it is not encrypted".to_owned());
        }
        let loaded = self.watched.current();
        let acceptor = TlsAcceptor::from(Arc::clone(&loaded.config));
        let stream = acceptor.accept(stream).await.map_err(|error| error.to_string())?;
        let certified = stream.get_ref().1.peer_certificates().and_then(Certified::of);
        Ok((stream, certified))
    }
}

/// The answer to a client that does not encrypt.
fn plain_refusal() -> Vec<u8> {
    let failure = Failure::usage("this port speaks TLS").hint("ask for https:// instead of http://");
    Refusal::from(failure).last_words()
}

fn load(files: &TlsFiles) -> Result<Loaded, Failure> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let authorities = match &files.client_authorities {
        Some(path) => Some(read_own(path, "client authorities", "--client-ca names a file of PEM", 0)?),
        None => None,
    };
    let clients = authorities.map(|pem| verifier(files, &pem, Arc::clone(&provider))).transpose()?;
    let builder = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| Failure::internal(error.to_string()))?;
    let builder = match &clients {
        Some(clients) => builder.with_client_cert_verifier(Arc::clone(clients)),
        None => builder.with_no_client_auth(),
    };
    let chain = read_own(&files.certificate, "certificate", "--tls-cert names a file of PEM", 0)?;
    let chain = certificates(&chain).map_err(|problem| wrong(&files.certificate, &problem))?;
    let key = read_own(&files.key, "private key", "--tls-key names a file of PEM", OF_EVERYBODY)?;
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|_| wrong(&files.key, "it holds no key in PEM"))?;
    let mut config = builder.with_single_cert(chain, key).map_err(|error| {
        let message =
            format!("{} does not go with {}: {error}", files.key.display(), files.certificate.display());
        Failure::usage(message)
    })?;
    config.alpn_protocols = vec![HTTP_1_1.to_vec()];
    // Each connection shows its certificate anew: a session that goes on would outlive it.
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Loaded { config: Arc::new(config), clients })
}

/// Lets clients show a certificate of these authorities. A client that shows none needs a token.
fn verifier(
    files: &TlsFiles,
    pem: &[u8],
    provider: Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, Failure> {
    let path = files.client_authorities.clone().unwrap_or_default();
    let mut roots = RootCertStore::empty();
    for certificate in certificates(pem).map_err(|problem| wrong(&path, &problem))? {
        roots.add(certificate).map_err(|error| wrong(&path, &error.to_string()))?;
    }
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
    verifier.allow_unauthenticated().build().map_err(|error| wrong(&path, &error.to_string()))
}

/// Fails unless this chain leads from an authority to a client, and is good at this time.
fn vouched(
    clients: &dyn ClientCertVerifier,
    chain: &[CertificateDer<'_>],
    now: UnixTime,
) -> Result<(), String> {
    let (own, others) = chain.split_first().ok_or("no certificate was shown")?;
    clients.verify_client_cert(own, others, now).map(drop).map_err(|error| error.to_string())
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = read.map_err(|error| format!("it is no PEM: {error:?}"))?;
    match found.is_empty() {
        true => Err("it holds no certificate in PEM".to_owned()),
        false => Ok(found),
    }
}

fn wrong(path: &std::path::Path, problem: &str) -> Failure {
    Failure::usage(format!("{}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const AUTHORITY: &[u8] = include_bytes!("testdata/authority.pem");
    /// Good for one day, from the evening of 2026-11-17 on.
    const CLIENT: &[u8] = include_bytes!("testdata/client.pem");

    #[test]
    fn a_certificate_is_good_until_it_expires_and_for_its_authority_alone() {
        let of = |pem: &[u8]| {
            let [certificate, key] = ["server.pem", "server.key"].map(PathBuf::from);
            let files = TlsFiles { certificate, key, client_authorities: None };
            verifier(&files, pem, Arc::new(aws_lc_rs::default_provider())).unwrap()
        };
        let at = |seconds| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let (noon, next_noon) = (at(1_795_003_200), at(1_795_089_600));
        let chain = certificates(CLIENT).unwrap();
        assert_eq!(vouched(&*of(AUTHORITY), &chain, noon), Ok(()));
        let expired = vouched(&*of(AUTHORITY), &chain, next_noon).unwrap_err();
        assert!(expired.contains("expired"), "{expired}");
        assert!(vouched(&*of(CLIENT), &[], noon).is_err());
        let certified = Certified::of(&chain).unwrap();
        assert_eq!(&*certified.chain, &chain[..]);
        assert!(certified.caller.is_ok());
    }
}
