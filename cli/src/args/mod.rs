//! `args` parses the command line into values. It touches neither files nor the network.

mod actor;
mod browse;
mod capture;
mod catalog;
mod container;
mod expect;
mod export;
mod global;
mod help;
mod import;
mod lineage;
mod mcp;
mod mount;
mod profile_ref;
mod project;
mod run;
#[cfg(test)]
mod runbook_tests;
mod serve;
mod top;
mod value;
mod verb;
mod version;
mod workspace;

pub(crate) use browse::{CatArgs, FindArgs, LsArgs};
pub(crate) use catalog::{
    AcquireArgs, DeleteArgs, ForceUnlockArgs, GcArgs, HeldArgs, HoldArgs, LockArgs, LockShowArgs, LockVerb,
    LogArgs, ReapArgs, RetentionArgs, RetentionVerb, RollbackArgs, TagArgs,
};
pub(crate) use container::{ContainerArgs, ContainerRestoreArgs, ContainerSnapshotArgs, ContainerVerb};
pub(crate) use expect::ExpectArgs;
pub(crate) use export::ExportArgs;
pub(crate) use global::Global;
pub(crate) use import::ImportArgs;
pub(crate) use mcp::McpArgs;
pub(crate) use mount::{
    CommitArgs, DiscardArgs, MountArgs, RescueArgs, SessionsArgs, SessionsVerb, SetAsideArgs, UnmountArgs,
};
pub(crate) use project::{
    ProjectArgs, ProjectDeleteArgs, ProjectListArgs, ProjectRestoreArgs, ProjectSaveArgs, ProjectShowArgs,
    ProjectVerb, StateArgs,
};
pub(crate) use run::RunArgs;
pub(crate) use serve::{ServeArgs, TokenArgs, TokenNewArgs, TokenVerb};
pub(crate) use top::TopArgs;
pub(crate) use verb::{
    CompletionsArgs, ConfigArgs, ConfigVerb, DiffArgs, DoctorArgs, HistoryArgs, InitArgs, ListArgs, ManArgs,
    RestoreArgs, ShowArgs, SnapshotArgs, StatsArgs, Verb, VerifyArgs,
};

pub(crate) use workspace::{
    CheckpointArgs, WorkspaceArgs, WorkspaceChangesArgs, WorkspaceStartArgs, WorkspaceVerb,
};

use std::{ffi::OsString, process::ExitCode};

use clap::{
    CommandFactory, FromArgMatches, Parser,
    error::{ContextKind, ContextValue, ErrorKind as ClapKind},
};
use engine::failure::Failure;

use crate::console::{self, Console};

/// Keeps browser profiles as deduplicated, verified snapshots in a bucket or a directory.
#[derive(Debug, Parser)]
#[command(name = "pstore", version, long_version = version::LONG.as_str(), override_help = help::OVERVIEW, disable_help_subcommand = true)]
struct Line {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    verb: Verb,
}

/// One checked command line.
#[derive(Debug)]
pub(crate) struct Invocation {
    pub(crate) console: Console,
    pub(crate) global: Global,
    pub(crate) verb: Verb,
}

/// A command line that asks for help, or for something that does not exist.
#[derive(Debug)]
pub(crate) struct Refusal(clap::Error);

pub(crate) fn parse() -> Result<Invocation, Refusal> {
    parse_words(std::env::args_os())
}

/// Parses these words as a command line; the first of them is the program.
pub(crate) fn parse_words(words: impl IntoIterator<Item = OsString>) -> Result<Invocation, Refusal> {
    let matches =
        command().try_get_matches_from(asking_for_help(words)).map_err(|error| Refusal(meant(error)))?;
    let Line { global, verb } = Line::from_arg_matches(&matches).map_err(Refusal)?;
    // Remarks would tear the frames.
    let is_drawn = matches!(&verb, Verb::Top(args) if args.is_live(global.json));
    let console = Console {
        json: global.json,
        quiet: global.quiet || is_drawn,
        verbose: global.verbose,
        json_log: matches!(&verb, Verb::Serve(args) if args.json_log),
        json_progress: global.progress.is_some(),
    };
    Ok(Invocation { console, global, verb })
}

/// `help VERB` is another way to write `VERB --help`.
fn asking_for_help(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.into_iter().collect();
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Verbs of other programs, and ours for the same task.
const ELSEWHERE: [(&str, &[&str]); 9] = [
    ("backup", &["snapshot"]),
    ("save", &["snapshot"]),
    ("load", &["restore", "run"]),
    ("forget", &["delete", "retention"]),
    ("prune", &["retention", "gc"]),
    ("check", &["verify"]),
    ("fsck", &["verify"]),
    ("umount", &["unmount"]),
    ("unlock", &["lock", "force-unlock"]),
];

/// An error about a verb of another program suggests ours, not a verb with a similar spelling.
fn meant(mut error: clap::Error) -> clap::Error {
    let known = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) => ELSEWHERE.iter().find(|(theirs, _)| theirs == word),
        _ => None,
    };
    if let Some((_, ours)) = known {
        let ours = ours.iter().map(|verb| (*verb).to_owned()).collect();
        error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(ours));
    }
    error
}

/// The whole grammar, for completions and man pages too.
pub(crate) fn command() -> clap::Command {
    Line::command().max_term_width(100)
}

impl Refusal {
    pub(crate) fn print(&self) -> ExitCode {
        if matches!(self.0.kind(), ClapKind::DisplayHelp | ClapKind::DisplayVersion) {
            return console::print(&self.0.to_string());
        }
        // The line could not be parsed, so whether it wanted JSON must be guessed.
        if std::env::args_os().any(|arg| arg == "--json") {
            let rendered = self.0.to_string();
            let text = rendered.trim().trim_start_matches("error: ");
            let (message, rest) = text.split_once("\n\n").unwrap_or((text, ""));
            let mut failure = Failure::usage(message);
            failure.hint = Some(rest.trim().to_owned()).filter(|rest| !rest.is_empty());
            return Console { json: true, quiet: false, verbose: 0, json_log: false, json_progress: false }
                .failure(&failure);
        }
        let _ = self.0.print();
        ExitCode::from(engine::failure::codes::code(store::ErrorKind::InvalidInput))
    }
}
