//! Sets up the SDK's client so that each request is sent exactly once.

use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_sdk_s3::{
    Client,
    config::{
        Builder, Credentials, Region, RequestChecksumCalculation, ResponseChecksumValidation,
        StalledStreamProtectionConfig, retry::RetryConfig, timeout::TimeoutConfig,
    },
};

use super::{
    config::S3Config,
    headers::{RequestName, ServerName},
};

/// A transfer that moves nothing for this long is given up.
const STALL_GRACE: Duration = Duration::from_secs(20);

/// Bytes per second of the slowest uplink worth waiting for.
const SLOWEST_BYTES_PER_SECOND: u64 = 64 << 10;

/// The client, and the endpoint if it is not AWS: the environment may name one too.
pub(super) async fn connect(config: &S3Config, server: ServerName) -> (Client, Option<String>) {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(config.connect_timeout)
        .operation_attempt_timeout(config.operation_timeout)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .retry_config(RetryConfig::disabled())
        .timeout_config(timeouts)
        .stalled_stream_protection(
            StalledStreamProtectionConfig::enabled().grace_period(STALL_GRACE).build(),
        );
    if let Some(region) = &config.region {
        loader = loader.region(Region::new(region.clone()));
    }
    if let Some(keys) = &config.credentials {
        loader = loader.credentials_provider(Credentials::new(
            &keys.access_key_id,
            &keys.secret_access_key,
            keys.session_token.clone(),
            None,
            "given",
        ));
    }
    if let Some(endpoint) = &config.endpoint {
        loader = loader.endpoint_url(endpoint);
    }
    if config.is_plain {
        loader = loader.http_client(aws_smithy_http_client::Builder::new().build_http());
    }
    let shared = loader.load().await;
    let mut builder = Builder::from(&shared)
        .force_path_style(config.path_style)
        // Those that the SDK makes by itself are trailers, which are unknown to many S3-alikes.
        // We send our own, in a header, where the server is known to check it.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
        .interceptor(server)
        .interceptor(RequestName);
    if shared.region().is_none() {
        builder = builder.region(Region::new("us-east-1"));
    }
    (Client::from_conf(builder.build()), shared.endpoint_url().map(str::to_owned))
}

/// Settings for one request that carries `len` bytes.
pub(super) fn patience(config: &S3Config, len: u64) -> Builder {
    let transfer = Duration::from_secs(len / SLOWEST_BYTES_PER_SECOND);
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(config.connect_timeout)
        .operation_attempt_timeout(config.operation_timeout + transfer);
    Builder::new().timeout_config(timeouts.build())
}
