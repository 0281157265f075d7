//! `all` deletes a profile or a tenant with everything in it.

use store::{
    Error, ErrorKind,
    catalog::{records, rules::Rules, tombstone},
    content::TenantStore,
    error::Needed,
    format::tombstone::Deletion,
    name::{ProfileName, Tenant},
    ops::removal::{self, Left, Order, Survey},
};

use super::{DeleteRequest, DeletionReceipt, Removal, receipt, receipt::Subject};
use crate::{
    Engine,
    failure::Failure,
    host::user,
    location::Purpose,
    text::{reason, size},
};

pub(super) async fn profile(
    engine: &Engine,
    request: &DeleteRequest,
    name: &ProfileName,
) -> Result<DeletionReceipt, Failure> {
    let store = engine.tenant_to_change(&name.tenant).await?;
    let names = [name.clone()];
    let survey = removal::survey(&store, &names).await?;
    let found = tombstone::find(&*store.bucket, name).await?.map(|found| found.tombstone.deletion);
    let subject = Subject::Profile(name.clone());
    if !survey.is_there {
        return match found {
            Some(deletion) => Ok(receipt::of(&subject, Removal::Deleted, &survey, Some(&deletion))),
            None => {
                engine.require_profile(&store, name).await?;
                Err(Failure::new(ErrorKind::NotFound, format!("profile {name} does not exist")))
            }
        };
    }
    if let Some(deletion) = found.as_ref().filter(|_| survey.has_ended()) {
        return Ok(receipt::of(&subject, Removal::Deleted, &survey, Some(deletion)));
    }
    let order = order(engine, request, &survey)?;
    if !request.confirm {
        return Ok(receipt::of(&subject, Removal::Planned, &survey, found.as_ref()));
    }
    let (deletion, left) =
        removal::profile(&store, name, &order, &survey).await.map_err(|error| refused(&subject, error))?;
    Ok(ended(&subject, &survey, &deletion, &left))
}

pub(super) async fn tenant(
    engine: &Engine,
    request: &DeleteRequest,
    tenant: &Tenant,
) -> Result<DeletionReceipt, Failure> {
    let whole = engine.store(Purpose::Change).await?;
    let mut store = engine.tenant_or_tombstone(tenant, Purpose::Change).await?;
    store.config.check_write().map_err(|error| Failure::from(error.of("tenant.json")))?;
    let survey = removal::survey(&store, &records::profiles(&store).await?).await?;
    let (subject, found) = (Subject::Tenant(tenant.clone()), store.config.deletion.clone());
    if let Some(deletion) = found.as_ref().filter(|_| survey.has_ended()) {
        return Ok(receipt::of(&subject, Removal::Deleted, &survey, Some(deletion)));
    }
    let order = order(engine, request, &survey)?;
    if !request.confirm {
        return Ok(receipt::of(&subject, Removal::Planned, &survey, found.as_ref()));
    }
    order.allow(&survey).map_err(|error| refused(&subject, error))?;
    let deletion = order.deletion(&store, &survey).await;
    // What was decided first stays.
    let begin = |config: &store::format::config::TenantConfig| match config.deletion {
        None => Some(Some(deletion.clone())),
        Some(_) => None,
    };
    store = whole.change_deletion(tenant, begin).await?;
    let deletion = store.config.deletion.clone().unwrap_or(deletion);
    let mut left = Left::default();
    for name in records::profiles(&store).await? {
        let of_profile = removal::contents(&store, &name, &order, &survey).await;
        left.snapshots.extend(of_profile.map_err(|error| refused(&subject, error))?.snapshots);
    }
    Ok(ended(&subject, &survey, &deletion, &left))
}

