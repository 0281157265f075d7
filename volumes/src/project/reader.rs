//! `Reader` tells what is wrong with a project file by its line, and reads what stands in several of its tables.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use engine::failure::Failure;
use toml::Spanned;

/// The page that describes the file.
pub(super) const PAGE: &str = "docs/projects.md";

/// A project file that is being read.
pub(super) struct Reader<'a> {
    pub file: &'a Path,
    pub text: &'a str,
}

impl Reader<'_> {
    pub fn failure(&self, at: usize, problem: &str) -> Failure {
        let line = self.text[..at.min(self.text.len())].matches('\n').count() + 1;
        let problem = problem.trim_end().replace('\n', "; ");
        Failure::usage(format!("{}, line {line}: {problem}", self.file.display()))
            .hint(format!("{PAGE} lists what a project file can say"))
    }

    /// A path as it is meant in the file.
    pub fn beside(&self, path: &Path) -> PathBuf {
        self.file.parent().unwrap_or(Path::new("/")).join(path)
    }

    /// Names of volumes are names of folders in a snapshot.
    pub fn require_plain(&self, at: usize, what: &str, name: &str) -> Result<(), Failure> {
        match name.parse::<store::name::Profile>() {
            Ok(_) => Ok(()),
            Err(error) => Err(self.failure(at, &format!("invalid {what} name {name:?}: {}", error.reason))),
        }
    }

    pub fn limit(&self, text: Option<&Spanned<String>>, default: Duration) -> Result<Duration, Failure> {
        let Some(text) = text else { return Ok(default) };
        let typed = text.get_ref().as_str();
        let (number, scale) = match (typed.strip_suffix("ms"), typed.strip_suffix('s')) {
            (Some(number), _) => (number, 1),
            (None, Some(number)) => (number, 1000),
            _ => (typed.strip_suffix("min").unwrap_or(""), 60_000),
        };
        let millis = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale));
        millis.filter(|millis| *millis > 0).map(Duration::from_millis).ok_or_else(|| {
            self.failure(text.span().start, &format!("{typed:?} is no time: write it as 500ms, 30s or 5min"))
        })
    }
}
