//! `man` prints the manual page, or writes all of them.

use std::{fs, path::Path};

use engine::failure::Failure;
use serde_json::json;
use store::error::IoContext;

use crate::{
    answer::Answer,
    args::{self, ManArgs},
};

pub(super) fn run(args: &ManArgs) -> Result<Answer, Failure> {
    let mut command = args::command().disable_help_flag(true);
    command.build();
    let pages = pages(&command);
    let Some(directory) = &args.directory else {
        let (name, page) = &pages[0];
        return Ok(Answer::new(json!({ "name": name, "page": page }), page.clone()));
    };
    write(directory, &pages)?;
    let names: Vec<&String> = pages.iter().map(|(name, _)| name).collect();
    let text = format!("Wrote {} pages to {}\n", pages.len(), directory.display());
    Ok(Answer::new(json!({ "directory": directory, "pages": names }), text))
}

/// The page of `pstore` and one for each command, by file name.
fn pages(command: &clap::Command) -> Vec<(String, String)> {
    let page = |command: &clap::Command, name: String| {
        let mut roff = Vec::new();
        // Writing to memory does not fail.
        let _ = clap_mangen::Man::new(command.clone()).title(name.clone()).render(&mut roff);
        (format!("{name}.1"), String::from_utf8_lossy(&roff).into_owned())
    };
    let mut pages = Vec::new();
    let mut open = vec![(command, "pstore".to_owned())];
    while let Some((command, name)) = open.pop() {
        let verbs = command.get_subcommands().map(|verb| (verb, format!("{name}-{}", verb.get_name())));
        open.extend(verbs.collect::<Vec<_>>().into_iter().rev());
        pages.push(page(command, name));
    }
    pages
}

fn write(directory: &Path, pages: &[(String, String)]) -> store::Result<()> {
    fs::create_dir_all(directory).at("cannot make", directory)?;
    for (name, page) in pages {
        let path = directory.join(name);
        fs::write(&path, page).at("cannot write", &path)?;
    }
    Ok(())
}
