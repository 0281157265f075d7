//! `environment` reads the process's environment, once and nowhere else.

use std::{collections::BTreeMap, env, ffi::OsString, path::PathBuf};

#[derive(Clone, Debug, Default)]
pub(super) struct Environment(BTreeMap<OsString, OsString>);

impl Environment {
    pub(super) fn of_process() -> Self {
        Self(env::vars_os().collect())
    }

    /// A variable that is set to nothing is as good as one that is not set.
    pub(super) fn get(&self, name: &str) -> Option<&OsString> {
        self.0.get(&OsString::from(name)).filter(|value| !value.is_empty())
    }

    /// A directory of the user's, by the XDG convention: relative ones are not valid.
    pub(super) fn user_directory(&self, variable: &str, below_home: &str) -> Option<PathBuf> {
        let absolute = |name: &str| self.get(name).map(PathBuf::from).filter(|path| path.is_absolute());
        absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
    }

    /// Whether anything tells the AWS SDK a region, so that it need not look for one.
    pub(super) fn tells_a_region(&self) -> bool {
        let told = ["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE"];
        let home = || self.get("HOME").map(PathBuf::from);
        told.iter().any(|name| self.get(name).is_some())
            || home().is_some_and(|home| home.join(".aws/config").exists())
    }
}

#[cfg(test)]
impl Environment {
    pub(super) fn of(variables: &[(&str, &str)]) -> Self {
        Self(variables.iter().map(|(name, value)| (name.into(), value.into())).collect())
    }
}
