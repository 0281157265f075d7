//! `KeptAnswers` remembers the answers to requests with an `Idempotency-Key`, for a while and within limits.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    body::{Body, Bytes, to_bytes},
    http::{HeaderValue, Response, StatusCode, header},
};
use engine::failure::Failure;
use parking_lot::Mutex;
use store::ErrorKind;

use crate::{delivery::Delivery, problem::Refusal};

/// Names a request, whenever it is sent.
pub(crate) const KEY: &str = "Idempotency-Key";
/// Says that an answer was given before.
const REPLAYED: &str = "idempotency-replayed";
/// How long an answer is remembered.
const KEPT: Duration = Duration::from_secs(3600);
/// A longer answer is not remembered.
const MAX_ANSWER_BYTES: usize = 64 << 10;
/// More than this is not remembered: the oldest answers go.
const MAX_BYTES: usize = 32 << 20;
/// More than this is not remembered of one caller: its oldest answers go.
const MAX_BYTES_OF_ONE: usize = 4 << 20;
/// The memory of each one beside its answer.
const OWN_BYTES: usize = 512;

/// A caller, and its key.
pub(crate) type Name = (String, String);

/// The answers to requests with a key.
#[derive(Debug, Default)]
pub(crate) struct KeptAnswers {
    known: Mutex<Known>,
}

#[derive(Debug, Default)]
struct Known {
    requests: HashMap<Name, Request>,
    /// Those that were answered, the oldest first.
    answered: VecDeque<(Instant, Name)>,
    bytes: usize,
    /// How many of them are of each caller.
    of_callers: HashMap<String, usize>,
}

#[derive(Debug)]
struct Request {
    /// Identifies the request.
    digest: [u8; 32],
    /// None while it is being carried out.
    answer: Option<KnownAnswer>,
    /// Whether it was sent again since it was answered.
    is_repeated: bool,
}

/// An answer that is remembered; only documents are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KnownAnswer {
    status: StatusCode,
    pub(crate) body: Bytes,
}

/// The state of a request that has just been sent.
pub(crate) enum Begun {
    /// Nothing: it is to be carried out.
    New(Ticket),
    /// The earlier answer.
    Known(KnownAnswer),
}

/// Begins a request with this key, which `digest` tells from others.
pub(crate) fn begin(
    replays: &Arc<KeptAnswers>,
    name: Name,
    digest: [u8; 32],
    now: Instant,
) -> Result<Begun, Refusal> {
    let mut known = replays.known.lock();
    known.forget(now);
    match known.requests.get_mut(&name) {
        Some(request) if request.digest != digest => {
            let failure = Failure::usage(format!("this {KEY} was sent with another request"));
            Err(Refusal::new(
                StatusCode::UNPROCESSABLE_ENTITY,
                failure.hint("choose a new one for each request"),
            ))
        }
        Some(Request { answer: Some(answer), is_repeated, .. }) => {
            *is_repeated = true;
            Ok(Begun::Known(answer.clone()))
        }
        Some(Request { answer: None, .. }) => {
            let message = format!("the request with this {KEY} is still being carried out");
            Err(Failure::new(ErrorKind::Conflict, message).hint("send it again later").into())
        }
        None => {
            known.requests.insert(name.clone(), Request { digest, answer: None, is_repeated: false });
            Ok(Begun::New(Ticket { replays: Arc::clone(replays), name: Some(name) }))
        }
    }
}

impl KeptAnswers {
    /// Forgets an answer that is no longer true, unless there is another by now.
    pub(crate) fn forget(&self, name: &Name, answer: &KnownAnswer) {
        self.known.lock().forget_answer(name, answer);
    }

    /// Forgets an answer, unless its caller has asked for it again: then it has it. Whether nobody has it.
    pub(crate) fn forget_unless_repeated(&self, name: &Name, answer: &KnownAnswer) -> bool {
        let mut known = self.known.lock();
        let request = known.requests.get(name).filter(|request| request.answer.as_ref() == Some(answer));
        if request.is_some_and(|request| request.is_repeated) {
            return false;
        }
        known.forget_answer(name, answer);
        true
    }
}

