//! `users` finds the processes that use a user-data-dir.
//!
//! A *browser* can be asked to end: it is a Chrome that was started on the directory, or the process that
//! `SingletonLock` names, if that process uses the directory at all. *Children* belong to a browser. *Holders* are
//! all other processes that could still write to a file in it. A program that merely has the directory among its
//! arguments, as whatever started Chrome may, is none of these.
//!
//! Anybody can call a process `chrome` and give it any argument. So a process's name and arguments count only if its
//! user could write to the directory; for other processes only files open for writing count. So no user can keep
//! another from capturing a profile.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{AtFlags, CWD, StatxFlags, makedev, statx},
    process::geteuid,
};

use super::{
    arguments::Arguments,
    devtools::{self, Endpoint},
    open_files::OpenFiles,
    process::{self, Identity, Stat},
    singleton_lock::Lock,
};

#[derive(Clone, Debug, Default)]
pub struct Users {
    pub browsers: Vec<BrowserProcess>,
    /// Renderers and the like, of these browsers or left by one that is gone.
    pub children: Vec<Child>,
    pub holders: Vec<Holder>,
    /// How many processes were not to be looked into: there could be holders among them.
    pub unseen_processes: usize,
}

#[derive(Clone, Debug)]
pub struct BrowserProcess {
    pub id: Identity,
    pub pid: u32,
    pub started: SystemTime,
    pub uptime: Duration,
    pub command: String,
    pub devtools: Option<Endpoint>,
}

#[derive(Clone, Debug)]
pub struct Child {
    pub id: Identity,
    pub command: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: u32,
    pub command: String,
    /// As that process sees them.
    pub paths: Vec<PathBuf>,
}

impl Users {
    /// Whether there is a Chrome, or a remnant of one.
    pub fn runs(&self) -> bool {
        !self.browsers.is_empty() || !self.children.is_empty()
    }

    pub(super) fn child_ids(&self) -> Vec<Identity> {
        self.children.iter().map(|child| child.id).collect()
    }
}

struct ObservedProcess {
    stat: Stat,
    arguments: Arguments,
    is_chrome: bool,
    /// Was started on the directory.
    named: bool,
    /// Has it as the argument after the switch.
    beside: bool,
    /// Whether its user could write to the directory.
    may_write: bool,
    /// `None` if that was not to be seen.
    files: Option<OpenFiles>,
}

/// Everyone but this process itself. Fails only if the directory cannot be looked at.
pub fn users(directory: &Path) -> io::Result<Users> {
    let user_data_dir = UserDataDir::of(directory)?;
    let lock = Lock::read(directory).filter(Lock::is_of_this_host).map(|lock| lock.pid);
    let seen: BTreeMap<u32, ObservedProcess> = process::all()
        .into_iter()
        .filter(|pid| *pid != std::process::id())
        .filter_map(|pid| Some((pid, user_data_dir.look_at(pid)?)))
        .collect();

    let browsers: BTreeSet<u32> = seen
        .iter()
        .filter(|(pid, process)| process.is_browser(lock == Some(**pid)))
        .map(|(pid, _)| *pid)
        .collect();
    let children = children(&seen, &browsers);
    let mut users = Users::default();
    for (pid, process) in &seen {
        let id = process.stat.id;
        if browsers.contains(pid) {
            users.browsers.push(BrowserProcess {
                id,
                pid: *pid,
                started: id.started(),
                uptime: id.uptime(),
                command: process::command(*pid),
                devtools: devtools::find(directory, *pid, process.arguments.debugging_port),
            });
        } else if children.contains(pid) {
            users.children.push(Child { id, command: process::command(*pid) });
        } else if let Some(files) = &process.files {
            if !files.writable.is_empty() {
                let paths = files.writable.clone();
                users.holders.push(Holder { pid: *pid, command: process::command(*pid), paths });
            }
        } else {
            users.unseen_processes += 1;
        }
    }
    // Where others' processes are hidden altogether, not even the first one is listed.
    users.unseen_processes += usize::from(!seen.contains_key(&1) && std::process::id() != 1);
    Ok(users)
}

