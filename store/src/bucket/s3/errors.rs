//! Turns the answers of an S3 server and the errors of the SDK into `BucketError`.

use std::ops::Range;

use aws_sdk_s3::{
    config::http::HttpResponse,
    error::{ProvideErrorMetadata, SdkError},
};

use crate::bucket::BucketError;

/// The request, as far as it decides the meaning of an answer.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) key: String,
    pub(super) store: String,
    pub(super) bucket: String,
    pub(super) condition: Condition,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    None,
    Absent,
    Matches,
    Range(Range<u64>),
}

impl Asked {
    pub(super) fn failed<E>(&self, error: SdkError<E, HttpResponse>) -> BucketError
    where
        E: std::error::Error + ProvideErrorMetadata + 'static,
    {
        let SdkError::ServiceError(answer) = &error else {
            // Nothing is known to have arrived, nor not to have.
            let reason = told(&error);
            return match error {
                SdkError::ConstructionFailure(_) => self.rejected(reason),
                _ if lacks_credentials(&reason) => self.denied("no credentials were found".into()),
                _ => self.unavailable(reason),
            };
        };
        let length = answer.raw().headers().get("content-range").and_then(total_length);
        self.answered(answer.raw().status().as_u16(), answer.err().code(), answer.err().message(), length)
    }

    /// `length`: of the whole object, where the answer tells.
    fn answered(
        &self,
        status: u16,
        code: Option<&str>,
        message: Option<&str>,
        length: Option<u64>,
    ) -> BucketError {
        let key = self.key.clone();
        let mut reason = code.map_or_else(|| format!("status {status}"), str::to_owned);
        if let Some(message) = message.filter(|message| !message.is_empty()) {
            reason = format!("{reason}: {message}");
        }
        match (status, &self.condition) {
            (404, _) if code == Some("NoSuchBucket") => {
                self.rejected(format!("the bucket {} does not exist", self.bucket))
            }
            (412, Condition::Absent) => BucketError::AlreadyExists { key },
            (412 | 404, Condition::Matches) => BucketError::VersionMismatch { key },
            (404, _) => BucketError::NotFound { key },
            (409, _) => BucketError::Contended { key },
            (416, Condition::Range(range)) => BucketError::Truncated {
                key,
                // A server that does not tell still tells that it ends before the range.
                actual: length.unwrap_or(range.start),
                start: range.start,
                end: range.end,
            },
            (401 | 403, _) => self.denied(reason),
            (400, _) if matches!(code, Some("ExpiredToken" | "TokenRefreshRequired" | "InvalidToken")) => {
                self.denied(reason)
            }
            (400, _) if code == Some("RequestTimeout") => self.unavailable(reason),
            // It was changed on its way. What it is sent again as is another matter.
            (400, _) if code.is_some_and(|code| DAMAGED.contains(&code)) => self.unavailable(reason),
            // The server does not know the request, so it did nothing.
            (501, _) => self.rejected(reason),
            // An error under 200 comes from completing a multipart upload.
            (200 | 408 | 429 | 500.., _) => self.unavailable(reason),
            (301 | 307 | 308, _) => {
                self.rejected(format!("{reason} (the bucket lives in another region or at another endpoint)"))
            }
            _ => self.rejected(reason),
        }
    }

    pub(super) fn unavailable(&self, reason: String) -> BucketError {
        BucketError::Unavailable { key: self.key.clone(), store: self.store.clone(), reason }
    }

    pub(super) fn rejected(&self, reason: String) -> BucketError {
        BucketError::Rejected { key: self.key.clone(), store: self.store.clone(), reason }
    }

    fn denied(&self, reason: String) -> BucketError {
        BucketError::Denied { key: self.key.clone(), reason }
    }
}

/// Codes by which servers refuse a body that does not match its checksum.
const DAMAGED: [&str; 4] =
    ["BadDigest", "XAmzContentChecksumMismatch", "XAmzContentSHA256Mismatch", "IncompleteBody"];

/// Whether a write was refused because its body had been changed on its way.
pub(super) fn tells_of_damage(error: &BucketError) -> bool {
    let BucketError::Unavailable { reason, .. } = error else { return false };
    DAMAGED.iter().any(|code| reason.starts_with(code))
}

/// An error and all its causes, each in its own words.
pub(super) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The SDK has no public type for this among its failures to dispatch.
fn lacks_credentials(reason: &str) -> bool {
    ["credentials provider", "CredentialsNotLoaded", "loading credentials", "no credentials"]
        .iter()
        .any(|words| reason.contains(words))
}

/// The `7` of `bytes */7` and of `bytes 0-1/7`.
pub(super) fn total_length(content_range: &str) -> Option<u64> {
    content_range.rsplit_once('/')?.1.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(status: u16, code: &str, condition: Condition) -> BucketError {
        let asked = Asked { key: "k".into(), store: "s3://b/".into(), bucket: "b".into(), condition };
        asked.answered(status, Some(code).filter(|code| !code.is_empty()), Some("why"), None)
    }

    #[test]
    fn a_refused_condition_is_told_apart_by_what_was_asked() {
        use Condition::{Absent, Matches, None};
        assert!(matches!(answer(412, "PreconditionFailed", Absent), BucketError::AlreadyExists { .. }));
        assert!(matches!(answer(412, "PreconditionFailed", Matches), BucketError::VersionMismatch { .. }));
        assert!(matches!(answer(404, "NoSuchKey", Matches), BucketError::VersionMismatch { .. }));
        assert!(matches!(answer(404, "NoSuchKey", None), BucketError::NotFound { .. }));
        assert!(matches!(answer(409, "ConditionalRequestConflict", Absent), BucketError::Contended { .. }));
    }

    #[test]
    fn only_an_answer_that_leaves_it_open_is_ambiguous() {
        for (status, code) in [
            (500, "InternalError"),
            (503, "SlowDown"),
            (200, "InternalError"),
            (429, ""),
            (400, "RequestTimeout"),
            (400, "BadDigest"),
        ] {
            assert!(answer(status, code, Condition::Absent).is_ambiguous(), "{status} {code}");
        }
        for (status, code) in [(400, "InvalidRequest"), (403, "AccessDenied"), (501, "NotImplemented")] {
            assert!(!answer(status, code, Condition::Absent).is_ambiguous(), "{status} {code}");
        }
    }

    #[test]
    fn the_message_names_what_a_person_can_change() {
        let text = answer(404, "NoSuchBucket", Condition::Matches).to_string();
        assert!(text.contains("the bucket b does not exist"), "{text}");
        let text = answer(403, "InvalidAccessKeyId", Condition::None).to_string();
        assert!(text.contains("InvalidAccessKeyId: why"), "{text}");
        let text = answer(301, "PermanentRedirect", Condition::None).to_string();
        assert!(text.contains("region"), "{text}");
    }

    #[test]
    fn a_range_past_the_end_is_truncated() {
        let asked = Asked {
            key: "k".into(),
            store: "s".into(),
            bucket: "b".into(),
            condition: Condition::Range(10..20),
        };
        let error = asked.answered(416, None, None, total_length("bytes */7"));
        assert!(matches!(error, BucketError::Truncated { actual: 7, start: 10, end: 20, .. }), "{error:?}");
    }
}
