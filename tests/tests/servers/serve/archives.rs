//! These tests fetch archives as callers do: made while they are sent, from the store, in parts, and from the bucket
//! itself.

use std::{
    fs,
    io::{self, Read, Write},
    path::PathBuf,
    thread,
    time::Duration,
};

use serde_json::Value;
use sha2::{Digest, Sha256};
use tests::{
    binary::Host,
    served::{Reply, Served, Tokens, answer, request, with_header},
    server::SeaweedFs,
    tree::noise,
};

use super::{ALICE, Scene, captured};

/// The bytes of the file `Preferences` in an archive.
fn preferences(archive: &[u8]) -> String {
    let mut tar = tar::Archive::new(zstd::Decoder::new(archive).unwrap());
    for entry in tar.entries().unwrap() {
        let mut entry = entry.unwrap();
        if entry.path().unwrap().ends_with("Preferences") {
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            return text;
        }
    }
    panic!("there are no Preferences in it");
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What `pstore export --publish` says of the current snapshot.
fn published(host: &Host) -> Value {
    host.succeed(["export", "acme/alice", "--publish"])
}

fn get(server: &Served, below: &str, secret: &str, headers: &[&str]) -> Reply {
    let plain = request(&format!("GET {ALICE}/{below}"), Some(secret), None);
    server.send(&headers.iter().fold(plain, |request, line| with_header(&request, line)))
}

#[test]
fn an_archive_is_made_while_it_is_sent() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let server = scene.serve();
    for (sha, text) in scene.shas.iter().zip(["first", "second"]) {
        let reply = get(&server, &format!("{sha}/archive"), &secret, &["Range: bytes=0-9"]);
        assert_eq!((reply.status, reply.header("accept-ranges")), (200, Some("none")));
        assert_eq!(reply.header("content-type"), Some("application/zstd"));
        assert_eq!((reply.header("etag"), reply.header("content-length")), (None, None));
        assert_eq!(preferences(&reply.body), text);
    }
    let head = server.call(&format!("HEAD {ALICE}/latest/archive"), Some(&secret), None);
    assert_eq!((head.status, head.body.len()), (200, 0));
    get(&server, "ffffffffffff/archive", &secret, &[]).refused(404, "not_found");
    get(&server, "latest/archive?colour=red", &secret, &[]).refused(400, "invalid_input");
    assert_eq!(server.stop().document["drained"], true);
}

#[test]
fn an_archive_in_the_store_comes_in_any_part() {
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    fs::write(scene.folder.path().join("source/large"), noise(3_000_000, 7)).unwrap();
    scene.capture("acme/alice", "third");
    let archive = published(&scene.host);
    let server = scene.serve();
    let get = |headers: &[&str]| get(&server, "latest/archive", &secret, headers);
    let whole = get(&[]);
    let tag = format!("\"{}\"", archive["archive_sha256"].as_str().unwrap());
    assert_eq!((whole.status, whole.header("etag")), (200, Some(tag.as_str())));
    assert_eq!(whole.header("content-length"), Some(whole.body.len().to_string().as_str()));
    assert_eq!(format!("\"{}\"", digest(&whole.body)), tag);
    assert_eq!(preferences(&whole.body), "third");
    let size = whole.body.len();
    for (range, part) in [
        ("bytes=0-99".to_owned(), 0..100),
        (format!("bytes={}-", size - 10), size - 10..size),
        ("bytes=-5".to_owned(), size - 5..size),
        ("bytes=1000000-2500000".to_owned(), 1_000_000..2_500_001),
    ] {
        let reply = get(&[&format!("Range: {range}"), &format!("If-Range: {tag}")]);
        assert_eq!(reply.status, 206, "{range}");
        let told = format!("bytes {}-{}/{size}", part.start, part.end - 1);
        assert_eq!(reply.header("content-range"), Some(told.as_str()));
        assert!(reply.body == whole.body[part], "{range}");
    }
    let other = get(&["Range: bytes=0-99", "If-Range: \"other\""]);
    assert!(other.status == 200 && other.body == whole.body);
    let beyond = get(&[&format!("Range: bytes={size}-")]);
    beyond.refused(416, "invalid_input");
    assert_eq!(beyond.header("content-range"), Some(format!("bytes */{size}").as_str()));
    let known = get(&[&format!("If-None-Match: {tag}")]);
    assert_eq!((known.status, known.body.len(), known.header("etag")), (304, 0, Some(tag.as_str())));
    let head = server.call(&format!("HEAD {ALICE}/latest/archive"), Some(&secret), None);
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), whole.header("content-length"));
    // One that was changed in the store is not taken for whole.
    let key = archive["archive"].as_str().unwrap();
    let path: PathBuf = scene.folder.path().join("store/objects").join(key);
    let mut bytes = fs::read(&path).unwrap();
    bytes[1000] ^= 1;
    fs::write(&path, bytes).unwrap();
    let broken = get(&[]);
    assert!(broken.status == 200 && broken.body.len() < size, "{} bytes", broken.body.len());
    assert!(server.said().contains("an archive broke off"), "{}", server.said());
    // One that is gone is made anew.
    fs::remove_file(&path).unwrap();
    let anew = get(&[]);
    assert_eq!((anew.status, anew.header("etag")), (200, None));
    assert_eq!(preferences(&anew.body), "third");
}

