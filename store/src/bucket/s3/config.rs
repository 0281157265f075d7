//! `S3Config` says how an S3 bucket is opened. Pure values: nothing here reads the environment.

use std::{fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::checksum::Checksum;
use crate::bucket::{Prefix, RetryPolicy};

/// How a server wants the entity tag of an `If-Match` written.
///
/// The standard says quoted. Ceph's gateway compares the header as it stands with a tag
/// that has no quotes, so there only the unquoted form ever matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum IfMatch {
    /// With the quotes that the standard asks for.
    Quoted,
    /// Without quotes, as some servers want it.
    Unquoted,
}

/// Keys given by value instead of found in the environment.
#[derive(Clone, PartialEq, Eq)]
pub struct S3Credentials {
    /// The public half.
    pub access_key_id: String,
    /// The secret half.
    pub secret_access_key: String,
    /// The session token of credentials that expire.
    pub session_token: Option<String>,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Credentials").field("access_key_id", &self.access_key_id).finish_non_exhaustive()
    }
}

/// The settings that a URL leaves open.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct S3Overrides {
    /// The server's address, if it is not Amazon's.
    pub endpoint: Option<String>,
    /// The region that requests are signed for.
    pub region: Option<String>,
    /// Without it: path style exactly when there is an endpoint.
    pub path_style: Option<bool>,
    /// Without any, the usual places are searched.
    pub credentials: Option<S3Credentials>,
    /// How the server wants `If-Match`; without it, the first replace that is refused tells.
    pub if_match: Option<IfMatch>,
    /// Whether the server deletes on the condition of a version.
    pub conditional_delete: bool,
    /// How long a single part of a large object is sent again.
    pub part_patience: Option<RetryPolicy>,
    /// Speaks HTTP alone, and looks for no authorities of certificates: without any the SDK's client cannot be made.
    pub is_plain: bool,
}

/// Everything that can be set about an S3 bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct S3Config {
    /// The bucket's name.
    pub bucket: String,
    /// All keys live below it.
    pub prefix: Prefix,
    /// Without it: AWS, in the region.
    pub endpoint: Option<String>,
    /// Without it: the region of the AWS configuration, else `us-east-1`.
    pub region: Option<String>,
    /// The bucket as the first segment of the path instead of a part of the host name.
    pub path_style: bool,
    /// Without it the form is found out at the first replace that is refused.
    pub if_match: Option<IfMatch>,
    /// The checksum that this server is known to verify; without it none is sent until a verdict tells.
    pub checksum: Option<Checksum>,
    /// Whether this server is known to honour `If-Match` on DELETE. One that ignores it
    /// would delete any version, so without that knowledge none is sent.
    pub conditional_delete: bool,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// For a request without a body; one with a body gets more, by its length. A server
    /// may keep the loser of a contended key waiting for seconds.
    pub operation_timeout: Duration,
    /// A creation longer than this goes up in parts.
    pub multipart_threshold_bytes: u64,
    /// How long each of those parts is, but for the last.
    pub part_bytes: u64,
    /// How long a single part is sent again.
    pub part_patience: RetryPolicy,
    /// Entries per page of a listing; without it the server chooses, mostly 1000.
    pub page_size: Option<u16>,
    /// Without them: the AWS chain of environment, files and instance metadata.
    pub credentials: Option<S3Credentials>,
    /// Speaks HTTP alone, and looks for no authorities of certificates.
    pub is_plain: bool,
}

/// Why a text is no S3 URL.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not of the form s3://bucket or s3://bucket/prefix: {reason}")]
pub struct InvalidS3Url {
    url: String,
    reason: String,
}

impl S3Config {
    /// A bucket with all defaults.
    pub fn new(bucket: impl Into<String>, prefix: Prefix) -> Self {
        Self {
            bucket: bucket.into(),
            prefix,
            endpoint: None,
            region: None,
            path_style: false,
            if_match: None,
            checksum: None,
            conditional_delete: false,
            connect_timeout: Duration::from_secs(5),
            operation_timeout: Duration::from_secs(30),
            multipart_threshold_bytes: 64 << 20,
            part_bytes: 16 << 20,
            part_patience: RetryPolicy::default(),
            page_size: None,
            credentials: None,
            is_plain: false,
        }
    }

