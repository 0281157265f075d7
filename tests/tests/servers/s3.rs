//! These tests read an S3 server's refusals, and check who may see what.

use std::{
    io::{Read, Write as _},
    sync::Arc,
    time::Duration,
};

use store::bucket::{
    Body, Bucket, BucketError, Depth, Key, Prefix, Recorder, S3Bucket, S3Config, S3Credentials, TenantBucket,
    Write,
};
use tests::{
    server::{Rclone, SeaweedFs},
    unique_name,
};

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn body(text: &str) -> Body {
    text.as_bytes().to_vec().into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bucket_that_does_not_exist_is_named() {
    let server = SeaweedFs::shared().await;
    let config = S3Config { bucket: "no-such-bucket".into(), ..server.whole_bucket() };
    let bucket = S3Bucket::open(config).await;
    for error in [
        bucket.get(&key("a"), u64::MAX).await.unwrap_err(),
        bucket.list(&Prefix::root(), Depth::All, None).await.unwrap_err(),
    ] {
        assert!(matches!(error, BucketError::Rejected { .. }), "{error:?}");
        assert!(error.to_string().contains("the bucket no-such-bucket does not exist"), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_denied_with_the_servers_words() {
    let server = SeaweedFs::shared().await;
    let credentials = S3Credentials {
        access_key_id: "nobody".into(),
        secret_access_key: "wrong".into(),
        session_token: None,
    };
    let config = S3Config { credentials: Some(credentials), ..server.whole_bucket() };
    let bucket = S3Bucket::open(config).await;
    let error = bucket.get(&key("a"), u64::MAX).await.unwrap_err();
    assert!(matches!(error, BucketError::Denied { .. }), "{error:?}");
    assert!(error.to_string().contains("InvalidAccessKeyId"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_not_there_is_unavailable() {
    let server = Rclone::start().await;
    let config = server.config();
    drop(server);
    let bucket = S3Bucket::open(config).await;
    let error = bucket.put(&key("a"), body("1"), Write::Create).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error:?}");
}

/// A socket that takes the request and says nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_says_nothing_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = S3Config {
        operation_timeout: Duration::from_millis(300),
        ..tests::server::config(&format!("http://{}", listener.local_addr().unwrap()), "b", "k", "s")
    };
    let bucket = S3Bucket::open(config).await;
    let error = bucket.put(&key("a"), body("1"), Write::Create).await.unwrap_err();
    assert!(error.is_ambiguous(), "{error:?}");
    listener.set_nonblocking(true).unwrap();
    listener.accept().unwrap();
    assert!(listener.accept().is_err(), "the request was sent more than once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_is_kept_out_by_our_scope_and_by_the_server() {
    let server = SeaweedFs::shared().await;
    let name = unique_name();
    let foreign = key(&format!("content/globex/{name}"));
    let globex = S3Bucket::open(server.tenant("globex")).await;
    let version = globex.put(&foreign, body("secret"), Write::Create).await.unwrap();

    let acme = Arc::new(Recorder::new(Arc::new(S3Bucket::open(server.tenant("acme")).await)));
    let allowed = [Prefix::new("content/acme/").unwrap(), Prefix::new("snapshots/acme/").unwrap()];
    let scoped = TenantBucket::new(acme.clone(), allowed);
    let mine = key(&format!("snapshots/acme/{name}"));
    scoped.put(&mine, body("mine"), Write::Create).await.unwrap();
    assert_eq!(&scoped.get(&mine, u64::MAX).await.unwrap().bytes[..], b"mine");
    let own = Prefix::new("snapshots/acme/").unwrap();
    assert!(scoped.list(&own, Depth::All, None).await.unwrap().entries.iter().any(|entry| entry.key == mine));
    acme.take();

    let below = Prefix::new("content/globex/").unwrap();
    for bucket in [&scoped as &dyn Bucket, &*acme] {
        let answers = [
            bucket.get(&foreign, u64::MAX).await.map(drop),
            bucket.get_range(&foreign, 0..1).await.map(drop),
            bucket.put(&foreign, body("x"), Write::Replace(version.clone())).await.map(drop),
            bucket.put(&key(&format!("content/globex/{name}-2")), body("x"), Write::Create).await.map(drop),
            bucket.list(&below, Depth::All, None).await.map(drop),
            bucket.delete(&foreign).await,
        ];
        for answer in answers {
            assert!(matches!(answer, Err(BucketError::Denied { .. })), "{answer:?}");
        }
    }
    // Six from the second turn: the scope made none.
    assert_eq!(acme.calls().len(), 6);
    assert_eq!(&globex.get(&foreign, u64::MAX).await.unwrap().bytes[..], b"secret");
}

/// Answers every request so, for as long as the test runs.
fn stubborn(status: &'static str, code: &'static str) -> S3Config {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = tests::server::config(&format!("http://{}", listener.local_addr().unwrap()), "b", "k", "s");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 16 << 10]);
            let body = format!("<Error><Code>{code}</Code><Message>no</Message></Error>");
            let head = format!(
                "HTTP/1.1 {status}\r\nServer: proxy\r\nConnection: close\r\nContent-Length: {}",
                body.len()
            );
            let _ = stream.write_all(format!("{head}\r\n\r\n{body}").as_bytes());
        }
    });
    config
}