/// Neither kind of archive is held in memory, though it is read slowly. Making one takes what its compression
/// takes; sending one takes a few pieces. Both are less than the archive.
#[test]
fn memory_does_not_grow_with_an_archive() {
    const FILE: usize = 200 << 20;
    const FILES: usize = 3;
    let scene = Scene::new();
    let secret = scene.token("acme", "run");
    let bytes = noise(FILE, 7);
    for number in 0..FILES {
        fs::write(scene.folder.path().join(format!("source/large-{number}")), &bytes).unwrap();
    }
    scene.capture("acme/alice", "third");
    for (is_published, most) in [(false, 450 << 20), (true, 120 << 20)] {
        if is_published {
            published(&scene.host);
        }
        let server = scene.serve();
        let mut stream = server.connect();
        let asked = request(&format!("GET {ALICE}/latest/archive"), Some(&secret), None);
        stream.write_all(asked.as_bytes()).unwrap();
        // All that fits is sent before anything is read.
        thread::sleep(Duration::from_secs(2));
        let read = io::copy(&mut stream, &mut io::sink()).unwrap();
        assert!(read > (FILES * FILE) as u64, "{read} bytes");
        let peak = server.peak_memory();
        assert!(peak < most, "{} MiB", peak >> 20);
    }
}

/// The bucket itself sends what the server would; whoever may not ask the server gets no such place.
#[tokio::test(flavor = "multi_thread")]
async fn an_archive_in_a_bucket_is_fetched_from_there() {
    let bucket = SeaweedFs::shared().await;
    let folder = tempfile::tempdir().unwrap();
    let host = Host::s3(&folder.path().join("home"), &bucket.config());
    let tokens = Tokens::new(folder.path());
    captured(&host, folder.path(), "acme/alice", "first");
    let secret = tokens.add(&host, "acme", "run");
    let server = Served::start(&host, &tokens.path);
    // Nothing is there yet.
    let made = get(&server, "latest/archive", &secret, &[]);
    assert_eq!((made.status, preferences(&made.body)), (200, "first".to_owned()));
    let archive = published(&host);
    let sent = get(&server, "latest/archive", &secret, &[]);
    assert_eq!(sent.status, 307, "{sent:?}");
    // The head is in small letters, and signatures are not.
    let endpoint = bucket.endpoint();
    assert!(sent.header("location").unwrap().starts_with(endpoint), "{sent:?}");
    let location = sent.location.as_deref().unwrap();
    let fetch = |url: &str| {
        let path = url.strip_prefix(endpoint).unwrap();
        let address = endpoint.strip_prefix("http://").unwrap();
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let asked =
            request(&format!("GET {path}"), None, None).replace("Host: here", &format!("Host: {address}"));
        stream.write_all(asked.as_bytes()).unwrap();
        answer(&mut stream)
    };
    let fetched = fetch(location);
    assert_eq!(fetched.status, 200, "{fetched:?}");
    assert_eq!(digest(&fetched.body), archive["archive_sha256"].as_str().unwrap());
    assert!(location.contains("X-Amz-Expires=300"), "{location}");
    // The place is of this one archive.
    let key = archive["archive"].as_str().unwrap();
    let other = fetch(&location.replace(key, &key.replace(".tar.zst", ".manifest.json")));
    assert_eq!(other.status, 403, "{other:?}");
    let streamed = get(&server, "latest/archive?stream=true", &secret, &[]);
    assert!(streamed.status == 200 && streamed.body == fetched.body);
    // What the bucket would not answer as the server does, the server answers itself.
    let head = server.call(&format!("HEAD {ALICE}/latest/archive"), Some(&secret), None);
    assert_eq!((head.status, head.body.len()), (200, 0), "{head:?}");
    assert_eq!(head.header("content-length"), Some(fetched.body.len().to_string().as_str()));
    let tag = head.header("etag").unwrap();
    let part = |tag: &str| {
        get(&server, "latest/archive", &secret, &["Range: bytes=0-9", &format!("If-Range: {tag}")])
    };
    let (same, other) = (part(tag), part("\"other\""));
    assert!(same.status == 206 && same.body == fetched.body[..10], "{same:?}");
    assert!(other.status == 200 && other.body == fetched.body, "{}", other.status);
    let stranger = tokens.add(&host, "other", "admin");
    get(&server, "latest/archive", &stranger, &[]).refused(403, "denied");
    let reader = tokens.add(&host, "acme", "read");
    get(&server, "latest/archive", &reader, &[]).refused(403, "denied");
}
