//! `pointer-flipper` moves a pointer about, as a process of its own, and prints its moves.
//!
//! `pointer-flipper ROUNDS NAME local ROOT`
//! `pointer-flipper ROUNDS NAME s3 ENDPOINT BUCKET PREFIX ACCESS-KEY SECRET-KEY`

use std::{env, path::Path, sync::Arc};

use store::bucket::{Access, Bucket, LocalBucket, Prefix, RetryBucket, RetryPolicy, S3Bucket, S3Config};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (rounds, name, bucket): (_, _, Arc<dyn Bucket>) = match arguments[..] {
        [rounds, name, "local", root] => {
            let bucket = LocalBucket::open(Path::new(root), Access::ReadWrite).expect("the store opens");
            (rounds, name, Arc::new(bucket))
        }
        [rounds, name, "s3", endpoint, bucket, prefix, access, secret] => {
            let prefix = Prefix::new(prefix).expect("a prefix");
            let config = S3Config { prefix, ..tests::server::config(endpoint, bucket, access, secret) };
            let bucket = Arc::new(S3Bucket::open(config).await);
            (rounds, name, Arc::new(RetryBucket::new(bucket, RetryPolicy::default())))
        }
        _ => panic!("see the head of this file"),
    };
    let rounds = rounds.parse().expect("a number");
    for line in tests::chain::move_about(bucket, name, rounds).await {
        println!("{line}");
    }
}
