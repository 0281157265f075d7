//! `containers_snapshot` stores a container, and lets a run go on if that fails.

use std::time::Duration;

use engine::{failure::Failure, names::ActorName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::ErrorKind;
use volumes::{
    container::{
        ContainerSnapshotOutcome, ContainerSnapshotRequest, SnapshotResult, Trigger, goes_on_without,
    },
    docker::is_name,
};

use crate::{
    call::Call,
    containers::{snapshots_name, timestamp},
    page::{self, shortened},
    tool::{Effect, Tool},
};

/// How long a snapshot may take, if nothing is said, and at most.
const TIME_LIMIT_SECONDS: u64 = 60;
const MAX_TIME_LIMIT_SECONDS: u64 = 100;
/// How long it may wait for another snapshot of the container.
const MAX_WAIT_SECONDS: u64 = 60;
/// Both together end before a call over HTTP does, which has two minutes.
const MAX_SECONDS: u64 = 110;
/// A longer description is a mistake: it is stored with the snapshot.
const MAX_DESCRIPTION_BYTES: usize = 4 << 10;
/// So many warnings are told.
const WARNINGS_TOLD: u64 = 10;

/// Which container is stored, and when.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Input {
    /// Its name or id at the Docker daemon.
    container: String,
    /// The name of its snapshots; the container's own if it is not said.
    #[serde(default)]
    name: Option<String>,
    /// Why, in a sentence: it is shown in lists.
    #[serde(default)]
    description: Option<String>,
    /// The moment of the run; `manual` if it is not said.
    #[serde(default)]
    trigger: Moment,
    /// The id of your run, to find its snapshots by.
    #[serde(default)]
    run_id: Option<String>,
    /// How many seconds to wait for another snapshot of the container, from 0 to 60: 0 if it is not said.
    #[serde(default)]
    wait: Option<u64>,
    /// How many seconds it may take, from 1 to 100: 60 if it is not said. Then it is given up, and the container goes on.
    /// With `wait`, 110 at most.
    #[serde(default)]
    time_limit: Option<u64>,
    /// Whether a snapshot that fails is an answer with the outcome `failed`, and no error. If it is not said: no for
    /// `manual`, yes for all other triggers.
    #[serde(default)]
    fail_open: Option<bool>,
}

/// The moment of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Moment {
    /// Somebody asked for it.
    #[default]
    Manual,
    /// The run begins.
    RunStart,
    /// The run has ended.
    RunEnd,
    /// An action is about to be done.
    BeforeAction,
    /// An action was done.
    AfterAction,
}

impl Moment {
    fn trigger(self) -> Trigger {
        match self {
            Self::Manual => Trigger::Manual,
            Self::RunStart => Trigger::RunStart,
            Self::RunEnd => Trigger::RunEnd,
            Self::BeforeAction => Trigger::BeforeAction,
            Self::AfterAction => Trigger::AfterAction,
        }
    }
}

/// The snapshot, or why there is none.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct Output {
    /// Whether there is a snapshot.
    outcome: SnapshotResult,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// What to do about that.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<&'static str>,
    /// The container.
    container: String,
    /// The name of its snapshots, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    snapshot: Option<String>,
    /// The moment of the run.
    trigger: &'static str,
    /// When it was captured, in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<String>,
    /// The bytes of image and volumes.
    bytes: u64,
    /// Bytes that it added to the store.
    stored_bytes: u64,
    /// How many named volumes it has.
    volumes: u64,
    /// How long the container was paused.
    paused_ms: u64,
    /// How long it took.
    elapsed_ms: u64,
    /// How many older snapshots made room for it.
    removed: u64,
    /// What is not in it, and what else is to be known; 10 at most.
    warnings: Vec<String>,
}

impl Output {
    fn of(outcome: ContainerSnapshotOutcome) -> Self {
        let warnings = outcome.warnings.iter().map(|warning| shortened(warning));
        Self {
            outcome: outcome.outcome,
            next: None,
            problem: None,
            container: shortened(&outcome.container),
            name: outcome.name,
            snapshot: outcome.sha256_prefix,
            trigger: outcome.trigger.word(),
            timestamp: outcome.captured_at_ms.map(timestamp),
            bytes: outcome.uncompressed_size_bytes,
            stored_bytes: outcome.stored_bytes,
            volumes: outcome.volumes.len() as u64,
            paused_ms: outcome.paused_ms,
            elapsed_ms: outcome.elapsed_ms,
            removed: outcome.removed.len() as u64,
            warnings: page::cut(warnings, 0, WARNINGS_TOLD).items,
        }
    }

    /// There is none.
    fn failed(failure: &Failure, request: &ContainerSnapshotRequest) -> Self {
        Self {
            outcome: SnapshotResult::Failed,
            problem: Some(shortened(&failure.message)),
            next: Some(next(failure.kind)),
            container: shortened(&request.container),
            name: request.name.as_ref().map(ToString::to_string),
            snapshot: None,
            trigger: request.trigger.word(),
            timestamp: None,
            bytes: 0,
            stored_bytes: 0,
            volumes: 0,
            paused_ms: 0,
            elapsed_ms: 0,
            removed: 0,
            warnings: Vec::new(),
        }
    }
}

