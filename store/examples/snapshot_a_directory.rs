//! Stores a directory as a snapshot of `acme/alice`, and lists the snapshots there are.
//!
//!     cargo run -p pstore-store --example snapshot_a_directory -- file:///tmp/store ./profile

use store::Store;

#[tokio::main]
async fn main() -> store::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(directory)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: snapshot_a_directory URL DIRECTORY");
        std::process::exit(2);
    };
    let store = Store::open(&url).await?;
    store.init(Default::default()).await?;
    let alice = store.profile("acme/alice", 131).await?;
    let stored = alice.snapshot(directory).label("made-by", "an example").await?;
    println!("{} files, {} bytes new", stored.counts.files, stored.counts.new_bytes);
    for record in alice.list().await? {
        println!("{}  {} bytes", record.sha256_prefix(), record.uncompressed_size_bytes);
    }
    Ok(())
}
