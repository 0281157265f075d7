//! `ServerView` looks through a server: at the locks and sessions of its tenants, its mounts, and its metrics.

use std::time::Instant;

use serde::{Deserialize, de::DeserializeOwned};
use store::{ErrorKind, catalog::clock, name::Tenant};

use super::{
    TopOutcome, TopPart,
    client::{Connection, ServerAccess},
    rates::{self, Rates},
    rows::{MountFields, TopLock, TopMount, TopSession},
};
use crate::{failure::Failure, overview::LockPage, verbs::sessions::remote::RemoteSession};

/// So many locks are asked for.
const MAX_LOCKS: usize = 500;

/// See the module header.
#[derive(Debug)]
pub struct ServerView {
    access: ServerAccess,
    /// Of this tenant alone.
    tenant: Option<Tenant>,
    counted: Rates,
}

#[derive(Deserialize)]
struct MountList {
    mounts: Vec<MountFields>,
}

#[derive(Deserialize)]
struct SessionList {
    sessions: Vec<RemoteSession>,
}

impl ServerView {
    /// Through this server, at all tenants of the token or at one.
    pub fn new(access: ServerAccess, tenant: Option<Tenant>) -> Self {
        Self { access, tenant, counted: Rates::default() }
    }

    pub(super) async fn look(&mut self) -> TopOutcome {
        let mut seen = TopOutcome::new(self.access.url.to_string(), clock::unix_ms());
        let mut connection = match self.access.connect().await {
            Ok(connection) => connection,
            Err(failure) => {
                TopPart::ALL.into_iter().for_each(|part| seen.lacks(part, failure.clone()));
                return seen;
            }
        };
        let of_tenant = self.tenant.as_ref().map(|tenant| format!("tenant_id={tenant}"));
        let more = of_tenant.as_ref().map(|of| format!("&{of}")).unwrap_or_default();
        let locks =
            document::<LockPage>(&mut connection, &format!("/v1/locks?limit={MAX_LOCKS}{more}")).await;
        let locks = seen.took(TopPart::Locks, locks.map(Some));
        seen.total_locks = locks.as_ref().map_or(0, |page| page.total);
        seen.locks = locks.into_iter().flat_map(|page| page.locks).map(TopLock::from).collect();
        let mounts = match document::<MountList>(&mut connection, "/v1/mounts").await {
            // A server that makes no mounts has none.
            Err(failure) if failure.kind == ErrorKind::NotFound => Ok(Vec::new()),
            listed => listed.map(|listed| listed.mounts),
        };
        let mounts = seen.took(TopPart::Mounts, mounts).into_iter().map(TopMount::from);
        let is_meant = |mount: &TopMount| {
            self.tenant.as_ref().is_none_or(|tenant| mount.tenant_id.as_deref() == Some(tenant.as_str()))
        };
        seen.mounts = mounts.filter(is_meant).collect();
        let path = of_tenant.map_or_else(|| "/v1/sessions".to_owned(), |of| format!("/v1/sessions?{of}"));
        let sessions = document::<SessionList>(&mut connection, &path).await;
        let sessions = seen.took(TopPart::Sessions, sessions.map(|listed| listed.sessions));
        seen.sessions = sessions.iter().map(TopSession::from).collect();
        let metrics = connection.get("/metrics").await;
        let rates = metrics.map(|bytes| {
            let samples = rates::of_text(&String::from_utf8_lossy(&bytes));
            self.counted.of(&samples, Instant::now())
        });
        seen.rates = seen.took(TopPart::Rates, rates);
        seen
    }
}

async fn document<T: DeserializeOwned>(connection: &mut Connection, path: &str) -> Result<T, Failure> {
    let bytes = connection.get(path).await?;
    serde_json::from_slice(&bytes).map_err(|error| {
        let message = format!("the answer to GET {path} is not what was expected: {error}");
        Failure::new(ErrorKind::UnsupportedFormat, message).hint("the server may be of another version")
    })
}
