//! `locations` finds out where the store, its server and the cache are.

use std::{path::PathBuf, time::Duration};

use store::bucket::{IfMatch, RetryPolicy, S3Overrides};

use super::{
    Settings, Value,
    key::{self, Key},
};
use crate::{failure::Failure, host::private, location::Location};

/// The region of a server that is not AWS. Most have none, but the SDK would look for one,
/// even by asking for the metadata of an instance, which takes seconds where there is none.
const NO_REGION: &str = "us-east-1";

impl Settings {
    /// Where the store is.
    pub fn location(&self) -> Result<Location, Failure> {
        let view = self.of(None);
        let patience = view.number(&key::RETRY_SECONDS).map(Duration::from_secs);
        let patience = patience.unwrap_or(RetryPolicy::default().deadline);
        match view.get(&key::STORE).value {
            Some(Value::Text(url)) => Location::new(&url, self.s3(), patience),
            Some(Value::Path(root)) => Ok(Location::local(root, patience)),
            _ => Err(Failure::usage("no store is named, and without HOME there is no default one")
                .hint("use --store or PSTORE_STORE")),
        }
    }

    /// Where this host keeps what it learns; nowhere if it has no home.
    pub fn cache_root(&self) -> Option<PathBuf> {
        match self.of(None).value(&key::CACHE_DIR) {
            Some(Value::Path(root)) => Some(root),
            _ => None,
        }
    }

    /// Where mounts keep what was changed in them and not committed.
    pub fn sessions(&self) -> Result<PathBuf, Failure> {
        match self.of(None).value(&key::SESSION_DIR) {
            Some(Value::Path(root)) => {
                private::require(&root, "sessions", "PSTORE_SESSION_DIR")?;
                Ok(root)
            }
            _ => Err(Failure::usage("without HOME there is no place for the changes of a mount")
                .hint("set PSTORE_SESSION_DIR")),
        }
    }

    /// Where workspaces keep their settings, their slots and their events.
    pub fn workspaces(&self) -> Result<PathBuf, Failure> {
        match self.of(None).value(&key::WORKSPACE_DIR) {
            Some(Value::Path(root)) => {
                private::require(&root, "workspaces", "PSTORE_WORKSPACE_DIR")?;
                Ok(root)
            }
            _ => Err(Failure::usage("without HOME there is no place for the events of a workspace")
                .hint("set PSTORE_WORKSPACE_DIR")),
        }
    }

    /// The pools of a workspace that is started: slots of the ring, named slots, and seconds between automatic
    /// checkpoints.
    pub fn workspace_pools(&self) -> (u64, u64, u64) {
        let view = self.of(None);
        let number = |key, default| view.number(key).unwrap_or(default);
        (
            number(&key::WORKSPACE_AUTO_MAX, 10),
            number(&key::WORKSPACE_MANUAL_MAX, 12),
            number(&key::WORKSPACE_AUTO_INTERVAL, 300),
        )
    }

    /// Whether a trigger, by its name, takes checkpoints of workspaces.
    pub fn has_workspace_trigger(&self, name: &str) -> bool {
        match self.of(None).value(&key::WORKSPACE_TRIGGERS) {
            Some(Value::Words(words)) => words.iter().any(|word| word == name),
            _ => true,
        }
    }

    /// The server of the store, as it would be typed.
    pub fn server(&self) -> (Option<String>, Option<String>) {
        let view = self.of(None);
        (view.text(&key::S3_ENDPOINT), view.text(&key::S3_REGION))
    }

    fn s3(&self) -> S3Overrides {
        let view = self.of(None);
        S3Overrides {
            endpoint: view.text(&key::S3_ENDPOINT),
            region: view.text(&key::S3_REGION),
            path_style: view.switch(&key::S3_PATH_STYLE),
            credentials: None,
            if_match: view.text(&key::S3_IF_MATCH).map(|word| match word.as_str() {
                "unquoted" => IfMatch::Unquoted,
                _ => IfMatch::Quoted,
            }),
            conditional_delete: view.switch(&key::S3_CONDITIONAL_DELETE).unwrap_or(false),
            part_patience: None,
            is_plain: false,
        }
    }

    /// A default that depends on this host, or on other settings.
    pub(super) fn default_place(&self, key: &'static Key) -> Option<Value> {
        let is = |other: &'static Key| std::ptr::eq(key, other);
        let has_endpoint = || self.of(None).text(&key::S3_ENDPOINT).is_some();
        if is(&key::STORE) {
            let data = self.environment.user_directory("XDG_DATA_HOME", ".local/share")?;
            let root = data.join("pstore/store");
            // As one would type it; a path that nobody can type stays one.
            Some(match root.to_str() {
                Some(path) => Value::Text(format!("file://{path}")),
                None => Value::Path(root),
            })
        } else if is(&key::CACHE_DIR) {
            let cache = self.environment.user_directory("XDG_CACHE_HOME", ".cache")?;
            Some(Value::Path(cache.join("pstore")))
        } else if is(&key::SESSION_DIR) {
            let state = self.environment.user_directory("XDG_STATE_HOME", ".local/state")?;
            Some(Value::Path(state.join("pstore/sessions")))
        } else if is(&key::WORKSPACE_DIR) {
            let state = self.environment.user_directory("XDG_STATE_HOME", ".local/state")?;
            Some(Value::Path(state.join("pstore/workspaces")))
        } else if is(&key::S3_REGION) {
            let needed = has_endpoint() && !self.environment.tells_a_region();
            needed.then(|| Value::Text(NO_REGION.to_owned()))
        } else if is(&key::S3_PATH_STYLE) {
            Some(Value::Switch(has_endpoint()))
        } else if is(&key::HOST_NAME) {
            Some(Value::Text(host_name()))
        } else {
            None
        }
    }
}

fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// The advice for an invalid value.
pub(super) fn advice(key: &'static Key) -> Option<&'static str> {
    if std::ptr::eq(key, &key::STORE) {
        Some("--store or PSTORE_STORE names the store")
    } else if std::ptr::eq(key, &key::S3_ENDPOINT) {
        Some("for example --endpoint http://127.0.0.1:9000")
    } else {
        None
    }
}
