//! `projects` lists the saved states of projects, and saves projects of the server's host.
//!
//! A project file names commands, which run as the server's user. So no caller sends one: the server's operator puts each into
//! the directory of its tenant, and a caller of that tenant says when it is saved.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use axum::http::Method;
use engine::{Engine, failure::Failure};
use schemars::JsonSchema;
use serde::Deserialize;
use store::{ErrorKind, name::ProfileName};
use volumes::project::{
    file::Project,
    list::{self, ProjectListOutcome},
    metadata::Reason,
    save::{self, SaveOutcome, SaveRequest},
};

use crate::{
    call::{Answer, Call, answer},
    route::{Access::Tenant, Route, Sent::Document},
    schemas::{received, sent},
    tokens::Role,
};

/// How long a save may wait for another save or restore of the project.
const MAX_WAIT_SECONDS: u64 = 60;

/// The routes of this area.
pub(super) static ROUTES: &[Route] = &[
    Route::new(
        "list_project_snapshots",
        Method::GET,
        "/v1/project-snapshots/{tenant_id}/{profile_id}",
        Tenant(Role::Read),
        "Lists the saved states of a project",
        Document(sent::<ProjectListOutcome>),
        |call| Box::pin(list(call)),
    ),
    Route::new(
        "save_project",
        Method::POST,
        "/v1/project-snapshots/{tenant_id}/{profile_id}",
        Tenant(Role::Run),
        "Saves a project of the server's host whose file is in the directory that the server was given",
        Document(sent::<SaveOutcome>),
        |call| Box::pin(save(call)),
    )
    .told()
    .long()
    .body(received::<ProjectSaveBody>),
];

/// Why a project is saved.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProjectSaveBody {
    /// Why: `manual` if it is not said. `before-restore` is said by restores alone.
    #[serde(default = "manual")]
    pub reason: Reason,
    /// Remarks to find it by.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// How many seconds to wait for another save or restore of the project, from 0 to 60; 0 if it is not said.
    #[serde(default)]
    pub wait: u64,
}

fn manual() -> Reason {
    Reason::Manual
}

async fn list(call: Call) -> Answer {
    let name = call.profile()?;
    let listed = list::states(&call.engine, &name).await?;
    if listed.snapshots.is_empty() {
        let message = format!("there is no saved state of a project {name}");
        return Err(Failure::new(ErrorKind::NotFound, message).into());
    }
    answer(&listed)
}

async fn save(call: Call) -> Answer {
    let body: ProjectSaveBody = call.document()?;
    let Some(folder) = call.server.projects.clone() else {
        let failure = Failure::new(ErrorKind::NotFound, "this server saves no projects");
        return Err(failure.hint("its operator starts it with --projects DIRECTORY").into());
    };
    if body.reason == Reason::BeforeRestore {
        return Err(Failure::usage("before-restore is the reason of restores alone").into());
    }
    if body.wait > MAX_WAIT_SECONDS {
        return Err(Failure::usage(format!("wait takes a number from 0 to {MAX_WAIT_SECONDS}")).into());
    }
    if call.server.stopping.is_raised() {
        return Err(Failure::new(ErrorKind::Unavailable, "the server stops").into());
    }
    let name = call.profile()?;
    let room = call.server.saving.take_for(&name.tenant)?;
    let request = SaveRequest {
        file: file_of(&folder, &name)?,
        reason: body.reason,
        labels: body.labels.into_iter().collect(),
        actor: call.actor(),
        wait: Duration::from_secs(body.wait),
        docker_host: None,
        no_links: true,
    };
    // It is brought to its end though the server is told to stop meanwhile. When the time for that is over, services go on.
    let engine = Engine { interrupt: call.server.ending.clone(), ..call.engine.clone() };
    let outcome = Box::pin(save::save(&engine, &request)).await;
    drop(room);
    answer(&outcome?)
}

/// The file of a project, which must be that project's.
fn file_of(folder: &Path, name: &ProfileName) -> Result<PathBuf, Failure> {
    let file = folder.join(name.tenant.as_str()).join(format!("{}.toml", name.profile));
    let lacking = || Failure::new(ErrorKind::NotFound, format!("this server has no project {name}"));
    if !file.is_file() {
        return Err(lacking());
    }
    match Project::read(&file)?.name == *name {
        true => Ok(file),
        false => Err(lacking().hint("`name` in the file of it says another one")),
    }
}
