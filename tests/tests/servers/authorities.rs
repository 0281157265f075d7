//! This test runs the program on a host without certificates of authorities, as a container from scratch is.

use tests::{binary::Host, server::SeaweedFs};

/// The same host, where no authority is found.
fn without_authorities(host: &Host) -> Host {
    host.clone().with("SSL_CERT_FILE", "/none").with("SSL_CERT_DIR", "/none")
}

#[test]
fn a_host_without_authorities_is_told_how_it_gets_them() {
    let folder = tempfile::tempdir().unwrap();
    let host = Host::local(&folder.path().join("home"), &folder.path().join("store"));
    let host = without_authorities(&host)
        .with("PSTORE_STORE", "s3://profiles")
        .with("AWS_ACCESS_KEY_ID", "a")
        .with("AWS_SECRET_ACCESS_KEY", "b");
    for endpoint in ["", "https://127.0.0.1:1"] {
        let error = host.clone().with("PSTORE_S3_ENDPOINT", endpoint).fail(14, ["list", "acme"]);
        let (message, hint) = (error["message"].as_str().unwrap(), error["hint"].as_str().unwrap());
        assert!(message.contains("no certificates of authorities"), "{error:#}");
        assert!(hint.contains("SSL_CERT_FILE") && hint.contains("ca-certificates"), "{error:#}");
    }
}

/// Nothing is encrypted there, so nothing is to be checked.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_encryption_needs_no_authorities() {
    let bucket = SeaweedFs::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let host = without_authorities(&Host::s3(&folder.path().join("home"), &bucket.config()));
    let source = folder.path().join("source");
    std::fs::create_dir(&source).unwrap();
    std::fs::write(source.join("Preferences"), "first").unwrap();
    host.snapshot(&source, "acme/alice");
    host.verify("acme/alice", &[]);
}
