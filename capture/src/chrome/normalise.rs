//! `normalise_exit` makes a profile say that its last session ended normally, so that the next one does not offer
//! to restore it.

use std::{
    io,
    os::{fd::AsFd, unix::ffi::OsStrExt},
    path::{Path, PathBuf},
};

use store::tree::root_dir::RootDir;

use super::{
    json_edit,
    profile::{self, Exit},
    replace_file::replace,
};

/// The name of this change in a record.
pub const TRANSFORM: &str = "normalise-exit";

const MAX_PREFERENCES_BYTES: u64 = 64 << 20;
const NORMAL: [(&str, &str); 2] = [("exit_type", "\"Normal\""), ("exited_cleanly", "true")];

/// Changes the preferences of every profile that says otherwise, each at once, and returns
/// which, relative to `directory`. Nobody may use the directory yet: a Chrome that runs would
/// write over this. Preferences that cannot be understood are left for Chrome to deal with.
///
/// Every path is resolved beneath `directory` and through no link: its content may be anybody's.
pub fn normalise_exit(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let root = RootDir::open(directory).map_err(io::Error::other)?;
    let mut changed = Vec::new();
    for path in profile::preferences(directory) {
        let path = path.strip_prefix(directory).unwrap_or(&path);
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        let folder = root.dir(folder.as_os_str().as_bytes())?;
        let name = Path::new(name);
        let Some(text) = profile::read_bounded_at(&folder, name, MAX_PREFERENCES_BYTES) else { continue };
        let exit = Exit::parse(&text).unwrap_or_default();
        // Chrome takes an exit that is not told for a normal one.
        let is_normal = exit.exit_type.as_deref().is_none_or(|word| word == "Normal")
            && exit.exited_cleanly.unwrap_or(true);
        if is_normal {
            continue;
        }
        if let Some(edited) = json_edit::set(&text, "profile", &NORMAL) {
            replace(folder.as_fd(), name, &mut edited.as_slice())?;
            changed.push(path.to_owned());
        }
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        os::unix::fs::{MetadataExt, PermissionsExt, symlink},
    };

    #[test]
    fn nothing_is_changed_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let (root, outside) = (dir.path().join("root"), dir.path().join("outside"));
        fs::create_dir_all(root.join("Profile 1")).unwrap();
        fs::create_dir(&outside).unwrap();
        let crashed = r#"{"profile":{"exit_type":"Crashed"}}"#;
        fs::write(outside.join("Preferences"), crashed).unwrap();
        symlink(&outside, root.join("Default")).unwrap();
        symlink(outside.join("Preferences"), root.join("Profile 1/Preferences")).unwrap();
        assert!(normalise_exit(&root).unwrap().is_empty());
        assert_eq!(fs::read_to_string(outside.join("Preferences")).unwrap(), crashed);
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    }

    #[test]
    fn every_profile_that_crashed_is_made_normal_and_the_others_are_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let normal = r#"{"profile": {"exit_type": "Normal"}}"#;
        for (profile, text) in [
            ("Default", r#"{"n":12345678901234567890123,"profile":{"exit_type":"Crashed"}}"#),
            ("Profile 1", normal),
            ("Profile 2", r#"{"profile": {"exited_cleanly": false, "exit_type": "SessionEnded"}}"#),
            ("Profile 3", "not json"),
            ("Other", r#"{"profile": {"exit_type": "Crashed"}}"#),
        ] {
            fs::create_dir(dir.path().join(profile)).unwrap();
            let path = dir.path().join(profile).join("Preferences");
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        }
        let changed = normalise_exit(dir.path()).unwrap();
        assert_eq!(changed, [Path::new("Default/Preferences"), Path::new("Profile 2/Preferences")]);
        let read = |profile: &str| fs::read_to_string(dir.path().join(profile).join("Preferences")).unwrap();
        assert_eq!(
            read("Default"),
            r#"{"n":12345678901234567890123,"profile":{"exited_cleanly":true,"exit_type":"Normal"}}"#
        );
        assert_eq!(read("Profile 1"), normal);
        assert_eq!(read("Profile 2"), r#"{"profile": {"exited_cleanly": true, "exit_type": "Normal"}}"#);
        assert!(read("Other").contains("Crashed"));
        let mode = fs::metadata(dir.path().join("Default/Preferences")).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o640);
        assert_eq!(fs::read_dir(dir.path().join("Default")).unwrap().count(), 1, "nothing is left beside it");
        assert!(normalise_exit(dir.path()).unwrap().is_empty());
    }
}
