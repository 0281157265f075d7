//! `certificates` makes certificates with `openssl`, and has a TLS client that shows them.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    crypto::aws_lc_rs,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};

use crate::served::{Reply, Served, answer};

/// An authority with a directory for its certificates.
#[derive(Debug)]
pub struct Authority {
    folder: PathBuf,
    name: String,
}

/// A certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Certificate {
    pub path: PathBuf,
    pub key: PathBuf,
}

impl Authority {
    pub fn new(folder: &Path, name: &str) -> Self {
        let authority = Self { folder: folder.to_owned(), name: name.to_owned() };
        let Certificate { path, key } = authority.files(name);
        openssl(
            &["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"],
            &[("-subj", format!("/CN={name}")), ("-keyout", shown(&key)), ("-out", shown(&path))],
        );
        authority
    }

    /// The file with its own certificate.
    pub fn path(&self) -> PathBuf {
        self.files(&self.name).path
    }

    /// Makes a certificate with this alternative name, such as `IP:127.0.0.1`.
    pub fn issue(&self, name: &str, alternative: &str) -> Certificate {
        let (own, made) = (self.files(&self.name), self.files(name));
        let request = self.folder.join(format!("{name}.csr"));
        let names = self.folder.join(format!("{name}.names"));
        fs::write(&names, format!("subjectAltName={alternative}\nbasicConstraints=CA:FALSE\n")).unwrap();
        openssl(
            &["req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"],
            &[("-subj", format!("/CN={name}")), ("-keyout", shown(&made.key)), ("-out", shown(&request))],
        );
        openssl(
            &["x509", "-req", "-days", "1", "-CAcreateserial"],
            &[
                ("-in", shown(&request)),
                ("-CA", shown(&own.path)),
                ("-CAkey", shown(&own.key)),
                ("-extfile", shown(&names)),
                ("-out", shown(&made.path)),
            ],
        );
        made
    }

    fn files(&self, name: &str) -> Certificate {
        let file = |end: &str| self.folder.join(format!("{name}.{end}"));
        Certificate { path: file("pem"), key: file("key") }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

#[track_caller]
fn openssl(words: &[&str], options: &[(&str, String)]) {
    let mut command = Command::new("openssl");
    command.args(words);
    for (name, value) in options {
        command.arg(name).arg(value);
    }
    let ended = command.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// A connection that is encrypted.
pub type Encrypted = StreamOwned<ClientConnection, std::net::TcpStream>;

/// Connects to a server whose certificate is of `authority`, and shows `own` if there is one.
pub fn connect(server: &Served, authority: &Authority, own: Option<&Certificate>) -> Encrypted {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_file(authority.path()).unwrap()).unwrap();
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots);
    let config = match own {
        None => builder.with_no_client_auth(),
        Some(own) => {
            let chain = vec![CertificateDer::from_pem_file(&own.path).unwrap()];
            let key = PrivateKeyDer::from_pem_file(&own.key).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    };
    let name = "127.0.0.1".try_into().unwrap();
    StreamOwned::new(ClientConnection::new(Arc::new(config), name).unwrap(), server.connect())
}

/// Sends a request over a connection of its own.
#[track_caller]
pub fn send(server: &Served, authority: &Authority, own: Option<&Certificate>, request: &str) -> Reply {
    let mut stream = connect(server, authority, own);
    stream.write_all(request.as_bytes()).unwrap();
    answer(&mut stream)
}
