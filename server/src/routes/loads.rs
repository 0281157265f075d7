//! `loads` names the snapshot that a browser should start with, and the place of its archive.

use axum::http::Method;
use engine::{
    failure::Failure,
    loads::LoadOptions,
    verbs::load::{LoadOutcome, LoadRequest, LoadedSnapshot},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use store::{
    name::ChromeMajor,
    ops::read::resolve::{InvalidReference, Reference},
};

use crate::{
    call::{Answer, Call, answer},
    route::{Access::Tenant, Route, Sent::Document},
    schemas::{received, sent},
    tokens::Role,
};

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[Route::new(
    "load",
    Method::POST,
    profile!("/loads"),
    Tenant(Role::Run),
    "Tells which snapshot a browser should start with; if none can be used, why it starts with an empty profile",
    Document(sent::<LoadAnswer>),
    |call| Box::pin(load(call)),
)
.body(received::<LoadBody>)];

/// For which browser a profile is loaded.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoadBody {
    /// The major version of the Chrome that will use it.
    pub chrome_major_version: ChromeMajor,
    /// The whole version, as `131.0.6778.85`: a newer one's snapshot is refused.
    pub chrome_version: Option<String>,
    /// The first digits of the snapshot's id, or a tag; the current one if it is not said.
    pub sha_prefix: Option<String>,
    /// If there is no snapshot of this Chrome yet, start from this older one's.
    pub upgrade_from: Option<ChromeMajor>,
    /// Fail instead of starting with an empty profile.
    #[serde(default)]
    pub require: bool,
}

/// The snapshot that a browser should start with, and the place of its archive.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LoadAnswer {
    /// The snapshot, or the reason why there is none.
    #[serde(flatten)]
    pub load: LoadOutcome,
    /// The path at this server from which the archive is fetched; none if the browser starts with an empty
    /// profile.
    pub archive: Option<String>,
}

async fn load(call: Call) -> Answer {
    let body: LoadBody = call.document()?;
    let reference = body.sha_prefix.as_deref().map(str::parse::<Reference>).transpose();
    let reference = reference.map_err(|error: InvalidReference| Failure::usage(error.to_string()))?;
    let request = LoadRequest {
        profile: call.profile()?,
        chrome_major: body.chrome_major_version,
        // Whichever is current is not looked for among all.
        reference: reference.filter(|reference| !reference.is_current()),
        options: LoadOptions {
            chrome_version: body.chrome_version,
            upgrade_from: body.upgrade_from,
            require: body.require,
            normalise_exit: false,
        },
    };
    let room = call.server.loads.take_for(&request.profile.tenant)?;
    let load = call.engine.judged_load(&request).await;
    drop(room);
    let load = load?;
    let archive = load.snapshot.as_ref().map(archive);
    answer(&LoadAnswer { load, archive })
}

fn archive(snapshot: &LoadedSnapshot) -> String {
    let LoadedSnapshot { lineage, sha256_prefix, .. } = snapshot;
    format!(
        "/v1/profile-snapshots/{}/{}/{sha256_prefix}/archive?chrome_major_version={}",
        lineage.tenant_id, lineage.profile_id, lineage.chrome_major_version
    )
}