/// What an agent does without a snapshot. The container is as it was: a failure after which it may not be is no answer.
fn next(kind: ErrorKind) -> &'static str {
    match kind {
        // It would fail once more.
        ErrorKind::InvalidInput
        | ErrorKind::NotImplemented
        | ErrorKind::ProfileTooLarge
        | ErrorKind::QuotaExceeded => {
            "there is no snapshot, and the container is as it was: go on without it"
        }
        _ => "there is no snapshot, and the container is as it was: go on without it, or call once more",
    }
}

pub(super) fn tool() -> Tool {
    Tool::new::<Input, Output, _>(
        "containers_snapshot",
        "Store a container",
        "Store a Docker container as it is now: its files, its configuration and its named volumes. It is paused for a moment and \
         goes on. Call it at the moments of a run, with `trigger` and `run_id`: without a snapshot the run goes on.",
        Effect::Stores,
        run,
    )
}

async fn run(call: Call, input: Input) -> Result<Output, Failure> {
    let containers = call.containers()?;
    let (wait, time_limit) = times(input.wait, input.time_limit)?;
    let description = input.description.unwrap_or_default();
    if description.len() > MAX_DESCRIPTION_BYTES {
        return Err(Failure::usage(format!("the description has {} bytes", description.len()))
            .hint(format!("give a sentence, of at most {MAX_DESCRIPTION_BYTES} bytes")));
    }
    let actor = ActorName { run_id: input.run_id.filter(|id| !id.is_empty()), ..ActorName::default() };
    actor.check().map_err(|failure| failure.hint("give a short \"run_id\", such as \"run-7\""))?;
    if !is_name(&input.container) {
        return Err(Failure::usage(format!("{:?} is no name or id of a container", input.container))
            .hint("give as \"container\" a name or an id that the Docker daemon has"));
    }
    let tenant = call.tenant().await?;
    let name = input.name.as_deref().map(|typed| snapshots_name(&tenant, typed)).transpose()?;
    let fail_open = input.fail_open.unwrap_or(input.trigger != Moment::Manual);
    let request = ContainerSnapshotRequest {
        name,
        tenant: Some(tenant.clone()),
        description,
        trigger: input.trigger.trigger(),
        actor,
        wait,
        time_limit: Some(time_limit),
        ..ContainerSnapshotRequest::new(input.container)
    };
    match containers.store(&call.engine, &tenant, request.clone()).await {
        Ok(outcome) => Ok(Output::of(outcome)),
        Err(failure) if fail_open && goes_on_without(&failure) => {
            call.engine.warn(&format!("there is no snapshot of {}: {}", request.container, failure.message));
            Ok(Output::failed(&failure, &request))
        }
        Err(failure) => Err(containers.advised(failure, &tenant)),
    }
}

/// How long to wait for others, and how long the snapshot may take.
fn times(wait: Option<u64>, time_limit: Option<u64>) -> Result<(Duration, Duration), Failure> {
    let wait = wait.unwrap_or(0);
    let limit = time_limit.unwrap_or(TIME_LIMIT_SECONDS.min(MAX_SECONDS.saturating_sub(wait)));
    for (name, value, least, most) in
        [("wait", wait, 0, MAX_WAIT_SECONDS), ("time_limit", limit, 1, MAX_TIME_LIMIT_SECONDS)]
    {
        if !(least..=most).contains(&value) {
            return Err(Failure::usage(format!("{name:?} takes no {value}"))
                .hint(format!("give a {name:?} from {least} to {most} seconds, or none")));
        }
    }
    if wait + limit > MAX_SECONDS {
        return Err(Failure::usage(format!("{wait} s to wait and {limit} s to store are too many"))
            .hint(format!("give a \"wait\" and a \"time_limit\" of {MAX_SECONDS} seconds together")));
    }
    Ok((Duration::from_secs(wait), Duration::from_secs(limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_each_time_is_not_called_again() {
        assert!(next(ErrorKind::LockHeld).ends_with("or call once more"));
        assert!(next(ErrorKind::Unavailable).ends_with("or call once more"));
        assert!(next(ErrorKind::InvalidInput).ends_with("go on without it"));
        assert!(next(ErrorKind::QuotaExceeded).ends_with("go on without it"));
    }

    #[test]
    fn a_call_ends_before_its_client_gives_it_up() {
        let seconds = |wait, limit| times(wait, limit).map(|(wait, limit)| (wait.as_secs(), limit.as_secs()));
        assert_eq!(seconds(None, None).unwrap(), (0, 60));
        assert_eq!(seconds(Some(60), None).unwrap(), (60, 50));
        assert_eq!(seconds(Some(10), Some(100)).unwrap(), (10, 100));
        let wrong = [
            (Some(61), None),
            (None, Some(0)),
            (None, Some(101)),
            (Some(11), Some(100)),
            (Some(u64::MAX), None),
            (None, Some(u64::MAX)),
        ];
        for (wait, limit) in wrong {
            assert!(times(wait, limit).unwrap_err().hint.is_some(), "{wait:?} {limit:?}");
        }
    }
}