    /// Parses `s3://bucket/prefix`; the slash at the end of the prefix may be missing.
    pub fn from_url(url: &str, overrides: S3Overrides) -> Result<Self, InvalidS3Url> {
        let invalid = |reason: String| InvalidS3Url { url: url.to_owned(), reason };
        let rest = url.strip_prefix("s3://").ok_or_else(|| invalid("it does not start so".into()))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if !is_bucket_name(bucket) {
            return Err(invalid(format!("{bucket:?} is no bucket name")));
        }
        let prefix = match prefix.trim_end_matches('/') {
            "" => Prefix::root(),
            prefix => Prefix::new(format!("{prefix}/")).map_err(|error| invalid(error.to_string()))?,
        };
        Ok(Self::new(bucket, prefix).with(overrides))
    }

    /// The same bucket, with the settings that a URL leaves open.
    pub fn with(self, overrides: S3Overrides) -> Self {
        Self {
            path_style: overrides.path_style.unwrap_or(overrides.endpoint.is_some()),
            endpoint: overrides.endpoint,
            region: overrides.region,
            credentials: overrides.credentials,
            if_match: overrides.if_match,
            conditional_delete: overrides.conditional_delete,
            part_patience: overrides.part_patience.unwrap_or(self.part_patience),
            is_plain: overrides.is_plain,
            ..self
        }
    }

    /// The endpoint without a login, for messages and documents.
    pub fn shown_endpoint(&self) -> Option<String> {
        self.endpoint.as_deref().map(without_login)
    }

    /// How people name the bucket.
    pub fn url(&self) -> String {
        format!("s3://{}/{}", self.bucket, self.prefix)
    }
}

/// A URL without the part between its scheme and an `@`: a password may hold any character.
pub(super) fn without_login(url: &str) -> String {
    match url.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.rsplit_once('@')?))) {
        Some((scheme, (_, host))) => format!("{scheme}://{host}"),
        None => url.to_owned(),
    }
}

/// Wider than AWS allows today, because servers of others allow more.
fn is_bucket_name(text: &str) -> bool {
    (1..=255).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
        && text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<S3Config, InvalidS3Url> {
        S3Config::from_url(url, S3Overrides::default())
    }

    #[test]
    fn a_url_names_bucket_and_prefix() {
        for (url, bucket, prefix) in [
            ("s3://b", "b", ""),
            ("s3://b/", "b", ""),
            ("s3://my.bucket/a", "my.bucket", "a/"),
            ("s3://b/a/b/", "b", "a/b/"),
        ] {
            let config = parse(url).unwrap();
            assert_eq!((config.bucket.as_str(), config.prefix.as_str()), (bucket, prefix), "{url}");
        }
        for bad in [
            "",
            "s3:/b",
            "s3://",
            "s3:///a",
            "s3://b//a",
            "s3://b/../a",
            "s3://b?x=1",
            "s3://b/a b",
            "http://b",
        ] {
            parse(bad).unwrap_err();
        }
    }

    #[test]
    fn an_endpoint_means_path_style_unless_said_otherwise() {
        let endpoint = Some("http://127.0.0.1:9000".to_owned());
        let overrides = S3Overrides { endpoint, ..S3Overrides::default() };
        assert!(S3Config::from_url("s3://b", overrides.clone()).unwrap().path_style);
        assert!(!parse("s3://b").unwrap().path_style);
        let overrides = S3Overrides { path_style: Some(false), ..overrides };
        assert!(!S3Config::from_url("s3://b", overrides).unwrap().path_style);
    }

    #[test]
    fn a_login_in_an_endpoint_is_not_shown() {
        for (endpoint, shown) in [
            ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
            ("https://me:hush@host/", "https://host/"),
            ("https://me:hu/s@h@host", "https://host"),
        ] {
            let overrides = S3Overrides { endpoint: Some(endpoint.into()), ..S3Overrides::default() };
            let config = S3Config::from_url("s3://b", overrides).unwrap();
            assert_eq!(config.shown_endpoint().unwrap(), shown);
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let credentials = S3Credentials {
            access_key_id: "id".into(),
            secret_access_key: "hush".into(),
            session_token: Some("hush".into()),
        };
        assert!(!format!("{credentials:?}").contains("hush"));
    }
}
