//! Prints one file of the current snapshot of `acme/alice`. Only the chunks of the file are fetched.
//!
//!     cargo run -p pstore-store --example read_one_file -- file:///tmp/store Default/Preferences

use std::io::Write;

use store::Store;

#[tokio::main]
async fn main() -> store::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some(url), Some(path)) = (arguments.next(), arguments.next()) else {
        eprintln!("usage: read_one_file URL PATH");
        std::process::exit(2);
    };
    let alice = Store::open(&url).await?.profile("acme/alice", 131).await?;
    let bytes = alice.read(path).await?;
    std::io::stdout().write_all(&bytes).expect("stdout takes the file");
    Ok(())
}
