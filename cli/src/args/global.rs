//! Options that every command takes.

use std::{env, path::PathBuf, time::Duration};

use clap::{
    Args,
    builder::{OsStringValueParser, TypedValueParser},
};
use store::bucket::{IfMatch, RetryPolicy, S3Overrides};

use crate::{failure::Failure, location::Location};

#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// Where the snapshots are: file:///path or s3://bucket/prefix
    #[arg(long, global = true, env = "PSTORE_STORE", value_name = "URL", hide_env_values = true)]
    pub(crate) store: Option<String>,
    /// An S3-compatible server
    #[arg(long, global = true, env = "PSTORE_S3_ENDPOINT", value_name = "URL", hide_env_values = true)]
    pub(crate) endpoint: Option<String>,
    /// The region of the S3 bucket
    #[arg(long, global = true, env = "PSTORE_S3_REGION", value_name = "NAME", hide_env_values = true)]
    pub(crate) region: Option<String>,
    /// Where this host remembers what it has seen
    #[arg(long, global = true, env = "PSTORE_CACHE_DIR", value_name = "DIR", hide_env_values = true)]
    #[arg(value_parser = OsStringValueParser::new().map(PathBuf::from))]
    pub(crate) cache_dir: Option<PathBuf>,
    /// Remember nothing on this host
    #[arg(long, global = true)]
    pub(crate) no_cache: bool,
    /// Print one JSON document
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// No progress and no remarks
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    pub(crate) quiet: bool,
    /// More remarks; twice for even more
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

impl Global {
    pub(crate) fn location(&self) -> Result<Location, Failure> {
        match given(&self.store) {
            Some(url) => Location::new(url, self.s3()?, patience()?),
            None => Ok(Location::local(default_store()?)),
        }
    }

    /// Where this host keeps what it learns; nowhere if it has no home.
    pub(crate) fn cache_root(&self) -> Option<PathBuf> {
        if self.no_cache {
            return None;
        }
        let default = || Some(user_directory("XDG_CACHE_HOME", ".cache")?.join("pstore"));
        self.cache_dir.clone().filter(|dir| !dir.as_os_str().is_empty()).or_else(default)
    }

    fn s3(&self) -> Result<S3Overrides, Failure> {
        let endpoint = given(&self.endpoint).cloned();
        let endpoint = endpoint.or_else(|| text("AWS_ENDPOINT_URL_S3")).or_else(|| text("AWS_ENDPOINT_URL"));
        if let Some(url) = &endpoint
            && !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme))
        {
            let message = format!("{url:?} is no endpoint: it starts with neither http:// nor https://");
            return Err(Failure::usage(message).hint("for example --endpoint http://127.0.0.1:9000"));
        }
        let region =
            given(&self.region).cloned().or_else(|| endpoint.as_ref().and_then(|_| default_region()));
        Ok(S3Overrides {
            endpoint,
            region,
            path_style: switch("PSTORE_S3_PATH_STYLE")?,
            credentials: None,
            if_match: if_match()?,
            conditional_delete: switch("PSTORE_S3_CONDITIONAL_DELETE")?.unwrap_or(false),
        })
    }
}

/// The region of a server that is not AWS. Most have none, but the SDK would look for one,
/// even by asking for the metadata of an instance, which takes seconds where there is none.
fn default_region() -> Option<String> {
    let configured =
        ["AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CONFIG_FILE"].into_iter().any(|name| text(name).is_some());
    let file = env::var_os("HOME").is_some_and(|home| PathBuf::from(home).join(".aws/config").exists());
    (!configured && !file).then(|| "us-east-1".to_owned())
}

fn default_store() -> Result<PathBuf, Failure> {
    let data = user_directory("XDG_DATA_HOME", ".local/share").ok_or_else(|| {
        Failure::usage("no store is named, and without HOME there is no default one")
            .hint("use --store or PSTORE_STORE")
    })?;
    Ok(data.join("pstore/store"))
}

/// A directory of the user's, by the XDG convention: relative ones are not valid.
fn user_directory(variable: &str, below_home: &str) -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(below_home)))
}

/// A variable that is set to nothing is as good as one that is not set.
fn given(value: &Option<String>) -> Option<&String> {
    value.as_ref().filter(|value| !value.is_empty())
}

fn text(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|text| !text.is_empty())
}

fn switch(variable: &str) -> Result<Option<bool>, Failure> {
    match text(variable).as_deref() {
        None => Ok(None),
        Some("1" | "true" | "yes" | "on") => Ok(Some(true)),
        Some("0" | "false" | "no" | "off") => Ok(Some(false)),
        Some(other) => Err(Failure::usage(format!("{variable} is {other:?}; it takes true or false"))),
    }
}

/// How long a request that gets no answer is repeated.
fn patience() -> Result<Duration, Failure> {
    let variable = "PSTORE_RETRY_SECONDS";
    let Some(text) = text(variable) else { return Ok(RetryPolicy::default().deadline) };
    let seconds = text
        .parse()
        .map_err(|_| Failure::usage(format!("{variable} is {text:?}; it takes a whole number of seconds")))?;
    Ok(Duration::from_secs(seconds))
}

fn if_match() -> Result<Option<IfMatch>, Failure> {
    match text("PSTORE_S3_IF_MATCH").as_deref() {
        None => Ok(None),
        Some("quoted") => Ok(Some(IfMatch::Quoted)),
        Some("unquoted") => Ok(Some(IfMatch::Unquoted)),
        Some(other) => {
            Err(Failure::usage(format!("PSTORE_S3_IF_MATCH is {other:?}; it takes quoted or unquoted")))
        }
    }
}
