//! `Sandbox` keeps a cell from other files, the network and other processes. The kernel enforces that for each
//! thread.

use std::{collections::BTreeMap, os::fd::BorrowedFd};

use landlock::{
    ABI, Access, AccessFs, BitFlags, PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus,
};
use libc::{c_long, *};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};
use serde::{Deserialize, Serialize};

/// The newest version that this code knows in full; a kernel with an older one enforces the rights it knows.
const LANDLOCK: ABI = ABI::V5;

/// Shares the blocks of a file with its copy.
const FICLONE: u64 = 0x4004_9409;

/// All that reading, copying and SQLite need. Every other call fails as unknown,
/// which every library can handle.
const ALLOWED: &[c_long] = &[
    // Files, of which Landlock says which ones.
    SYS_openat,
    SYS_openat2,
    SYS_close,
    SYS_read,
    SYS_pread64,
    SYS_readv,
    SYS_preadv,
    SYS_write,
    SYS_pwrite64,
    SYS_writev,
    SYS_pwritev,
    SYS_lseek,
    SYS_fstat,
    SYS_newfstatat,
    SYS_statx,
    SYS_getdents64,
    SYS_faccessat,
    SYS_faccessat2,
    SYS_readlinkat,
    SYS_getcwd,
    SYS_fcntl,
    SYS_ftruncate,
    SYS_fallocate,
    SYS_fadvise64,
    SYS_copy_file_range,
    SYS_fsync,
    SYS_fdatasync,
    SYS_fchmod,
    SYS_mkdirat,
    SYS_unlinkat,
    SYS_umask,
    // Memory.
    SYS_brk,
    SYS_munmap,
    SYS_mremap,
    SYS_madvise,
    // Threads that exist, and their ends.
    SYS_futex,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_restart_syscall,
    SYS_exit,
    SYS_exit_group,
    // Time, chance, and who this is.
    SYS_clock_gettime,
    SYS_clock_getres,
    SYS_clock_nanosleep,
    SYS_nanosleep,
    SYS_gettimeofday,
    SYS_getrandom,
    SYS_getpid,
    SYS_gettid,
    SYS_getuid,
    SYS_geteuid,
    SYS_getgid,
    SYS_getegid,
];

/// The same in the words of an older day.
#[cfg(target_arch = "x86_64")]
const ALLOWED_BESIDE: &[c_long] =
    &[SYS_open, SYS_stat, SYS_lstat, SYS_access, SYS_readlink, SYS_mkdir, SYS_rmdir, SYS_unlink, SYS_time];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_BESIDE: &[c_long] = &[];

/// The restrictions that a kernel has accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Confinement {
    /// No calls but those that an examination needs.
    pub seccomp: bool,
    /// No files but those that are examined, and their copies.
    pub landlock: bool,
}

pub(super) struct Sandbox {
    filter: Option<BpfProgram>,
    ruleset: Option<RulesetCreated>,
}

impl Sandbox {
    /// For threads that read below `root` and write below `scratch`.
    pub(super) fn around(root: BorrowedFd<'_>, scratch: BorrowedFd<'_>) -> Self {
        Self { filter: filter().ok(), ruleset: ruleset(root, scratch).ok() }
    }

    /// From now on this thread is within it, as far as the kernel knows how.
    pub(super) fn close(&self) -> Confinement {
        // First, as it takes calls that are forbidden afterwards.
        let ruleset = self.ruleset.as_ref().and_then(|ruleset| ruleset.try_clone().ok());
        let status = ruleset.and_then(|ruleset| ruleset.restrict_self().ok());
        let landlock = status.is_some_and(|status| status.ruleset != RulesetStatus::NotEnforced);
        let seccomp = self.filter.as_ref().is_some_and(|filter| apply_filter(filter).is_ok());
        Confinement { seccomp, landlock }
    }
}

fn ruleset(root: BorrowedFd<'_>, scratch: BorrowedFd<'_>) -> Result<RulesetCreated, RulesetError> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let copy = read
        | AccessFs::WriteFile
        | AccessFs::Truncate
        | AccessFs::MakeReg
        | AccessFs::MakeDir
        | AccessFs::RemoveFile
        | AccessFs::RemoveDir;
    Ruleset::default()
        .handle_access(AccessFs::from_all(LANDLOCK))?
        .create()?
        .add_rule(PathBeneath::new(root, read))?
        .add_rule(PathBeneath::new(scratch, copy))
}

fn filter() -> Result<BpfProgram, BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(ALLOWED_BESIDE).map(|call| (*call, Vec::new())).collect();
    // Memory that holds no code; of devices' calls this one; signals to nobody else.
    let no_code = || rule(2, SeccompCmpOp::MaskedEq(PROT_EXEC as u64), 0);
    rules.insert(SYS_mmap, vec![no_code()?]);
    rules.insert(SYS_mprotect, vec![no_code()?]);
    rules.insert(SYS_ioctl, vec![rule(1, SeccompCmpOp::Eq, FICLONE)?]);
    rules.insert(SYS_tgkill, vec![rule(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?]);
    let otherwise = SeccompAction::Errno(ENOSYS as u32);
    let architecture = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, otherwise, SeccompAction::Allow, architecture)?.try_into()
}

/// Allows a call if its argument compares so.
fn rule(argument: u8, how: SeccompCmpOp, value: u64) -> Result<SeccompRule, BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, how, value)?])
}

#[cfg(test)]
#[path = "confinement_tests.rs"]
mod tests;
