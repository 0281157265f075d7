//! `uploads` makes archives that callers send the next snapshots of profiles.

use axum::http::Method;
use engine::{
    Engine,
    failure::Failure,
    interrupt::Interrupt,
    verbs::import::{ImportOutcome, ImportRequest, ImportSource},
};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{
    ErrorKind,
    id::{Nonce, Sha256},
    name::{ChromeMajor, ProfileName},
};

use crate::{
    call::{Answer, Call, IF_MATCH, LEASE, answer},
    problem::Refusal,
    received_file::ReceivedFile,
    route::{Access::Tenant, Route, Sent::Document},
    schemas::{received, sent},
    tokens::Role,
};

/// An archive of files that cannot be compressed is a little longer than they are.
const OVERHEAD_BYTES: u64 = 64 << 20;

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[Route::new(
    "upload",
    Method::POST,
    profile!("/uploads"),
    Tenant(Role::Run),
    "Makes an archive (tar in zstd) the current snapshot, after it was examined",
    Document(sent::<ImportOutcome>),
    |call| Box::pin(upload(call)),
)
.query(received::<UploadQuery>)
.headers(&[
    (
        LEASE,
        "The token of the profile's lock. Who sends none needs the role `operate`, and nobody may hold the lock.",
    ),
    IF_MATCH,
])
.archive()
.told()];

/// The query of an upload.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct UploadQuery {
    /// The major version of the Chrome that wrote the profile.
    pub chrome_major_version: ChromeMajor,
    /// The SHA-256 of the archive: if another arrives, nothing is stored.
    pub sha256: Sha256,
}

async fn upload(call: Call) -> Answer {
    let query: UploadQuery = call.query()?;
    let lock_token = lease(&call)?;
    if lock_token.is_none() {
        call.require_role(Role::Operate, "an upload without a lease")?;
    }
    let (profile, expected) = (call.profile()?, call.if_match()?);
    if call.server.stopping.is_raised() {
        return Err(Failure::new(ErrorKind::Unavailable, "the server stops").into());
    }
    let room = call.server.uploads.take_for(&profile.tenant)?;
    let request = ImportRequest {
        chrome_major: Some(query.chrome_major_version),
        lock_token,
        goes_back: expected.is_some(),
        only_from: expected,
        actor: call.actor(),
        ..ImportRequest::new(ImportSource::Stream, profile)
    };
    // Who may not do it need not send it; and what is current now is what the archive follows.
    let current = call.engine.may_import(&request).await.map_err(|failure| call.unmatched(failure))?;
    let request = ImportRequest { only_from: Some(current), ..request };
    let file = arrived(&call, &request.profile).await?;
    if file.sha256 != query.sha256 {
        let message = format!("the archive that arrived has the SHA-256 {}", file.sha256);
        let failure = Failure::new(ErrorKind::IntegrityFailed, message);
        return Err(failure.hint("send it again; nothing was stored").into());
    }
    // All of it is here: it is stored, even if its caller goes away now or the server is told to stop.
    let engine = Engine { interrupt: Interrupt::new(), ..call.engine.clone() };
    let outcome = engine.import_stream(&request, Box::new(file.open()?)).await;
    drop((file, room));
    answer(&outcome.map_err(|failure| call.unmatched(failure))?)
}

/// The archive, if it is not longer than a profile of the tenant may be.
async fn arrived(call: &Call, profile: &ProfileName) -> Result<ReceivedFile, Refusal> {
    let body = call.arriving.lock().take();
    let body = body.ok_or_else(|| Failure::internal("the route takes no archive"))?;
    let most = call.engine.settings.tenant(&profile.tenant).max_profile_bytes.saturating_add(OVERHEAD_BYTES);
    ReceivedFile::receive(body, most, &call.engine.archive_scratch()).await
}

fn lease(call: &Call) -> Result<Option<Nonce>, Failure> {
    let token = call.header(LEASE)?.map(str::parse).transpose();
    token.map_err(|error: store::id::InvalidId| Failure::usage(format!("{LEASE}: {error}")))
}
