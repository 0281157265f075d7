//! `words` lists the values that labels can have: the contract's words, and those of pstore's own metrics.

use store::observer::EvictionReason;

use crate::outcome::LoadResult;

pub(super) const CAPTURE: &[&str] = &["success", "skipped", "failed"];
pub(super) const LOAD: &[&str] =
    &["success", "fresh_fallback", "integrity_failed", "sha_mismatch", "version_mismatch", "too_large"];
pub(super) const ACQUIRE: &[&str] = &["acquired", "forced_expired", "conflict_409"];
pub(super) const EVICT: &[&str] = &["ttl_expired", "operator_force"];
pub(super) const MODE: &[&str] = &["cold", "hot"];
pub(super) const HELD_BACK: &[&str] = &["shrunk", "logged_out", "unjudged", "damaged", "fallback"];
pub(super) const MOUNT: &[&str] = &["success", "fallback", "failed"];
pub(super) const GC: &[&str] = &["success", "failed"];
pub(super) const VERB: &[&str] = &["get", "get_range", "create", "replace", "list", "delete", "delete_if"];
pub(super) const REQUEST_OUTCOME: &[&str] =
    &["ok", "not_found", "conflict", "denied", "unavailable", "error"];
pub(super) const VERSIONS: &[&str] = &[env!("CARGO_PKG_VERSION")];

/// The contract's word for how a load ended. One of a profile without a snapshot ended as it should. A description
/// that this pstore does not read is of another version.
pub(super) fn load(outcome: LoadResult) -> &'static str {
    match outcome {
        LoadResult::Success | LoadResult::NoPriorState => "success",
        LoadResult::FreshFallback => "fresh_fallback",
        LoadResult::IntegrityFailed => "integrity_failed",
        LoadResult::ShaMismatch => "sha_mismatch",
        LoadResult::UnsupportedVersion | LoadResult::VersionMismatch => "version_mismatch",
        LoadResult::TooLarge => "too_large",
    }
}

/// The contract's word for why a holder lost its lock; none if it knows none.
pub(super) fn eviction(reason: EvictionReason) -> Option<&'static str> {
    match reason {
        EvictionReason::TtlExpired | EvictionReason::OperatorForce => Some(reason.as_str()),
        EvictionReason::HolderDead => None,
    }
}

/// The label of a reason for which a snapshot was held back.
pub(super) fn held_back(word: &str) -> &'static str {
    match word {
        "shrunk" => "shrunk",
        "logged out" => "logged_out",
        "damaged" => "damaged",
        "fallback" => "fallback",
        _ => "unjudged",
    }
}

#[cfg(test)]
mod tests {
    use store::bucket::{RequestOutcome, Verb};

    use super::*;
    use crate::observer::CaptureResult;

    #[test]
    fn every_word_of_an_enum_is_the_value_of_a_label() {
        use CaptureResult::{Failed, Skipped, Success};
        assert_eq!([Success, Skipped, Failed].map(CaptureResult::as_str), *CAPTURE);
        assert_eq!(Verb::ALL.map(Verb::as_str), *VERB);
        assert_eq!(RequestOutcome::ALL.map(RequestOutcome::as_str), *REQUEST_OUTCOME);
        for reason in [EvictionReason::TtlExpired, EvictionReason::OperatorForce] {
            assert!(EVICT.contains(&eviction(reason).unwrap()));
        }
        for word in ["shrunk", "logged out", "damaged", "fallback", "unjudged", "another"] {
            assert!(HELD_BACK.contains(&held_back(word)));
        }
    }
}
