//! Reads and writes entity tags, and finds out the form of `If-Match` that a server wants.
//!
//! A server that compares the header as it stands answers 412 to the other form, although
//! the version is the right one. Until a form is known to work, such a 412 is checked: if
//! the object still carries the tag that was sent, the same bytes go out once more in the
//! other form. That cannot apply a write twice, because the first delivery, had it been
//! applied, would have changed the tag that the second is conditioned on. And where the
//! second is refused too, the answer is ambiguous rather than a definite mismatch.

use std::{
    future::Future,
    sync::atomic::{AtomicU8, Ordering},
};

use super::{config::IfMatch, errors::Asked};
use crate::bucket::{BucketError, Result, Version};

const UNKNOWN: u8 = 0;
const QUOTED: u8 = 1;
const UNQUOTED: u8 = 2;

/// The form this server is known to honour, if it is known.
#[derive(Debug)]
pub(super) struct Form(AtomicU8);

impl Form {
    pub(super) fn new(known: Option<IfMatch>) -> Self {
        Self(AtomicU8::new(match known {
            None => UNKNOWN,
            Some(IfMatch::Quoted) => QUOTED,
            Some(IfMatch::Unquoted) => UNQUOTED,
        }))
    }

    pub(super) fn known(&self) -> Option<IfMatch> {
        match self.0.load(Ordering::Relaxed) {
            QUOTED => Some(IfMatch::Quoted),
            UNQUOTED => Some(IfMatch::Unquoted),
            _ => None,
        }
    }

    /// Sends a request that is conditioned on `version`, in the form the server honours.
    /// `holds` asks for the present version.
    pub(super) async fn send<T, F, H>(
        &self,
        asked: &Asked,
        version: &Version,
        send: impl Fn(String) -> F,
        holds: impl FnOnce() -> H,
    ) -> Result<T>
    where
        F: Future<Output = Result<T>>,
        H: Future<Output = Result<Option<Version>>>,
    {
        if let Some(form) = self.known() {
            return send(header(version, form)).await;
        }
        let first = send(header(version, IfMatch::Quoted)).await;
        let Err(BucketError::VersionMismatch { .. }) = first else {
            if first.is_ok() {
                self.learn(IfMatch::Quoted);
            }
            return first;
        };
        if holds().await?.as_ref() != Some(version) {
            return first;
        }
        match send(header(version, IfMatch::Unquoted)).await {
            Err(BucketError::VersionMismatch { .. }) => {
                Err(asked.unavailable("it refused a version that it held a moment ago".into()))
            }
            second => {
                if second.is_ok() {
                    self.learn(IfMatch::Unquoted);
                }
                second
            }
        }
    }

    pub(super) fn learn(&self, form: IfMatch) {
        let learnt = match form {
            IfMatch::Quoted => QUOTED,
            IfMatch::Unquoted => UNQUOTED,
        };
        // The first to answer is right: a server accepts one form only, or both.
        let _ = self.0.compare_exchange(UNKNOWN, learnt, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// A tag as the server wrote it, without its quotes: servers differ in where they put them.
pub(super) fn version(tag: &str) -> Version {
    Version::new(tag.trim_matches('"'))
}

pub(super) fn header(version: &Version, form: IfMatch) -> String {
    match form {
        IfMatch::Quoted => format!("\"{version}\""),
        IfMatch::Unquoted => version.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::{cell::RefCell, future::ready};

    use crate::bucket::s3::errors::Condition;

    /// A server with one object, which honours `form` only.
    struct Server {
        form: IfMatch,
        holds: RefCell<&'static str>,
        asked: RefCell<Vec<String>>,
    }

    impl Server {
        fn new(form: IfMatch) -> Self {
            Self { form, holds: RefCell::new("one"), asked: RefCell::default() }
        }

        fn replace(&self, tag: String) -> Result<()> {
            let fits = tag == header(&version(*self.holds.borrow()), self.form);
            self.asked.borrow_mut().push(tag);
            if !fits {
                return Err(BucketError::VersionMismatch { key: "k".into() });
            }
            self.holds.replace("two");
            Ok(())
        }

        async fn send(&self, form: &Form, expected: &str) -> Result<()> {
            let asked = Asked {
                key: "k".into(),
                store: "s".into(),
                bucket: "b".into(),
                condition: Condition::Matches,
            };
            let holds = || ready(Ok(Some(version(*self.holds.borrow()))));
            form.send(&asked, &version(expected), |tag| ready(self.replace(tag)), holds).await
        }
    }

    #[tokio::test]
    async fn the_form_is_found_out_once() {
        for (honoured, requests) in [(IfMatch::Quoted, 1), (IfMatch::Unquoted, 2)] {
            let (server, form) = (Server::new(honoured), Form::new(None));
            server.send(&form, "one").await.unwrap();
            assert_eq!(form.known(), Some(honoured));
            assert_eq!(server.asked.borrow().len(), requests);
            server.asked.borrow_mut().clear();
            server.send(&form, "two").await.unwrap();
            assert_eq!(*server.asked.borrow(), [header(&version("two"), honoured)]);
        }
    }

    #[tokio::test]
    async fn a_true_mismatch_is_not_sent_again() {
        for honoured in [IfMatch::Quoted, IfMatch::Unquoted] {
            let (server, form) = (Server::new(honoured), Form::new(None));
            let answer = server.send(&form, "stale").await;
            assert!(matches!(answer, Err(BucketError::VersionMismatch { .. })), "{answer:?}");
            assert_eq!(form.known(), None);
            assert_eq!(server.asked.borrow().len(), 1);
        }
    }

    /// The first delivery arrives late, after the look and before the second.
    #[tokio::test]
    async fn a_refusal_that_may_be_our_own_doing_is_ambiguous() {
        let form = Form::new(None);
        let asked =
            Asked { key: "k".into(), store: "s".into(), bucket: "b".into(), condition: Condition::Matches };
        let refuse = |_| ready(Err::<(), _>(BucketError::VersionMismatch { key: "k".into() }));
        let answer = form.send(&asked, &version("one"), refuse, || ready(Ok(Some(version("one"))))).await;
        assert!(answer.unwrap_err().is_ambiguous());
        assert_eq!(form.known(), None);
    }

    #[test]
    fn quotes_are_no_part_of_a_version() {
        assert_eq!(version("\"abc-2\""), version("abc-2"));
        assert_eq!(header(&version("\"abc\""), IfMatch::Quoted), "\"abc\"");
        assert_eq!(header(&version("\"abc\""), IfMatch::Unquoted), "abc");
    }
}
