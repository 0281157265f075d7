//! `overview-scale` measures the page of a large store: how soon its first view is answered, and how much memory the server takes.
//!
//! `overview-scale TENANTS PROFILES SNAPSHOTS DIRECTORY` makes up a store with so many tenants, so many profiles of each
//! and so many snapshots of each, unless the directory has one. It starts a server that knows nothing of it, waits until
//! that has read everything, and starts another that finds the first one's cache.

use std::{
    env,
    path::Path,
    time::{Duration, Instant},
};

use tests::{
    binary::Host,
    many_profiles::{self, Many},
    served::{Served, Tokens},
};

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [tenants, profiles, snapshots, directory] = &arguments[..] else {
        panic!("overview-scale TENANTS PROFILES SNAPSHOTS DIRECTORY");
    };
    let number = |text: &String| text.parse::<u64>().expect("a number");
    let many = Many { tenants: number(tenants), profiles: number(profiles), snapshots: number(snapshots) };
    let root = Path::new(directory);
    let store = root.join("store");
    if !store.exists() {
        let began = Instant::now();
        many_profiles::make(&store, many).await;
        eprintln!("made in {:.1} s", began.elapsed().as_secs_f64());
    }
    let host = Host::local(&root.join("home"), &store);
    let tokens = Tokens::new(root);
    let secret = tokens.add(&host, "*", "read");
    let first = Served::start(&host, &tokens.path);
    let began = Instant::now();
    while ask(&first, &secret, "/v1/profiles?limit=1").1["complete"] != true {
        assert!(began.elapsed() < Duration::from_secs(600), "it takes too long");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!("without a cache: complete after {:.1} s", began.elapsed().as_secs_f64());
    // A summary is left in the cache as soon as its tenant was read.
    tokio::time::sleep(Duration::from_secs(2)).await;
    println!("memory then: {} MiB", first.peak_memory() >> 20);
    drop(first);
    let second = Served::start(&host, &tokens.path);
    let (took, page) = ask(&second, &secret, "/v1/profiles?attention=true");
    assert_eq!(page["complete"], true);
    println!(
        "with a cache: first view of {} profiles and {} snapshots after {} ms, {} need somebody",
        page["profiles"],
        page["snapshots"],
        took.as_millis(),
        page["attention"]["any"]
    );
    for path in
        ["/v1/profiles?skip=2500", "/v1/profiles?search=tenant-042/", "/v1/locks", "/v1/usage?days=90"]
    {
        let mut slowest = Duration::ZERO;
        for _ in 0..20 {
            slowest = slowest.max(ask(&second, &secret, path).0);
        }
        println!("{path}: at most {} ms in 20", slowest.as_millis());
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    println!("memory: {} MiB", second.peak_memory() >> 20);
}

fn ask(server: &Served, secret: &str, path: &str) -> (Duration, serde_json::Value) {
    let began = Instant::now();
    let reply = server.call(&format!("GET {path}"), Some(secret), None);
    (began.elapsed(), reply.expect(200))
}
