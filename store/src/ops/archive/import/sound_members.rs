//! `SoundMembers` hands on the members of an archive in the order of a tree, and refuses what no tree can be.

use super::sorted_members::{Listed, ListedKind, Merged, SortedMembers};
use crate::{
    archive::problem::{Problem, Result},
    format::tree::TreePath,
};

/// The members of a sound archive, each path once, in order. The first fault is an error.
pub(super) struct SoundMembers<'a> {
    members: Merged<'a>,
    /// The directories on the way to the last member, and that member; each with whether it is one, or else a link.
    above: Vec<(TreePath, Above)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Above {
    Directory,
    Symlink,
    Other,
}

impl<'a> SoundMembers<'a> {
    pub fn new(members: &'a SortedMembers) -> Result<Self> {
        Ok(Self { members: members.merged()?, above: Vec::new() })
    }

    pub fn next(&mut self) -> Result<Option<Listed>> {
        let Some(mut found) = self.members.next()? else { return Ok(None) };
        while let Some(more) = self.members.next_at(&found.path)? {
            found = one_of(found, more)?;
        }
        while self.above.last().is_some_and(|(above, _)| !found.path.is_within(above)) {
            self.above.pop();
        }
        if let Some((above, kind)) = self.above.last().filter(|(_, kind)| *kind != Above::Directory) {
            let what = if *kind == Above::Symlink { "a symbolic link" } else { "no directory" };
            return Err(Problem::bad(format!("{} is below {above}, which is {what}", found.path)));
        }
        let kind = match found.what {
            ListedKind::Directory | ListedKind::Implied => Above::Directory,
            ListedKind::Symlink(_) => Above::Symlink,
            _ => Above::Other,
        };
        self.above.push((found.path.clone(), kind));
        Ok(Some(found))
    }
}

/// Of two members at one path, the one that counts; `a` came first.
fn one_of(a: Listed, b: Listed) -> Result<Listed> {
    match (&a.what, &b.what) {
        (_, ListedKind::Implied) => Ok(a),
        (ListedKind::Implied, ListedKind::Directory) => Ok(b),
        (ListedKind::Implied, _) => {
            Err(Problem::bad(format!("{} is no directory, though something is below it", b.path)))
        }
        _ => Err(twice(&b.path)),
    }
}

/// Two members have this path.
pub(super) fn twice(path: &TreePath) -> Problem {
    Problem::bad(format!("{path} is there twice"))
}
