//! `EachTenant` carries a verb out for many tenants, and goes on when one fails.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use store::{ErrorKind, name::Tenant};

use crate::{
    Engine,
    failure::{Failure, codes},
    observer::{Observation, Observer},
    text::size,
};

/// How many of those that failed a verdict names.
const NAMED: usize = 8;

/// All tenants of the store, or the one that was named.
#[derive(Debug)]
pub struct EachTenant {
    tenants: Vec<Tenant>,
    /// The command that looks at one tenant is this, and its name.
    verb: &'static str,
    is_of_all: bool,
    observer: Arc<dyn Observer>,
    failed: Vec<FailedTurn>,
}

/// A tenant, or a part of it, that failed while the others were done.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FailedTurn {
    /// The tenant whose turn it was.
    pub tenant_id: Tenant,
    /// All of the tenant, or one of its profiles.
    pub profile: String,
    /// The kind of failure.
    #[serde(serialize_with = "codes::serialize")]
    #[schemars(schema_with = "codes::schema")]
    pub kind: ErrorKind,
    /// The failure, in a sentence.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
}

impl EachTenant {
    /// Begins with the tenant that is named, or with all of the store.
    #[crate::boxed]
    pub async fn of(engine: &Engine, named: Option<&Tenant>, verb: &'static str) -> Result<Self, Failure> {
        let tenants = match named {
            Some(tenant) => vec![tenant.clone()],
            None => engine.tenants().await?,
        };
        Ok(Self {
            tenants,
            verb,
            is_of_all: named.is_none(),
            observer: Arc::clone(&engine.observer),
            failed: Vec::new(),
        })
    }

    /// The tenants to go through.
    pub fn tenants(&self) -> Vec<Tenant> {
        self.tenants.clone()
    }

    /// What came of a tenant's turn; `None` if it failed and is passed over. One that was named fails as
    /// it always did, and so does everything if it is not the tenant that fails.
    pub fn took<T>(&mut self, tenant: &Tenant, turn: Result<T, Failure>) -> Result<Option<T>, Failure> {
        match turn {
            Ok(done) => Ok(Some(done)),
            // There is nothing of it any more.
            Err(failure) if self.is_of_all && failure.kind == ErrorKind::Deleted => Ok(None),
            Err(failure) if !self.is_of_all || is_of_the_store(failure.kind) => Err(failure),
            Err(failure) => {
                self.pass_over(tenant, tenant.to_string(), failure);
                Ok(None)
            }
        }
    }

    /// Notes that a part of a tenant failed, and says so.
    pub fn pass_over(&mut self, tenant: &Tenant, part: String, failure: Failure) {
        let passed_over = format!("{part} is passed over: {}", failure.message);
        self.observer.observe(&Observation::Warning(&passed_over));
        let alone = match self.verb {
            // It would come to the same.
            "verify" => format!("`pstore doctor {tenant}` says whether the tenant can be used"),
            verb => format!("`pstore {verb} {tenant}` looks at it alone"),
        };
        let hint = match &failure.hint {
            Some(hint) => format!("{alone}; {hint}"),
            None => alone,
        };
        self.observer.observe(&Observation::Remark(&format!("hint: {hint}")));
        self.failed.push(FailedTurn {
            tenant_id: tenant.clone(),
            profile: part,
            kind: failure.kind,
            message: failure.message,
            hint: Some(hint),
        });
    }

    /// Those that failed.
    pub fn failed(&self) -> &[FailedTurn] {
        &self.failed
    }

    /// Those that failed, when all had their turn.
    pub fn into_failed(self) -> Vec<FailedTurn> {
        self.failed
    }

    /// How it ends if any was passed over: of a tenant that was named, as its first failure says.
    pub fn verdict(&self) -> Option<Failure> {
        let first = self.failed.first()?;
        if !self.is_of_all {
            let rest = self.failed.len() - 1;
            let rest = if rest == 0 { String::new() } else { format!(", and {rest} more") };
            return Some(Failure::new(
                first.kind,
                format!("{} failed: {}{rest}", first.profile, first.message),
            ));
        }
        let mut parts: Vec<String> =
            self.failed.iter().take(NAMED).map(|failed| failed.profile.clone()).collect();
        if self.failed.len() > NAMED {
            parts.push(format!("{} more", self.failed.len() - NAMED));
        }
        let mut tenants: Vec<&Tenant> = self.failed.iter().map(|failed| &failed.tenant_id).collect();
        tenants.sort();
        tenants.dedup();
        let all = size::plural(self.tenants.len() as u64, "tenant", "tenants");
        Some(Failure::new(
            ErrorKind::TenantsFailed,
            format!("{} of {all} failed, and the others are done: {}", tenants.len(), parts.join(", ")),
        ))
    }
}

/// Whether it would fail for every tenant alike, or was told to end.
fn is_of_the_store(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Interrupted | ErrorKind::Internal)
}
