//! `server` starts real S3 servers on 127.0.0.1, and ends them with the test that started them.

mod rclone;
mod seaweedfs;

pub use rclone::Rclone;
pub use seaweedfs::SeaweedFs;

use std::{
    env,
    net::TcpListener,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use store::bucket::{Bucket, Key, Prefix, S3Bucket, S3Config, S3Credentials, Write};

/// How long a server may take until it stores and returns an object.
const PATIENCE: Duration = Duration::from_secs(30);

/// A program that `scripts/setup-test-servers` installs. Its absence fails the test: a
/// test that silently does not run proves nothing.
pub fn program(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let tools =
        env::var_os("PSTORE_TEST_TOOLS").map_or_else(|| root.join("target/test-tools"), PathBuf::from);
    let path = root.join(tools).join("venv/bin").join(name);
    assert!(path.exists(), "{} is missing: run scripts/setup-test-servers", path.display());
    path
}

/// A port that is free now, and so is the one 10000 above it, where SeaweedFS listens too. Both lie below
/// those that the kernel gives to connections: a server that is started again finds them free.
fn free_port() -> u16 {
    for _ in 0..1000 {
        let port = 10_000 + (getrandom::u32().unwrap() % 12_000) as u16;
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if free(port) && free(port + 10_000) {
            return port;
        }
    }
    panic!("no free port found");
}

/// A bucket of a local server, as path style needs it.
pub fn config(endpoint: &str, bucket: &str, access_key: &str, secret_key: &str) -> S3Config {
    S3Config {
        endpoint: Some(endpoint.to_owned()),
        region: Some("us-east-1".into()),
        path_style: true,
        credentials: Some(S3Credentials {
            access_key_id: access_key.into(),
            secret_access_key: secret_key.into(),
            session_token: None,
        }),
        ..S3Config::new(bucket, Prefix::root())
    }
}

/// Makes the bucket; fine if it is there.
pub async fn create_bucket(config: &S3Config) -> Result<(), String> {
    use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
    let keys = config.credentials.as_ref().unwrap();
    let sdk = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(config.endpoint.as_ref().unwrap())
        .force_path_style(true)
        .credentials_provider(Credentials::new(
            &keys.access_key_id,
            &keys.secret_access_key,
            None,
            None,
            "test",
        ))
        .build();
    let client = aws_sdk_s3::Client::from_conf(sdk);
    match client
        .create_bucket()
        .bucket(&config.bucket)
        .send()
        .await
        .map_err(|error| error.into_service_error())
    {
        Ok(_) => Ok(()),
        Err(error) if error.is_bucket_already_owned_by_you() || error.is_bucket_already_exists() => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}

/// Waits until the server stores an object and returns it.
async fn ready(config: &S3Config, still_runs: impl Fn() -> bool) -> Result<(), String> {
    let bucket = S3Bucket::open(config.clone()).await;
    let deadline = Instant::now() + PATIENCE;
    let mut last = String::new();
    while Instant::now() < deadline {
        if !still_runs() {
            return Err("the server ended".into());
        }
        let key = Key::new(format!("ready/{}", crate::unique_name())).unwrap();
        let tried = async {
            create_bucket(config).await?;
            bucket
                .put(&key, b"ready".to_vec().into(), Write::Create)
                .await
                .map_err(|error| error.to_string())?;
            bucket.get(&key, u64::MAX).await.map_err(|error| error.to_string())
        };
        match tried.await {
            Ok(object) if &object.bytes[..] == b"ready" => return Ok(()),
            Ok(_) => last = "other bytes came back".into(),
            Err(error) => last = error,
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Err(last)
}
