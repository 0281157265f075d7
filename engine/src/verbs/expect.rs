//! `expect` sets what a profile must contain; a snapshot without it is held back as logged out.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    Error, ErrorKind,
    catalog::expectations::{self, ExpectationsChange},
    format::expectations::{CookieName, Expectations, MAX_OF_A_KIND},
    name::{Profile, ProfileName, Tenant},
};

use crate::{
    Engine,
    failure::Failure,
    names::ActorName,
    outcome::{ActorFields, Outcome},
};

/// Shows or changes what is expected of a profile.
#[derive(Clone, Debug)]
pub struct ExpectRequest {
    /// Of which profile.
    pub profile: ProfileName,
    /// Cookies that must be there and not have lapsed.
    pub cookies: Vec<CookieName>,
    /// Origins that must keep something.
    pub origins: Vec<String>,
    /// Files, or directories with files.
    pub files: Vec<String>,
    /// Expect these no longer.
    pub remove: bool,
    /// Expect nothing any more.
    pub clear: bool,
    /// The actor.
    pub actor: ActorName,
}

/// The outcome for the expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ExpectChange {
    /// They are as they were asked to be.
    Changed,
    /// They were only asked for.
    Shown,
    /// They were as they were asked to be.
    Unchanged,
}

/// A cookie by host and name.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CookieFields {
    /// The host, as Chrome writes it.
    pub host: String,
    /// The name.
    pub name: String,
}

/// The expectations of a profile.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ExpectOutcome {
    /// The outcome for the expectations.
    pub outcome: ExpectChange,
    /// The tenant.
    pub tenant_id: Tenant,
    /// The profile.
    pub profile_id: Profile,
    /// How often they were changed.
    pub revision: u64,
    /// When they were changed last.
    pub changed_at_ms: Option<u64>,
    /// The author of the last change.
    pub by: Option<ActorFields>,
    /// Cookies that must be there.
    pub cookies: Vec<CookieFields>,
    /// Origins that must keep something.
    pub origins: Vec<String>,
    /// Files that must be there.
    pub files: Vec<String>,
}

impl Outcome for ExpectOutcome {}

impl Engine {
    /// Shows or changes what is expected of a profile.
    #[crate::boxed]
    pub async fn expect(&self, request: &ExpectRequest) -> Result<ExpectOutcome, Failure> {
        let name = &request.profile;
        let is_empty = request.cookies.is_empty() && request.origins.is_empty() && request.files.is_empty();
        if request.remove && is_empty {
            let message = "--remove goes with --cookie, --origin or --file";
            return Err(Failure::usage(message)
                .hint(format!("`pstore expect {name} --clear` expects nothing any more")));
        }
        if is_empty && !request.clear {
            let tenant = self.tenant(&name.tenant).await?;
            self.require_living_profile(&tenant, name).await?;
            let found = expectations::read(&tenant, name).await.map_err(|error| unreadable(name, error))?;
            return Ok(outcome(name, found, ExpectChange::Shown));
        }
        let tenant = self.tenant_to_change(&name.tenant).await?;
        self.require_living_profile(&tenant, name).await?;
        let change = |expected: &mut Expectations| match request.remove {
            true => remove(request, expected),
            false => add(request, expected),
        };
        let actor = self.actor(&request.actor);
        let changed = expectations::change(&tenant, name, &actor, request.clear, change).await;
        let ExpectationsChange { expectations, changed } = changed.map_err(|error| match error.kind() {
            ErrorKind::NotFound => {
                Failure::from(error).hint(format!("`pstore expect {name}` shows what is expected"))
            }
            _ => unreadable(name, error),
        })?;
        let change = if changed { ExpectChange::Changed } else { ExpectChange::Unchanged };
        Ok(outcome(name, Some(expectations), change))
    }
}

/// A document that cannot be read holds captures back: says how to be rid of it.
fn unreadable(name: &ProfileName, error: Error) -> Failure {
    let unreadable = expectations::is_unreadable(&error);
    let failure = Failure::from(error);
    match unreadable {
        true => failure.hint(format!("`pstore expect {name} --clear` makes it anew, expecting nothing")),
        false => failure,
    }
}

/// Whether anything was not expected before.
fn add(request: &ExpectRequest, expected: &mut Expectations) -> store::Result<bool> {
    let added = [
        join(&mut expected.cookies, &request.cookies),
        join(&mut expected.origins, &request.origins),
        join(&mut expected.files, &request.files),
    ];
    let most = expected.cookies.len().max(expected.origins.len()).max(expected.files.len());
    if most > MAX_OF_A_KIND {
        let what = format!("{most} things of a kind cannot be expected: {MAX_OF_A_KIND} are the most");
        return Err(Error::InvalidInput { what });
    }
    Ok(added.contains(&true))
}

fn join<T: Clone + Ord>(all: &mut Vec<T>, more: &[T]) -> bool {
    let before = all.len();
    for one in more {
        if !all.contains(one) {
            all.push(one.clone());
        }
    }
    all.sort();
    all.len() > before
}

fn remove(request: &ExpectRequest, expected: &mut Expectations) -> store::Result<bool> {
    let Expectations { cookies, origins, files, .. } = expected;
    take(cookies, &request.cookies, "cookie")?;
    take(origins, &request.origins, "origin")?;
    take(files, &request.files, "file")?;
    Ok(true)
}

fn take<T: PartialEq + ToString>(all: &mut Vec<T>, these: &[T], kind: &str) -> store::Result<()> {
    for one in these {
        let Some(at) = all.iter().position(|expected| expected == one) else {
            return Err(Error::NotFound { what: format!("an expectation of {kind} {}", one.to_string()) });
        };
        all.remove(at);
    }
    Ok(())
}

fn outcome(name: &ProfileName, found: Option<Expectations>, outcome: ExpectChange) -> ExpectOutcome {
    let found = found.filter(|expected| expected.revision > 0);
    let revision = found.as_ref().map_or(0, |expected| expected.revision);
    let changed_at_ms = found.as_ref().map(|expected| expected.changed_at_ms);
    let by = found.as_ref().map(|expected| ActorFields::from(&expected.by));
    let (cookies, origins, files) =
        found.map(|expected| (expected.cookies, expected.origins, expected.files)).unwrap_or_default();
    let fields = |cookie: CookieName| CookieFields { host: cookie.host, name: cookie.name };
    ExpectOutcome {
        outcome,
        tenant_id: name.tenant.clone(),
        profile_id: name.profile.clone(),
        revision,
        changed_at_ms,
        by,
        cookies: cookies.into_iter().map(fields).collect(),
        origins,
        files,
    }
}