/// Does not say how long its answers are, and goes on for 64 MiB.
fn endless() -> S3Config {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let config = tests::server::config(&format!("http://{}", listener.local_addr().unwrap()), "b", "k", "s");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = [0; 16 << 10];
            let len = stream.read(&mut asked).unwrap_or(0);
            let ranged = String::from_utf8_lossy(&asked[..len]).to_lowercase().contains("\r\nrange: ");
            let status = if ranged { "206 Partial Content\r\nContent-Range: bytes 0-9/99" } else { "200 OK" };
            let mut answer = format!(
                "HTTP/1.1 {status}\r\nETag: \"1\"\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
            )
            .into_bytes();
            let part = [&b"100000\r\n"[..], &vec![7; 1 << 20], b"\r\n"].concat();
            let mut parts = 64;
            while stream.write_all(&answer).is_ok() && parts > 0 {
                parts -= 1;
                answer.clone_from(&part);
            }
            let _ = stream.write_all(b"0\r\n\r\n");
        }
    });
    config
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_is_taken_from_a_server_than_was_asked_for() {
    let bucket = S3Bucket::open(endless()).await;
    let answer = bucket.get(&key("a"), 1000).await;
    assert!(matches!(answer, Err(BucketError::TooLarge { max_bytes: 1000, .. })), "{:?}", answer.map(drop));
    let answer = bucket.get_range(&key("a"), 0..10).await;
    assert!(matches!(answer, Err(BucketError::Rejected { .. })), "{:?}", answer.map(|bytes| bytes.len()));
    assert_eq!(bucket.get(&key("a"), 64 << 20).await.unwrap().bytes.len(), 64 << 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_knows_no_versioning_is_not_versioned() {
    let bucket = S3Bucket::open(stubborn("501 Not Implemented", "NotImplemented")).await;
    let settings = bucket.settings().await.unwrap();
    assert!(!settings.versioned && !settings.object_lock, "{settings:?}");
    let bucket = S3Bucket::open(stubborn("403 Forbidden", "AccessDenied")).await;
    assert!(matches!(bucket.settings().await, Err(BucketError::Denied { .. })));
}

/// A proxy speaks for a server that it cannot reach: that is not what was probed.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_not_named_by_its_failures() {
    let bucket = S3Bucket::open(stubborn("503 Service Unavailable", "SlowDown")).await;
    bucket.get(&key("a"), u64::MAX).await.unwrap_err();
    assert_eq!(bucket.server().name, None);
    let bucket = S3Bucket::open(stubborn("404 Not Found", "NoSuchKey")).await;
    bucket.get(&key("a"), u64::MAX).await.unwrap_err();
    assert_eq!(bucket.server().name.as_deref(), Some("proxy"));
    let place = bucket.server().place.unwrap();
    assert!(place.starts_with("s3://b at http://127.0.0.1:"), "{place}");
}
