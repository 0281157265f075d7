//! `TypedArgument` tells which argument the last word of a line is, by the grammar.

use std::ffi::OsString;

use clap::{Arg, Command};
use engine::names::SnapshotName;
use store::name::ProfileName;

use crate::args::{self};

/// Options that say where names are stored.
const PLACES: [&str; 5] = ["store", "endpoint", "region", "cache-dir", "config"];

#[derive(Debug, Default)]
pub(super) struct TypedArgument {
    /// The name of the argument in the help.
    value_name: String,
    /// Words that are no options, after the command.
    positionals: Vec<String>,
    /// Options that say where names are stored, as they were typed.
    places: Vec<String>,
}

impl TypedArgument {
    /// The completions of these words; the first is the one after the program.
    pub(super) fn of(words: &[String]) -> Self {
        let mut command = args::command();
        command.build();
        let (mut at, mut typed) = (&command, Self::default());
        // An option that waits for its value.
        let mut waiting: Option<&Arg> = None;
        for word in words {
            if let Some(option) = waiting.take() {
                typed.keep(option, word);
            } else if word == "--" {
                return Self::default();
            } else if let Some(long) = word.strip_prefix("--") {
                let (name, value) =
                    long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
                let option = at.get_arguments().find(|arg| arg.get_long() == Some(name));
                match (option, value) {
                    (Some(option), Some(value)) => typed.keep(option, value),
                    (Some(option), None) if option.get_action().takes_values() => waiting = Some(option),
                    _ => {}
                }
            } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
                let option = at.get_arguments().find(|arg| arg.get_short() == letters.chars().last());
                waiting = option.filter(|option| option.get_action().takes_values());
            } else if let Some(sub) = subcommand(at, word).filter(|_| typed.positionals.is_empty()) {
                at = sub;
            } else {
                typed.positionals.push(word.clone());
            }
        }
        let positionals: Vec<&Arg> = at.get_positionals().collect();
        let place = typed.positionals.len().min(positionals.len().saturating_sub(1));
        let argument = waiting.or(positionals.get(place).copied());
        // A directory that something is mounted on is not one that something can be mounted on.
        let is_known = |name: &str| !(name == "MOUNTPOINT" && at.get_name() == "mount");
        let name = argument.and_then(|argument| argument.get_value_names()?.first()).map(ToString::to_string);
        typed.value_name = name.filter(|name| is_known(name)).unwrap_or_default();
        typed
    }

    fn keep(&mut self, option: &Arg, value: &str) {
        let name = option.get_long().unwrap_or_default();
        if PLACES.contains(&name) {
            self.places.push(format!("--{name}={value}"));
        }
    }

    /// A line that says no more than where names are stored.
    pub(super) fn global_line(&self) -> Vec<OsString> {
        ["pstore", "mounts"]
            .into_iter()
            .map(OsString::from)
            .chain(self.places.iter().map(OsString::from))
            .collect()
    }

    pub(super) fn is_for(&self, value_name: &str) -> bool {
        self.value_name == value_name
    }

    pub(super) fn takes_profiles(&self) -> bool {
        self.value_name.starts_with("TENANT/PROFILE") || self.value_name.starts_with("TENANT[/PROFILE")
    }

    pub(super) fn takes_references(&self) -> bool {
        self.value_name.contains("PROFILE[@")
    }

    /// The profile that was typed before.
    pub(super) fn profile(&self) -> Option<ProfileName> {
        self.positionals.iter().find_map(|word| Some(word.parse::<SnapshotName>().ok()?.profile))
    }
}

fn subcommand<'a>(command: &'a Command, word: &str) -> Option<&'a Command> {
    command.get_subcommands().find(|sub| sub.get_name() == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value_name(line: &str) -> String {
        TypedArgument::of(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).value_name
    }

    #[test]
    fn the_grammar_says_what_a_word_is() {
        for (line, expected) in [
            ("show", "TENANT/PROFILE[@REF]"),
            ("--store file:///x show --json", "TENANT/PROFILE[@REF]"),
            ("restore", "TENANT/PROFILE[@REF]"),
            ("snapshot udd", "TENANT/PROFILE"),
            ("list", "TENANT[/PROFILE]"),
            ("verify", "TENANT[/PROFILE[@REF]]"),
            ("gc", "TENANT"),
            ("lock show", "TENANT/PROFILE"),
            ("diff acme/alice@latest~1", "REF"),
            ("unmount", "MOUNTPOINT"),
            ("mount acme/alice", ""),
            ("commit mnt --as", "TENANT/PROFILE"),
            ("run acme/alice --", ""),
        ] {
            assert_eq!(value_name(line), expected, "{line}");
        }
    }
}
