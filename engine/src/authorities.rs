//! `authorities` finds out whether this host knows any authorities by which the certificates of servers can be checked.

use std::{env, fs, path::Path, sync::OnceLock};

/// Where distributions keep them all in one file.
const FILES: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Whether there is any. Only where the usual files are not there, or others are named, are certificates read.
pub(crate) fn are_known() -> bool {
    static KNOWN: OnceLock<bool> = OnceLock::new();
    *KNOWN.get_or_init(|| {
        let are_named = ["SSL_CERT_FILE", "SSL_CERT_DIR"].iter().any(|name| env::var_os(name).is_some());
        let is_usual = !are_named && FILES.iter().any(|path| is_filled(Path::new(path)));
        is_usual || !rustls_native_certs::load_native_certs().certs.is_empty()
    })
}

fn is_filled(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}