impl Known {
    /// Remembers an answer, and forgets the oldest ones of its caller if they are too much.
    fn remember(&mut self, name: Name, answer: KnownAnswer, now: Instant) {
        let Some(request) = self.requests.get_mut(&name) else { return };
        let (caller, bytes) = (name.0.clone(), answer.body.len() + OWN_BYTES);
        request.answer = Some(answer);
        self.bytes += bytes;
        *self.of_callers.entry(caller.clone()).or_default() += bytes;
        self.answered.push_back((now, name));
        while self.of_callers.get(&caller).is_some_and(|bytes| *bytes > MAX_BYTES_OF_ONE)
            && let Some(oldest) = self.answered.iter().position(|(_, (other, _))| *other == caller)
            && let Some((_, name)) = self.answered.remove(oldest)
        {
            self.remove(&name);
        }
    }

    fn remove(&mut self, name: &Name) {
        let Some(Request { answer: Some(answer), .. }) = self.requests.remove(name) else { return };
        let bytes = answer.body.len() + OWN_BYTES;
        self.bytes -= bytes;
        if let Some(of_caller) = self.of_callers.get_mut(&name.0) {
            *of_caller -= bytes;
            if *of_caller == 0 {
                self.of_callers.remove(&name.0);
            }
        }
    }

    /// Forgets this answer, unless there is another by now.
    fn forget_answer(&mut self, name: &Name, answer: &KnownAnswer) {
        if self.requests.get(name).is_some_and(|request| request.answer.as_ref() == Some(answer)) {
            self.answered.retain(|(_, other)| other != name);
            self.remove(name);
        }
    }

    /// Forgets answers that are too old, and the oldest of those beyond the limits.
    fn forget(&mut self, now: Instant) {
        while let Some((at, _)) = self.answered.front()
            && (now.saturating_duration_since(*at) >= KEPT || self.bytes > MAX_BYTES)
        {
            let Some((_, name)) = self.answered.pop_front() else { break };
            self.remove(&name);
        }
    }
}

/// A request that is being carried out. A failed one is forgotten, so that it can be sent again.
pub(crate) struct Ticket {
    replays: Arc<KeptAnswers>,
    name: Option<Name>,
}

impl Ticket {
    /// Remembers an answer, and gives it on.
    pub(crate) async fn keep(mut self, response: Response<Body>) -> Result<Response<Body>, Refusal> {
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await;
        let body = body.map_err(|error| Failure::internal(format!("the answer broke off: {error}")))?;
        if parts.status.is_success()
            && body.len() <= MAX_ANSWER_BYTES
            && let Some(name) = self.name.take()
        {
            let answer = KnownAnswer { status: parts.status, body: body.clone() };
            if let Some(delivery) = parts.extensions.get::<Delivery>() {
                let (replays, name, answer) = (Arc::clone(&self.replays), name.clone(), answer.clone());
                delivery.is_kept(move || replays.forget_unless_repeated(&name, &answer));
            }
            self.replays.known.lock().remember(name, answer, Instant::now());
        }
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(name) = self.name.take() {
            self.replays.known.lock().requests.remove(&name);
        }
    }
}

impl KnownAnswer {
    /// The answer as it is given again.
    pub(crate) fn response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
        response
    }
}

