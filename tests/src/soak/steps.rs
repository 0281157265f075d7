//! `steps` chooses the next step.

use super::{
    catalog,
    fleet::{Fleet, Step},
    sessions,
};

macro_rules! kinds {
    ($($kind:ident $name:literal $weight:literal $take:path,)*) => {
        /// A kind of step, by the name it has in `PSTORE_SOAK_STEPS`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Kind { $($kind,)* }

        impl Kind {
            pub const ALL: [Self; [$($weight,)*].len()] = [$(Self::$kind,)*];

            pub const fn name(self) -> &'static str {
                match self { $(Self::$kind => $name,)* }
            }

            /// How often it comes, beside the others.
            const fn weight(self) -> usize {
                match self { $(Self::$kind => $weight,)* }
            }

            fn take(self, fleet: &mut Fleet, host: usize) -> Step {
                match self { $(Self::$kind => $take(fleet, host),)* }
            }
        }
    };
}

kinds! {
    Snapshot "snapshot" 6 catalog::snapshot,
    Mount "mount" 12 sessions::mount,
    Fork "fork" 3 sessions::fork,
    Commit "commit" 8 sessions::commit,
    CommitBeside "commit-beside" 14 sessions::commit_beside,
    CutCommit "cut-commit" 6 sessions::cut_commit,
    UnmountCommit "unmount-commit" 4 sessions::unmount_commit,
    UnmountDiscard "unmount-discard" 2 sessions::unmount_discard,
    UnmountKeep "unmount-keep" 2 sessions::unmount_keep,
    Kill "kill" 5 sessions::kill,
    Restart "restart" 2 sessions::restart,
    Rescue "rescue" 3 sessions::rescue,
    Discard "discard" 1 sessions::discard,
    Retention "retention" 2 catalog::retention,
    Gc "gc" 4 catalog::gc,
    Publish "publish" 3 catalog::publish,
    Delete "delete" 2 catalog::delete,
    Tag "tag" 1 catalog::tag,
    Rollback "rollback" 3 catalog::rollback,
    ForceUnlock "force-unlock" 1 catalog::force_unlock,
    Reap "reap" 1 catalog::reap,
    Import "import" 1 catalog::import,
    Verify "verify" 2 catalog::verify,
    Clock "clock" 2 catalog::clock,
}

/// Takes one step that something can be done with, by lot, and judges it.
pub fn take(fleet: &mut Fleet, kinds: &[Kind]) -> Result<(), String> {
    let total: usize = kinds.iter().map(|kind| kind.weight()).sum();
    loop {
        let (mut drawn, host) = (fleet.lot.below(total), fleet.lot.below(fleet.hosts.len()));
        let kind = kinds.iter().find(|kind| {
            let found = drawn < kind.weight();
            drawn = drawn.wrapping_sub(kind.weight());
            found
        });
        let kind = kind.expect("the weights add up");
        let (name, days) = (fleet.hosts[host].name.clone(), fleet.hosts[host].days);
        let aside = fleet.lot.once_in(4).then(|| catalog::Chores::start(fleet));
        let told = |reason| format!("{}, on {name} with its clock {days} days off: {reason}", kind.name());
        let done = kind.take(fleet, host).map_err(told)?;
        if let Some(chores) = aside {
            chores.end().map_err(told)?;
        }
        if let Some(words) = done {
            fleet.tell(&name, &words);
            return fleet.judge().map_err(told);
        }
    }
}
