//! `attention` decides which profiles need somebody, and why.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::facts::ProfileFacts;

/// Why a profile needs somebody, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AttentionKind {
    /// Bytes of the current snapshot are lost, a database in it is damaged, or nobody knows which one is current.
    Damaged,
    /// A capture after the current snapshot was held back.
    HeldBack,
    /// The current snapshot comes from a run that had started with an empty profile.
    Fallback,
    /// Something that is expected of the profile is missing.
    LoggedOut,
    /// An expected cookie lapses soon, or has lapsed.
    Lapsing,
    /// The current snapshot is old.
    Stale,
    /// Newer snapshots are stored, and an older one is current.
    Behind,
}

impl AttentionKind {
    /// All of them, the most urgent first.
    pub const ALL: [Self; 7] = [
        Self::Damaged,
        Self::HeldBack,
        Self::Fallback,
        Self::LoggedOut,
        Self::Lapsing,
        Self::Stale,
        Self::Behind,
    ];
}

/// When a profile counts as stale, and a login as lapsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionTerms {
    /// By this host's clock.
    pub now_ms: u64,
    /// The age of a current snapshot that is stale.
    pub stale_after_ms: u64,
    /// How long before its end a login is lapsing.
    pub lapsing_within_ms: u64,
}

/// A reason why a profile needs somebody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Attention {
    /// Why, in a word.
    pub kind: AttentionKind,
    /// Why, in a sentence.
    pub detail: String,
    /// The snapshot that it is about.
    pub sha256_prefix: Option<String>,
    /// When it was captured, or when a login lapses.
    pub at_ms: Option<u64>,
}

/// How many profiles there are with each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[allow(missing_docs)]
pub struct AttentionTally {
    /// How many profiles have at least one reason.
    pub any: u64,
    pub damaged: u64,
    pub held_back: u64,
    pub fallback: u64,
    pub logged_out: u64,
    pub lapsing: u64,
    pub stale: u64,
    pub behind: u64,
}

impl AttentionTally {
    pub(super) fn count(&mut self, kinds: &[AttentionKind]) {
        self.any += u64::from(!kinds.is_empty());
        for kind in kinds {
            *match kind {
                AttentionKind::Damaged => &mut self.damaged,
                AttentionKind::HeldBack => &mut self.held_back,
                AttentionKind::Fallback => &mut self.fallback,
                AttentionKind::LoggedOut => &mut self.logged_out,
                AttentionKind::Lapsing => &mut self.lapsing,
                AttentionKind::Stale => &mut self.stale,
                AttentionKind::Behind => &mut self.behind,
            } += 1;
        }
    }
}

impl ProfileFacts {
    /// Why it needs somebody, the most urgent reason first.
    pub(super) fn kinds(&self, terms: &AttentionTerms) -> Vec<AttentionKind> {
        AttentionKind::ALL.into_iter().filter(|kind| self.has(*kind, terms)).collect()
    }

    fn has(&self, kind: AttentionKind, terms: &AttentionTerms) -> bool {
        let current = self.current.as_ref();
        let notable = current.and_then(|current| current.notable.as_deref());
        match kind {
            AttentionKind::Damaged => {
                self.lost.is_some() || notable.is_some_and(|notable| notable.damage.is_some())
            }
            AttentionKind::HeldBack => self.held_back.is_some(),
            AttentionKind::Fallback => notable.is_some_and(|notable| notable.fallback.is_some()),
            AttentionKind::LoggedOut => notable.is_some_and(|notable| notable.missing.is_some()),
            AttentionKind::Lapsing => notable
                .and_then(|notable| notable.first_lapse.as_ref())
                .is_some_and(|(_, at_ms)| *at_ms <= terms.now_ms.saturating_add(terms.lapsing_within_ms)),
            AttentionKind::Stale => current.is_some_and(|current| {
                terms.now_ms.saturating_sub(current.captured_at_ms) >= terms.stale_after_ms
            }),
            AttentionKind::Behind => self.newer > 0,
        }
    }

    /// The reasons, for people.
    pub(super) fn attention(&self, terms: &AttentionTerms) -> Vec<Attention> {
        self.kinds(terms).into_iter().map(|kind| self.told(kind, terms)).collect()
    }

    fn told(&self, kind: AttentionKind, terms: &AttentionTerms) -> Attention {
        let current = self.current.as_ref();
        let notable = current.and_then(|current| current.notable.as_deref()).cloned().unwrap_or_default();
        let of_current = |detail: String| Attention {
            kind,
            detail,
            sha256_prefix: current.map(|current| current.sha256_prefix.to_string()),
            at_ms: current.map(|current| current.captured_at_ms),
        };
        let or = |text: Option<Box<str>>| text.map(String::from).unwrap_or_default();
        match (kind, &self.held_back) {
            (AttentionKind::HeldBack, Some(held)) => Attention {
                kind,
                detail: held.reason.to_string(),
                sha256_prefix: Some(held.sha256_prefix.to_string()),
                at_ms: Some(held.captured_at_ms),
            },
            (AttentionKind::HeldBack, None) => of_current(String::new()),
            (AttentionKind::Damaged, _) => {
                of_current(self.lost.clone().unwrap_or_else(|| or(notable.damage)))
            }
            (AttentionKind::Fallback, _) => of_current(or(notable.fallback)),
            (AttentionKind::LoggedOut, _) => of_current(or(notable.missing)),
            (AttentionKind::Lapsing, _) => {
                let (cookie, at_ms) = notable.first_lapse.unwrap_or_default();
                let word = if at_ms <= terms.now_ms { "has lapsed" } else { "lapses" };
                Attention { at_ms: Some(at_ms), ..of_current(format!("cookie {cookie} {word}")) }
            }
            (AttentionKind::Stale, _) => of_current("the current snapshot is old".to_owned()),
            (AttentionKind::Behind, _) => of_current(match self.newer {
                1 => "a newer snapshot is stored and not current".to_owned(),
                newer => format!("{newer} newer snapshots are stored and not current"),
            }),
        }
    }
}