/// Whether it was given before, so that nothing was done for it now.
pub(crate) fn is_replay(response: &Response<Body>) -> bool {
    response.headers().contains_key(REPLAYED)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use engine::interrupt::Interrupt;

    use super::*;
    use crate::{delivery::REPEAT_TIME, unfinished_work::UnfinishedWork};

    fn replayed(status: StatusCode, body: Bytes) -> Response<Body> {
        KnownAnswer { status, body }.response()
    }

    fn name(key: &str) -> Name {
        ("token ci".to_owned(), key.to_owned())
    }

    fn ticket(replays: &Arc<KeptAnswers>, key: &str) -> Ticket {
        match begin(replays, name(key), [1; 32], Instant::now()) {
            Ok(Begun::New(ticket)) => ticket,
            _ => panic!("{key} is known"),
        }
    }

    #[tokio::test]
    async fn what_was_answered_is_answered_again_for_a_while() {
        let replays = Arc::new(KeptAnswers::default());
        let begun = ticket(&replays, "a");
        let again = |digest: u8, now| begin(&replays, name("a"), [digest; 32], now);
        assert_eq!(again(1, Instant::now()).err().unwrap().status, 409);
        begun.keep(replayed(StatusCode::OK, Bytes::from_static(b"{}"))).await.unwrap();
        assert!(matches!(again(1, Instant::now()), Ok(Begun::Known(known)) if known.status == 200));
        assert_eq!(again(2, Instant::now()).err().unwrap().status, 422);
        let other = begin(&replays, ("token other".to_owned(), "a".to_owned()), [2; 32], Instant::now());
        assert!(matches!(other, Ok(Begun::New(_))));
        assert!(matches!(again(2, Instant::now() + KEPT), Ok(Begun::New(_))));
    }

    #[tokio::test]
    async fn what_came_to_nothing_can_be_sent_again() {
        let replays = Arc::new(KeptAnswers::default());
        drop(ticket(&replays, "a"));
        ticket(&replays, "a").keep(replayed(StatusCode::CONFLICT, Bytes::new())).await.unwrap();
        drop(ticket(&replays, "a"));
        assert!(replays.known.lock().requests.is_empty());
    }

    #[tokio::test]
    async fn no_more_is_remembered_than_there_is_room_for() {
        let replays = Arc::new(KeptAnswers::default());
        let body = Bytes::from(vec![b' '; MAX_ANSWER_BYTES]);
        for at in 0..2000 {
            let response = replayed(StatusCode::OK, body.clone());
            ticket(&replays, &at.to_string()).keep(response).await.unwrap();
        }
        let known = replays.known.lock();
        assert!(known.bytes <= MAX_BYTES_OF_ONE, "{}", known.bytes);
        assert_eq!(known.requests.len(), known.answered.len());
        assert!(known.requests.contains_key(&name("1999")) && !known.requests.contains_key(&name("0")));
    }

    #[tokio::test]
    async fn one_caller_takes_no_room_from_another() {
        let replays = Arc::new(KeptAnswers::default());
        let body = Bytes::from(vec![b' '; MAX_ANSWER_BYTES]);
        ticket(&replays, "kept").keep(replayed(StatusCode::OK, body.clone())).await.unwrap();
        let fill = async |caller: usize| {
            for at in 0..100 {
                let name = (format!("token {caller}"), at.to_string());
                let Ok(Begun::New(ticket)) = begin(&replays, name, [1; 32], Instant::now()) else { panic!() };
                ticket.keep(replayed(StatusCode::OK, body.clone())).await.unwrap();
            }
        };
        fill(0).await;
        assert!(replays.known.lock().requests.contains_key(&name("kept")));
        // All of them together have not more than there is.
        for caller in 1..20 {
            fill(caller).await;
        }
        let known = replays.known.lock();
        assert!(known.bytes <= MAX_BYTES + MAX_ANSWER_BYTES + OWN_BYTES, "{}", known.bytes);
        assert_eq!(known.bytes, known.of_callers.values().sum::<usize>());
        assert!(!known.requests.contains_key(&name("kept")));
    }

    #[tokio::test]
    async fn an_answer_that_is_no_longer_true_is_forgotten_once() {
        let replays = Arc::new(KeptAnswers::default());
        let known = |body: &'static str| KnownAnswer {
            status: StatusCode::OK,
            body: Bytes::from_static(body.as_bytes()),
        };
        ticket(&replays, "a").keep(known("1").response()).await.unwrap();
        replays.forget(&name("a"), &known("1"));
        ticket(&replays, "a").keep(known("2").response()).await.unwrap();
        replays.forget(&name("a"), &known("1"));
        let again = begin(&replays, name("a"), [1; 32], Instant::now());
        assert!(matches!(again, Ok(Begun::Known(answer)) if answer == known("2")));
    }

    /// Sends a request with a key, whose answer is lost; it is sent again after so long, if at all. Whether it is undone.
    async fn is_undone(again: Option<Duration>) -> bool {
        let (work, replays) = (UnfinishedWork::default(), Arc::new(KeptAnswers::default()));
        let sent = || begin(&replays, name("lost"), [7; 32], Instant::now()).unwrap();
        let Begun::New(ticket) = sent() else { panic!("it was never sent") };
        let is_undone = Arc::new(AtomicBool::new(false));
        let undone = Arc::clone(&is_undone);
        let undoing = async move { undone.store(true, Ordering::SeqCst) };
        let mut response = Response::new(Body::from("{}"));
        response.extensions_mut().insert(Delivery::new(work.begin(), Interrupt::new(), undoing));
        drop(ticket.keep(response).await.unwrap());
        if let Some(again) = again {
            tokio::time::sleep(again).await;
            assert_eq!(matches!(sent(), Begun::Known(_)), again < REPEAT_TIME);
        }
        work.all_ended().await;
        is_undone.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn a_caller_with_a_key_may_ask_again_for_an_answer_that_was_lost() {
        tokio::time::pause();
        assert!(is_undone(None).await);
        assert!(!is_undone(Some(REPEAT_TIME / 2)).await);
        assert!(is_undone(Some(REPEAT_TIME * 2)).await);
    }
}