impl ObservedProcess {
    fn is_browser(&self, has_lock: bool) -> bool {
        let uses_files = self.files.as_ref().is_some_and(|files| files.any);
        let started_on_it = self.is_chrome && (self.named || self.beside && uses_files);
        // The number in a lock that was left may be another process's by now.
        let holds_lock = has_lock && (self.named || uses_files || self.files.is_none() && self.is_chrome);
        self.is_credible() && !self.arguments.is_child && (started_on_it || holds_lock)
    }

    /// Whether it can have to do with the directory; its own arguments do not count.
    fn is_credible(&self) -> bool {
        self.may_write || self.files.as_ref().is_some_and(|files| !files.writable.is_empty())
    }
}

fn children(seen: &BTreeMap<u32, ObservedProcess>, browsers: &BTreeSet<u32>) -> BTreeSet<u32> {
    let own_line = process::own_line();
    let belongs = |pid: &u32, process: &ObservedProcess| {
        let orphan =
            process.named && process.arguments.is_child && process.is_chrome && process.is_credible();
        let mut ancestors = BTreeSet::new();
        let mut at = *pid;
        while let Some(process) = seen.get(&at).filter(|_| ancestors.insert(at)) {
            at = process.stat.parent;
            if browsers.contains(&at) {
                return true;
            }
        }
        orphan
    };
    seen.iter()
        .filter(|(pid, _)| !browsers.contains(pid) && !own_line.contains(pid))
        .filter(|(pid, process)| belongs(pid, process))
        .map(|(pid, _)| *pid)
        .collect()
}

/// The directory, so that it is known by any name.
struct UserDataDir {
    name: PathBuf,
    device: u64,
    inode: u64,
    owner: u32,
    /// Whether others than the owner may write there.
    is_open: bool,
}

impl UserDataDir {
    fn of(directory: &Path) -> io::Result<Self> {
        let name = directory.canonicalize()?;
        let meta = fs::metadata(&name)?;
        let is_open = meta.mode() & 0o022 != 0;
        Ok(Self { name, device: meta.dev(), inode: meta.ino(), owner: meta.uid(), is_open })
    }

    /// By the kernel's present knowledge: the path may be that of another browser, on a mount that
    /// has stopped answering.
    fn is(&self, path: &Path) -> io::Result<bool> {
        let found = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::INO)?;
        let device = makedev(found.stx_dev_major, found.stx_dev_minor);
        Ok((device, found.stx_ino) == (self.device, self.inode))
    }

    /// `None` for a process that has ended, and for the kernel's own.
    fn look_at(&self, pid: u32) -> Option<ObservedProcess> {
        let stat = process::stat(pid)?;
        let line = process::command_line(pid);
        if line.is_empty() {
            return None;
        }
        let arguments = Arguments::parse(&line);
        let is_chrome = arguments.is_chrome(process::executable(pid).as_deref());
        let named = arguments.user_data_dir.as_deref().is_some_and(|path| self.is_argument(pid, path));
        let beside = arguments.beside_switch.as_deref().is_some_and(|path| self.is_argument(pid, path));
        // In a container, or through another mount, the same files have other names.
        let mut names = vec![self.name.clone()];
        for path in [(named, &arguments.user_data_dir), (beside, &arguments.beside_switch)] {
            if let (true, Some(path)) = path {
                names.extend(path.canonicalize());
                names.push(path.clone());
            }
        }
        names.retain(|name| name.is_absolute());
        let files = OpenFiles::of(pid, &names).ok();
        // It ended meanwhile: what was not to be seen is not there.
        if files.is_none() && !stat.id.runs() {
            return None;
        }
        let may_write = process::real_user(pid).is_none_or(|user| self.may_write(user));
        Some(ObservedProcess { stat, arguments, is_chrome, named, beside, may_write, files })
    }

    fn may_write(&self, user: u32) -> bool {
        self.is_open || [0, self.owner, geteuid().as_raw()].contains(&user)
    }

    /// Whether an argument of `pid` means this directory: seen from where the process is, or,
    /// if that is not permitted, from here.
    fn is_argument(&self, pid: u32, path: &Path) -> bool {
        let there = match path.strip_prefix("/") {
            Ok(below_root) => Path::new(&format!("/proc/{pid}/root")).join(below_root),
            Err(_) => Path::new(&format!("/proc/{pid}/cwd")).join(path),
        };
        match self.is(&there) {
            Ok(same) => same,
            Err(_) => path.is_absolute() && self.is(path).unwrap_or(false),
        }
    }
}
