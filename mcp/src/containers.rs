//! `Containers` says which containers an agent may store, and has them stored for the tenant of its workspace.

use std::{any::Any, fmt, sync::Arc};

use engine::{Engine, failure::Failure, interrupt::Interrupt, names::ActorName, text::time};
use store::{
    ErrorKind,
    name::{ProfileName, Tenant},
};
use volumes::container::{self, ContainerSnapshotOutcome, ContainerSnapshotRequest};

/// Held while a container is stored.
pub type Permit = Box<dyn Any + Send>;

/// Lets a container of a tenant be stored, or says why not now.
type Admits = Arc<dyn Fn(&Tenant) -> Result<Permit, Failure> + Send + Sync>;

/// The containers of an agent.
#[derive(Clone)]
pub struct Containers {
    /// The address of the daemon that has them.
    docker_host: String,
    /// Who asks, if it is somebody elsewhere.
    caller: Option<Caller>,
}

/// A caller of a server. It reaches the containers that its tenant's label is on.
#[derive(Clone)]
struct Caller {
    actor: ActorName,
    /// Raised when the caller leaves before it has an answer: nothing begins to rest for it any more.
    left: Interrupt,
    /// What is under way is given up when this is raised, and not when the caller leaves.
    ending: Interrupt,
    admits: Admits,
}

impl Containers {
    /// All that a daemon has: who starts this process controls the daemon.
    pub fn all(docker_host: String) -> Self {
        Self { docker_host, caller: None }
    }

    /// Those that were made with the label of a tenant, for a caller that a server has let in. Of the interrupts, one is raised when the
    /// caller leaves, and one when the server ends.
    pub fn of_tenants(
        docker_host: String,
        actor: ActorName,
        (left, ending): (Interrupt, Interrupt),
        admits: impl Fn(&Tenant) -> Result<Permit, Failure> + Send + Sync + 'static,
    ) -> Self {
        Self { docker_host, caller: Some(Caller { actor, left, ending, admits: Arc::new(admits) }) }
    }

    /// Stores a container for a tenant.
    pub(crate) async fn store(
        &self,
        engine: &Engine,
        tenant: &Tenant,
        request: ContainerSnapshotRequest,
    ) -> Result<ContainerSnapshotOutcome, Failure> {
        let request = ContainerSnapshotRequest { docker_host: Some(self.docker_host.clone()), ..request };
        let Some(Caller { actor, left, ending, admits }) = &self.caller else {
            return container::snapshot(engine, &request).await;
        };
        let permit = admits(tenant)?;
        let run_id = request.actor.run_id.or_else(|| actor.run_id.clone());
        let request = ContainerSnapshotRequest {
            only_of: Some(tenant.clone()),
            ending: Some(ending.clone()),
            actor: ActorName { run_id, ..actor.clone() },
            ..request
        };
        let mut storing = container::snapshot(engine, &request);
        let stored = tokio::select! {
            stored = &mut storing => stored,
            () = left.raised() => {
                engine.interrupt.raise();
                storing.await
            }
        };
        drop(permit);
        stored
    }

    /// The same failure, with what an agent can do about it.
    pub(crate) fn advised(&self, failure: Failure, tenant: &Tenant) -> Failure {
        let hint = match failure.kind {
            ErrorKind::NotFound if self.caller.is_some() => format!(
                "give the name or id of a container that was made with the label pstore.tenant={tenant}; there are no others for you"
            ),
            ErrorKind::NotFound => {
                "give as \"container\" a name or an id that the Docker daemon has".to_owned()
            }
            ErrorKind::LockHeld => {
                "another snapshot of it is under way: call once more with a \"wait\" of up to 60 seconds"
                    .to_owned()
            }
            ErrorKind::InUse => {
                "call once more when the container runs or has ended, and nobody else works on it".to_owned()
            }
            ErrorKind::Unavailable => {
                "the container is as it was; call once more, with a longer \"time_limit\" if it was too short"
                    .to_owned()
            }
            _ => return failure,
        };
        failure.hint(hint)
    }
}

impl fmt::Debug for Containers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.caller {
            None => write!(f, "all at {}", self.docker_host),
            Some(_) => write!(f, "those of a tenant at {}", self.docker_host),
        }
    }
}

/// A name of snapshots as an agent writes it: within its tenant, with or without the tenant's name.
pub(crate) fn snapshots_name(tenant: &Tenant, typed: &str) -> Result<ProfileName, Failure> {
    let whole = if typed.contains('/') { typed.to_owned() } else { format!("{tenant}/{typed}") };
    let hint = format!("give a \"name\" such as \"web\", or \"{tenant}/web\"");
    match whole.parse::<ProfileName>() {
        Ok(name) if name.tenant == *tenant => Ok(name),
        Ok(_) => Err(Failure::usage(format!("{typed:?} is no name of your tenant {tenant}")).hint(hint)),
        Err(error) => {
            Err(Failure::usage(format!("{typed:?} cannot name snapshots of a container: {error}")).hint(hint))
        }
    }
}

/// A time as agents are told of it.
pub(crate) fn timestamp(unix_ms: u64) -> String {
    format!("{}Z", time::utc(unix_ms).replace(' ', "T"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_within_the_tenant() {
        let tenant: Tenant = "acme".parse().unwrap();
        for typed in ["web", "acme/web"] {
            assert_eq!(snapshots_name(&tenant, typed).unwrap().to_string(), "acme/web", "{typed}");
        }
        for typed in ["", "globex/web", "acme/", "/web", "acme/a/b", "..", "../globex/web"] {
            assert!(snapshots_name(&tenant, typed).unwrap_err().hint.is_some(), "{typed}");
        }
    }

    #[test]
    fn a_time_is_in_utc() {
        assert_eq!(timestamp(1_763_500_000_123), "2025-11-18T21:06:40Z");
    }
}