fn order(engine: &Engine, request: &DeleteRequest, survey: &Survey) -> Result<Order, Failure> {
    let mut ignored = Vec::new();
    for prefix in &request.ignore_session {
        let wanted = prefix.to_ascii_uppercase();
        let mut fitting = survey.sessions().filter(|id| id.to_string().starts_with(&wanted));
        match (fitting.next(), fitting.next()) {
            (Some(id), None) => ignored.push(id),
            (None, _) => {
                let message = format!("no session {prefix} builds on what is to be deleted");
                return Err(Failure::new(ErrorKind::NotFound, message)
                    .hint("leave --confirm and --ignore-session out: the plan names the sessions"));
            }
            _ => {
                let message = format!("{prefix} fits several sessions");
                return Err(Failure::new(ErrorKind::Ambiguous, message).hint("give more of it"));
            }
        }
    }
    Ok(Order {
        actor: engine.actor(&request.actor),
        user: user::own_name(),
        reason: reason::checked(&request.reason)?,
        ignored,
        rules: Rules::ALL,
    })
}

fn ended(subject: &Subject, survey: &Survey, deletion: &Deletion, left: &Left) -> DeletionReceipt {
    let outcome = if left.snapshots.is_empty() { Removal::Deleted } else { Removal::Deleting };
    let mut receipt = receipt::of(subject, outcome, survey, Some(deletion));
    if let Some((_, error)) = left.snapshots.first() {
        let count = size::plural(left.snapshots.len() as u64, "snapshot is", "snapshots are");
        let message = format!("{count} still there, because somebody began to read meanwhile: {error}");
        receipt.verdict = Some(Failure::new(ErrorKind::SnapshotNeeded, message).hint(format!(
            "run the same command again when that has ended; `pstore gc {}` ends it, too",
            subject.tenant()
        )));
    }
    receipt
}

fn refused(subject: &Subject, error: Error) -> Failure {
    let hint = match &error {
        Error::SnapshotNeeded { needed: Needed::Session { id, host }, .. } => format!(
            "on {host}, `pstore unmount` if it is mounted, else `pstore sessions rescue {id}` or `discard {id} --confirm`; \
             if nobody needs its changes, `pstore delete {subject} --all --ignore-session {id} --confirm`"
        ),
        Error::SnapshotNeeded { .. } => {
            format!("wait until its readers have ended; `pstore delete {subject} --all` names who uses it")
        }
        _ => return error.into(),
    };
    Failure::from(error).hint(hint)
}

/// Takes the tombstone of a profile or a tenant away.
pub(super) async fn begin_anew(
    engine: &Engine,
    request: &DeleteRequest,
    subject: &Subject,
) -> Result<DeletionReceipt, Failure> {
    let tenant = subject.tenant();
    let deletion = match subject {
        Subject::Profile(name) => {
            let store = engine.tenant_to_change(tenant).await?;
            let found = tombstone::find(&*store.bucket, name).await?;
            found.map(|found| found.tombstone.deletion)
        }
        Subject::Tenant(tenant) => {
            engine.tenant_or_tombstone(tenant, Purpose::Change).await?.config.deletion.clone()
        }
    };
    let Some(deletion) = deletion else {
        let message = format!("{subject} was not deleted: it has no tombstone");
        return Err(Failure::new(ErrorKind::NotFound, message).hint("`pstore list` shows what there is"));
    };
    let survey = Survey::default();
    if !request.confirm {
        return Ok(receipt::of(subject, Removal::TombstonePlanned, &survey, Some(&deletion)));
    }
    let anew = match subject {
        Subject::Profile(name) => {
            let store: TenantStore = engine.tenant_to_change(tenant).await?;
            removal::begin_profile_anew(&store, name).await?
        }
        Subject::Tenant(tenant) => {
            removal::begin_tenant_anew(&engine.store(Purpose::Change).await?, tenant).await?
        }
    };
    match anew {
        removal::Anew::Begun => Ok(receipt::of(subject, Removal::TombstoneRemoved, &survey, Some(&deletion))),
        removal::Anew::ObjectsLeft(left) => {
            let left = size::plural(left as u64, "object", "objects");
            let message = format!("{subject} cannot begin anew yet: {left} of it are left");
            Err(Failure::new(ErrorKind::Deleted, message)
                .hint(format!("`pstore gc {tenant}` removes them, a day after the last one was written")))
        }
        removal::Anew::TooEarly => {
            let message = format!(
                "{subject} cannot begin anew yet: this store removes objects without a condition, and a removal may be late"
            );
            Err(Failure::new(ErrorKind::Deleted, message)
                .hint("run the same command a day after the last collection, or take another name"))
        }
    }
}
