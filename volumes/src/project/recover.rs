//! `recover` undoes what a save or restore has left that was killed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use engine::{Engine, failure::Failure};

use super::{containers, file::Project, hooks, note::Note, swap};

/// Takes the note of a project, and lets services go on that a dead process has left at rest.
#[crate::boxed]
pub async fn take_note(engine: &Engine, project: &Project) -> Result<Note, Failure> {
    let mut note = Note::take(engine, &project.name)?;
    containers::settle(engine).await?;
    if note.pending != Default::default() {
        engine.warn(&format!(
            "a save or restore of {} was cut short; letting its services go on",
            project.name
        ));
        undo(engine, project, &mut note).await?;
    }
    Ok(note)
}

/// As [`take_note`], for those who only read: if somebody works on the project, there is nothing to undo.
#[crate::boxed]
pub async fn recover(engine: &Engine, project: &Project) {
    if let Err(failure) = take_note(engine, project).await
        && failure.kind != store::ErrorKind::LockHeld
    {
        engine.warn(&failure.message);
    }
}

/// Undoes what dead commands have left at daemons, and of the projects whose files are in the directories in `folder`. What
/// cannot be done is a warning: the next command tries again.
#[crate::boxed]
pub async fn recover_all(engine: &Engine, folder: Option<&Path>) {
    if let Err(failure) = containers::settle(engine).await {
        engine.warn(&failure.message);
    }
    for file in folder.map(files_below).unwrap_or_default() {
        match Project::read(&file) {
            Ok(project) => recover(engine, &project).await,
            Err(failure) => engine.warn(&failure.message),
        }
    }
}

/// Undoes what dead commands have left at daemons, and of all projects that they have noted on this host. What cannot be
/// done is a warning: the next command tries again.
#[crate::boxed]
pub async fn recover_noted(engine: &Engine) {
    if let Err(failure) = containers::settle(engine).await {
        engine.warn(&failure.message);
    }
    for file in Note::files_left(engine) {
        match Project::read(&file) {
            Ok(project) => recover(engine, &project).await,
            Err(failure) => engine.warn(&failure.message),
        }
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect::<Vec<PathBuf>>()
    };
    let mut files: Vec<PathBuf> = entries(folder).iter().flat_map(|tenant| entries(tenant)).collect();
    files.retain(|file| file.extension().is_some_and(|suffix| suffix == "toml") && file.is_file());
    files.sort_unstable();
    files
}

/// Undoes what the note says, and clears it. A service that cannot go on keeps no other from going on; the note
/// stays until all do.
#[crate::boxed]
pub async fn undo(engine: &Engine, project: &Project, note: &mut Note) -> Result<(), Failure> {
    // Nothing goes on before its folders are in place.
    swap::settle(note)?;
    note.pending.replaced.clear();
    note.pending.staging.clear();
    let mut failed = None;
    for resting in note.pending.resting.iter().rev() {
        if let Err(failure) = resting.resume().await {
            engine.warn(&failure.message);
            failed = Some(failure);
        }
    }
    if failed.is_none() {
        note.pending.resting.clear();
    }
    // What was cut short has left its notes.
    containers::settle(engine).await?;
    let post_save = std::mem::take(&mut note.pending.post_save);
    let hooks_end = hooks::run(engine, project, &post_save).await;
    if let Some(failure) = failed {
        note.write()?;
        return Err(failure);
    }
    note.clear()?;
    hooks_end
}
