//! `relative_path` takes paths as agents write them: from the top of the workspace, or whole ones that lead into it.

use std::path::{Component, Path, PathBuf};

use engine::failure::Failure;

/// The path from the top of the workspace. Nothing is looked up: links are the engine's concern.
pub(crate) fn relative(workspace: &Path, typed: &Path) -> Result<PathBuf, Failure> {
    let inside = match typed.is_absolute() {
        true => typed.strip_prefix(workspace).map_err(|_| outside(workspace, typed))?,
        false => typed,
    };
    let mut path = PathBuf::new();
    for component in inside.components() {
        match component {
            Component::Normal(name) => path.push(name),
            Component::CurDir => {}
            // What it leads to depends on links, so it is not followed even where it stays inside.
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(outside(workspace, typed));
            }
        }
    }
    match path.as_os_str().is_empty() {
        true => Err(Failure::usage(format!("{:?} is the whole workspace", typed.display()))
            .hint("name a file or a folder in it; snapshots_changes without a path, and snapshots_revert with \"all\": true, \
                   take the whole workspace")),
        false => Ok(path),
    }
}

fn outside(workspace: &Path, typed: &Path) -> Failure {
    Failure::usage(format!("{} leads out of the workspace", typed.display())).hint(format!(
        "give a path from the top of the workspace {}, such as src/main.py, without `..`",
        workspace.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_from_the_top_of_the_workspace() {
        let workspace = Path::new("/srv/project");
        let read = |typed: &str| relative(workspace, Path::new(typed)).map_err(|failure| failure.message);
        for typed in
            ["src/a.py", "./src/a.py", "src//a.py", "src/./a.py", "/srv/project/src/a.py", "src/a.py/"]
        {
            assert_eq!(read(typed).unwrap(), Path::new("src/a.py"), "{typed}");
        }
        for typed in
            ["../a", "src/../../a", "src/../a", "/etc/passwd", "/srv/project-2/a", "/srv/project/../a"]
        {
            assert_eq!(read(typed).unwrap_err(), format!("{typed} leads out of the workspace"));
        }
        for typed in ["", ".", "/srv/project", "/srv/project/"] {
            assert!(read(typed).unwrap_err().contains("is the whole workspace"), "{typed}");
        }
    }
}
