//! `KeptVerdicts` are the verdicts of probes in a configuration, so that a store is not probed at every open.
//!
//! A verdict is about one server, reached in one way. So each names the place where the server was reached
//! and the server's own name, and counts only for a handle that finds the same. Both are known from the
//! answer that brought the configuration: comparing them costs no request. A change of neither (another
//! server behind the same name that does not tell its own) goes unnoticed until `doctor` probes again.
//!
//! A list, because hosts may reach one store by different names, and a cluster that is being
//! upgraded answers under two: each is tried once, instead of each undoing the other's entry.

use serde_json::Value;

use super::Verdict;
use crate::bucket::ServerFacts;

/// Enough for every way to a store and some generations of its server.
const MOST: usize = 16;

/// Verdicts as a configuration holds them, the newest last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KeptVerdicts(Vec<Value>);

impl KeptVerdicts {
    /// The verdicts in `kept`; none if it is no list of verdicts, which costs a probe and nothing else.
    pub fn from_json(kept: &Value) -> Self {
        Self(kept.as_array().cloned().unwrap_or_default())
    }

    /// With entries that this code does not understand left as they were.
    pub fn into_json(self) -> Value {
        Value::Array(self.0)
    }

    /// The newest good verdict on this server.
    pub fn on(&self, server: &ServerFacts) -> Option<Verdict> {
        let is_whole = |verdict: &Verdict| verdict.ok && verdict.checksum.is_some();
        self.verdicts().rev().find(|verdict| is_whole(verdict) && verdict.is_on(server))
    }

    /// With `verdict` instead of an older one on the same server.
    pub fn with(mut self, verdict: &Verdict) -> Self {
        self.0.retain(|kept| {
            parse(kept).is_none_or(|kept| {
                (kept.place, kept.server) != (verdict.place.clone(), verdict.server.clone())
            })
        });
        // A verdict is made of texts, numbers and booleans, so it is always valid JSON.
        self.0.push(serde_json::to_value(verdict).unwrap_or_default());
        self.0.drain(..self.0.len().saturating_sub(MOST));
        self
    }

    fn verdicts(&self) -> impl DoubleEndedIterator<Item = Verdict> {
        self.0.iter().filter_map(parse)
    }
}

fn parse(kept: &Value) -> Option<Verdict> {
    serde_json::from_value(kept.clone()).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::bucket::{Checksum, IfMatch};

    fn server(place: &str, name: Option<&str>) -> ServerFacts {
        ServerFacts { place: Some(place.into()), name: name.map(Into::into), if_match: None }
    }

    fn verdict(on: &ServerFacts) -> Verdict {
        Verdict {
            ok: true,
            reasons: Vec::new(),
            conditional_delete: true,
            if_match: IfMatch::Unquoted,
            checksum: Some(Checksum::Crc32c),
            rounds: 24,
            place: on.place.clone(),
            server: on.name.clone(),
        }
    }

    #[test]
    fn a_verdict_counts_for_the_server_it_was_made_on() {
        let (here, upgraded) = (server("s3://b", Some("Server 1")), server("s3://b", Some("Server 2")));
        let kept = KeptVerdicts::default().with(&verdict(&here));
        let kept = KeptVerdicts::from_json(&kept.into_json());
        assert_eq!(kept.on(&here), Some(verdict(&here)));
        for other in [&upgraded, &server("s3://b at http://other", Some("Server 1")), &server("s3://b", None)]
        {
            assert_eq!(kept.on(other), None);
        }
        let both = kept.with(&verdict(&upgraded));
        assert!(both.on(&here).is_some() && both.on(&upgraded).is_some());
        let bad = Verdict { ok: false, ..verdict(&here) };
        assert_eq!(both.with(&bad).on(&here), None);
    }

    /// It was made before probes asked which checksums the server verifies.
    #[test]
    fn a_verdict_without_a_checksum_is_made_again() {
        let here = server("s3://b", None);
        let mut kept = KeptVerdicts::default().with(&verdict(&here)).into_json();
        assert_eq!(kept[0]["checksum"], "crc32c");
        kept[0].as_object_mut().unwrap().remove("checksum");
        let kept = KeptVerdicts::from_json(&kept);
        assert_eq!(kept.on(&here), None);
        assert!(kept.with(&verdict(&here)).on(&here).is_some());
    }

    #[test]
    fn a_newer_verdict_takes_the_place_of_the_older_and_the_oldest_go() {
        let mut kept = KeptVerdicts::default();
        for number in 0..3 * MOST {
            let on = server("s3://b", Some(&format!("Server {}", number / 2)));
            kept = kept.with(&verdict(&on));
        }
        assert_eq!(kept.0.len(), MOST);
        assert!(kept.on(&server("s3://b", Some("Server 0"))).is_none());
        assert!(kept.on(&server("s3://b", Some("Server 23"))).is_some());
    }

    #[test]
    fn what_a_later_pstore_kept_stays_and_counts_for_nothing() {
        for odd in [json!(null), json!({ "ok": true }), json!("yes")] {
            assert_eq!(KeptVerdicts::from_json(&odd), KeptVerdicts::default());
        }
        let foreign = json!({ "ok": "perhaps" });
        let here = server("s3://b", None);
        let kept = KeptVerdicts::from_json(&json!([foreign])).with(&verdict(&here)).into_json();
        assert_eq!(kept[0], foreign);
        assert!(KeptVerdicts::from_json(&kept).on(&here).is_some());
    }
}
