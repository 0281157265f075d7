//! `daemon` mounts a profile, and answers the commits, unmounts and questions that are sent to the mount.

use std::{sync::Arc, time::Instant};

use capture::load::Outcome;
use serde_json::{Value, json};
use tokio::runtime::Handle;

use super::super::{
    commit::{self, CommitOutcome, CommitRequest},
    unmount::{self, UnmountOutcome},
};
use crate::{
    Engine,
    failure::Failure,
    mount::{
        DestinationRequest, MountRequest, Notes,
        call::{self, Call},
        checkpoint,
        serving::{EndedBy, Serving},
    },
    observer::{LoadWay, MountResult, Mounted, Observation},
};

/// Opens a profile and mounts it; from then on requests are answered by this process.
#[crate::boxed(?Send)]
pub async fn begin(
    engine: &Engine,
    request: &MountRequest,
    ended_by: EndedBy,
) -> Result<(Arc<Serving>, Notes), Failure> {
    let mounting = Serving::begin(engine, request, ended_by, respond);
    let ended = |(_, notes): &(Arc<Serving>, Notes)| {
        (notes.outcome.into(), (notes.outcome == Outcome::Success).then_some(LoadWay::Mount))
    };
    let began = Instant::now();
    let mounted = engine.observe_load(&request.source.profile, mounting, ended).await;
    let outcome = match &mounted {
        Ok((_, notes)) if notes.outcome.is_fallback() => MountResult::Fallback,
        Ok(_) => MountResult::Success,
        Err(_) => MountResult::Failed,
    };
    let ready = mounted.is_ok().then(|| began.elapsed());
    engine.observer.observe(&Observation::Mounted(Mounted { outcome, ready }));
    mounted
}

fn respond(serving: &Arc<Serving>, runtime: &Handle, request: Value) -> Value {
    runtime.block_on(answer(serving, request))
}

async fn answer(serving: &Arc<Serving>, request: Value) -> Value {
    if request["status"] == json!(true) {
        return json!({ "document": serving.mount.status().await });
    }
    let Ok(call) = serde_json::from_value::<Call>(request) else {
        return json!(call::unknown().document());
    };
    if call.verb == checkpoint::EVENTS_VERB {
        return call::sent(&checkpoint::serve_events(serving, call));
    }
    let _turn = serving.turn().await;
    match call.verb.as_str() {
        checkpoint::VERB => call::sent(&checkpoint::serve(serving, call).await),
        commit::VERB => call::sent(&committed(serving, call).await),
        unmount::VERB => call::sent(&unmounted(serving, call).await),
        _ => json!(call::unknown().document()),
    }
}

async fn committed(serving: &Arc<Serving>, call: Call) -> Result<CommitOutcome, Failure> {
    let CommitRequest { other, force, capture, .. } = call::understood(call)?;
    commit::serve(serving, &capture, DestinationRequest { other: other.as_ref(), force }).await
}

async fn unmounted(serving: &Arc<Serving>, call: Call) -> Result<UnmountOutcome, Failure> {
    unmount::serve(serving, &call::understood(call)?).await
}
