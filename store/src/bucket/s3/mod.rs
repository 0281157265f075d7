//! `S3Bucket` is a bucket on an S3 server.
//!
//! Each call is one request, sent once (the exceptions: an object sent in parts, and the
//! first replaces on a server whose way with entity tags is not known yet). The SDK's own
//! retries are off; see the header of [`crate::bucket`] for why.

mod checksum;
mod client;
mod config;
mod entity_tag;
mod errors;
mod headers;
mod listing;
mod multipart;
mod settings;

pub use checksum::Checksum;
pub use config::{IfMatch, InvalidS3Url, S3Config, S3Credentials, S3Overrides};
pub use settings::BucketSettings;

use std::{
    io,
    ops::Range,
    path::Path,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use async_trait::async_trait;
use aws_sdk_s3::{
    Client,
    presigning::PresigningConfig,
    primitives::{ByteStream, Length},
};
use bytes::{Bytes, BytesMut};

use self::{
    entity_tag::Form,
    errors::{Asked, Condition},
    headers::{AnswerDate, ServerName},
};
use super::{
    Body, Bucket, BucketError, Deleted, Depth, Key, Object, Page, Prefix, Result, ServerFacts, Stamp,
    Verdict, Version, Write,
};

/// Above this the signature leaves the body out: hashing a pack for it costs more than
/// the rest of the request. A checksum goes with it instead, where the server checks one.
const SIGNED_MAX_BYTES: u64 = 1 << 20;

/// Objects below a prefix of an S3 bucket.
#[derive(Debug)]
pub struct S3Bucket {
    client: Client,
    config: S3Config,
    /// The address that requests go to, after the URL and the AWS configuration were joined.
    place: String,
    form: Form,
    checksum: OnceLock<Checksum>,
    conditional_delete: AtomicBool,
    server: ServerName,
}

impl S3Bucket {
    /// Makes no request; a bucket that does not exist shows at the first one.
    pub async fn open(config: S3Config) -> Self {
        let server = ServerName::default();
        let (client, endpoint) = client::connect(&config, server.clone()).await;
        let place = match endpoint {
            Some(endpoint) => {
                let endpoint = config::without_login(&endpoint);
                format!("s3://{} at {}", config.bucket, endpoint.trim_end_matches('/'))
            }
            None => format!("s3://{}", config.bucket),
        };
        let form = Form::new(config.if_match);
        let conditional_delete = AtomicBool::new(config.conditional_delete);
        let checksum = config.checksum.map_or_else(OnceLock::new, OnceLock::from);
        Self { client, place, form, checksum, conditional_delete, server, config }
    }

    fn name(&self, key: &Key) -> String {
        format!("{}{key}", self.config.prefix)
    }

    fn asked(&self, key: &Key, condition: Condition) -> Asked {
        self.asked_about(key.as_str(), condition)
    }

    fn asked_about(&self, key: &str, condition: Condition) -> Asked {
        Asked { key: key.to_owned(), store: self.describe(), bucket: self.config.bucket.clone(), condition }
    }

    /// The version at the key, if there is an object.
    async fn head(&self, key: &Key) -> Result<Option<Version>> {
        let asked = self.asked(key, Condition::None);
        let answer = self.client.head_object().bucket(&self.config.bucket).key(self.name(key)).send().await;
        match answer.map_err(|error| asked.failed(error)) {
            Ok(head) => Ok(Some(entity_tag::version(head.e_tag().unwrap_or_default()))),
            Err(BucketError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn checksum(&self) -> Checksum {
        self.checksum.get().copied().unwrap_or(Checksum::Unchecked)
    }

    async fn put_once(&self, key: &Key, body: Body, if_match: Option<String>) -> Result<Version> {
        let checksum = self.checksum();
        let sum = checksum.of_part(&body, 0..body.len()).await?;
        self.put_with(key, body, if_match, (checksum, sum)).await
    }

    async fn put_with(
        &self,
        key: &Key,
        body: Body,
        if_match: Option<String>,
        (checksum, sum): (Checksum, Option<String>),
    ) -> Result<Version> {
        let condition = if if_match.is_some() { Condition::Matches } else { Condition::Absent };
        let asked = self.asked(key, condition);
        let len = body.len();
        let request = self
            .client
            .put_object()
            .bucket(&self.config.bucket)
            .key(self.name(key))
            .set_if_none_match(if_match.is_none().then(|| "*".into()))
            .set_if_match(if_match)
            .set_checksum_crc32_c(sum.clone().filter(|_| checksum == Checksum::Crc32c))
            .set_content_md5(sum.filter(|_| checksum == Checksum::ContentMd5))
            .body(stream(body).await?)
            .customize()
            .config_override(client::patience(&self.config, len));
        let request = if len > SIGNED_MAX_BYTES { request.disable_payload_signing() } else { request };
        let answer = request.send().await.map_err(|error| asked.failed(error))?;
        let tag = answer.e_tag().ok_or_else(|| asked.unavailable("the object got no entity tag".into()))?;
        Ok(entity_tag::version(tag))
    }

    async fn delete_once(&self, key: &Key, if_match: Option<String>) -> Result<()> {
        let condition = if if_match.is_some() { Condition::Matches } else { Condition::None };
        let asked = self.asked(key, condition);
        let request = self.client.delete_object().bucket(&self.config.bucket).key(self.name(key));
        request.set_if_match(if_match).send().await.map_err(|error| asked.failed(error))?;
        Ok(())
    }
}

#[async_trait]
impl Bucket for S3Bucket {
    fn describe(&self) -> String {
        match self.config.shown_endpoint() {
            Some(endpoint) => format!("{} at {endpoint}", self.config.url()),
            None => self.config.url(),
        }
    }

    fn server(&self) -> ServerFacts {
        ServerFacts { place: Some(self.place.clone()), name: self.server.get(), if_match: self.form.known() }
    }

    fn trust(&self, verdict: &Verdict) {
        self.form.learn(verdict.if_match);
        if let Some(checksum) = verdict.checksum {
            self.checksum.get_or_init(|| checksum);
        }
        self.conditional_delete.fetch_or(verdict.conditional_delete, Ordering::Relaxed);
    }

    async fn checks(&self, key: &Key, checksum: Checksum) -> Result<bool> {
        let body = Bytes::from(key.to_string());
        let wrong = (checksum, checksum.of(b"something else"));
        match self.put_with(key, body.clone().into(), None, wrong).await {
            Err(error) if errors::tells_of_damage(&error) => {}
            Err(error) if error.is_retryable() => return Err(error),
            _ => return Ok(false),
        }
        let right = (checksum, checksum.of(&body));
        match self.put_with(key, body.into(), None, right).await {
            Err(error) if error.is_retryable() && !errors::tells_of_damage(&error) => Err(error),
            answer => Ok(answer.is_ok()),
        }
    }

    async fn link(&self, key: &Key, lifetime: Duration) -> Result<Option<String>> {
        let asked = self.asked(key, Condition::None);
        let terms = PresigningConfig::expires_in(lifetime)
            .map_err(|error| asked.rejected(format!("no URL can live so long: {error}")))?;
        let request = self.client.get_object().bucket(&self.config.bucket).key(self.name(key));
        let signed = request.presigned(terms).await.map_err(|error| asked.failed(error))?;
        Ok(Some(signed.uri().to_owned()))
    }

    async fn get(&self, key: &Key, max_bytes: u64) -> Result<Object> {
        let asked = self.asked(key, Condition::None);
        let date = AnswerDate::default();
        let request = self.client.get_object().bucket(&self.config.bucket).key(self.name(key));
        let answer = request
            .customize()
            .interceptor(date.clone())
            .send()
            .await
            .map_err(|error| asked.failed(error))?;
        let tag = answer.e_tag().ok_or_else(|| asked.rejected("the object has no entity tag".into()))?;
        let version = entity_tag::version(tag);
        let stamp = Stamp { modified: headers::time(answer.last_modified()), now: date.get() };
        let too_large = |bytes| {
            let (key, version) = (key.to_string(), version.to_string());
            BucketError::TooLarge { key, bytes, max_bytes, version }
        };
        let told = answer.content_length().and_then(|len| u64::try_from(len).ok()).unwrap_or(0);
        if told > max_bytes {
            return Err(too_large(told));
        }
        let Some(bytes) = collect(&asked, answer.body, told, max_bytes).await? else {
            return Err(too_large(max_bytes.saturating_add(1)));
        };
        Ok(Object { bytes, version, stamp })
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let asked = self.asked(key, Condition::Range(range.clone()));
        let request = self.client.get_object().bucket(&self.config.bucket).key(self.name(key));
        let answer = request
            .range(format!("bytes={}-{}", range.start, range.end - 1))
            .send()
            .await
            .map_err(|error| asked.failed(error))?;
        let length = answer.content_range().and_then(errors::total_length);
        if length.is_none() {
            return Err(asked.rejected("it answered a ranged read with something else".into()));
        }
        let wanted = range.end - range.start;
        let Some(bytes) = collect(&asked, answer.body, wanted, wanted).await? else {
            return Err(asked.rejected(format!("it sent more than the {wanted} bytes that were asked for")));
        };
        let got = bytes.len() as u64;
        if got == wanted {
            return Ok(bytes);
        }
        let actual = length.unwrap_or(range.start + got);
        Err(BucketError::Truncated { key: key.to_string(), actual, start: range.start, end: range.end })
    }

    async fn put(&self, key: &Key, body: Body, write: Write) -> Result<Version> {
        match write {
            Write::Create if body.len() > self.config.multipart_threshold_bytes => {
                self.create_in_parts(key, body).await
            }
            Write::Create => self.put_once(key, body, None).await,
            Write::Replace(version) => {
                let asked = self.asked(key, Condition::Matches);
                let send = |tag| self.put_once(key, body.clone(), Some(tag));
                self.form.send(&asked, &version, send, || self.head(key)).await
            }
        }
    }

    async fn list(&self, prefix: &Prefix, depth: Depth, cursor: Option<String>) -> Result<Page> {
        let asked = self.asked_about(prefix.as_str(), Condition::None);
        let delimiter = (depth == Depth::Children).then(|| "/".to_owned());
        let output = self
            .client
            .list_objects_v2()
            .bucket(&self.config.bucket)
            .prefix(format!("{}{prefix}", self.config.prefix))
            .set_delimiter(delimiter)
            .set_continuation_token(cursor)
            .set_max_keys(self.config.page_size.map(Into::into))
            .send()
            .await
            .map_err(|error| asked.failed(error))?;
        self.page(&asked, output)
    }

    async fn delete(&self, key: &Key) -> Result<()> {
        match self.delete_once(key, None).await {
            Err(BucketError::NotFound { .. }) => Ok(()),
            answer => answer,
        }
    }

    async fn delete_if(&self, key: &Key, version: &Version) -> Result<Deleted> {
        if !self.conditional_delete.load(Ordering::Relaxed) {
            return Ok(Deleted::Unsupported);
        }
        let asked = self.asked(key, Condition::Matches);
        let send = |tag| self.delete_once(key, Some(tag));
        self.form.send(&asked, version, send, || self.head(key)).await?;
        Ok(Deleted::Yes)
    }
}

async fn stream(body: Body) -> Result<ByteStream> {
    match body {
        Body::Bytes(bytes) => Ok(ByteStream::from(bytes)),
        Body::File { path, len } => ByteStream::read_from()
            .path(&path)
            .length(Length::Exact(len))
            .build()
            .await
            .map_err(|error| unreadable(&path, error)),
    }
}

fn unreadable(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> BucketError {
    BucketError::Io { path: path.display().to_string(), source: io::Error::other(error) }
}

/// All of a body of about `expected` bytes; `None` if it has more than `max_bytes`, even if the
/// server had announced less. Bytes that end early are an error of the connection, not a short object.
async fn collect(
    asked: &Asked,
    mut body: ByteStream,
    expected: u64,
    max_bytes: u64,
) -> Result<Option<Bytes>> {
    let mut all = BytesMut::new();
    while let Some(part) = body.next().await {
        let part = part.map_err(|error| asked.unavailable(errors::told(&error)))?;
        let len = (all.len() + part.len()) as u64;
        if len > max_bytes {
            return Ok(None);
        }
        if all.is_empty() && len == expected {
            return Ok(Some(part));
        }
        if all.is_empty() {
            all.reserve(expected.max(len) as usize);
        }
        all.extend_from_slice(&part);
    }
    Ok(Some(all.freeze()))
}
