//! `user` knows the users of this machine, and becomes one of them.
//!
//! They are looked up in `/etc/passwd` and `/etc/group`; one that only a directory service
//! knows is given by its numbers.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    thread,
};

use rustix::{
    process::{Gid, Uid, geteuid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use crate::failure::Failure;

/// What no user has: to the kernel it means "as it is".
const NOBODYS: u32 = u32::MAX;

/// Another user, as whom a command is started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The number of the user.
    pub uid: u32,
    /// The number of its first group.
    pub gid: u32,
    /// Besides that one.
    groups: Vec<u32>,
    /// One that is in no file has none.
    name: Option<String>,
    home: PathBuf,
    shell: Option<String>,
}

/// The name of this process's user; its number, if it has no name.
pub fn own_name() -> String {
    let uid = geteuid().as_raw();
    let users = fs::read("/etc/passwd").unwrap_or_default();
    let users = String::from_utf8_lossy(&users);
    let own = users.lines().filter_map(Entry::parse).find(|entry| entry.uid == uid);
    own.map_or_else(|| uid.to_string(), |entry| entry.name.to_owned())
}

impl User {
    /// `NAME`, `UID`, either with `:GROUP` or `:GID`.
    pub fn find(text: &str) -> Result<Self, Failure> {
        if !geteuid().is_root() {
            return Err(Failure::usage("only root can start a command as another user")
                .hint("without --user it is started as yourself; or `sudo pstore run --user ...`"));
        }
        let read = |path: &str| fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let (users, groups) = (read("/etc/passwd"), read("/etc/group"));
        Self::of(text, &users.unwrap_or_default(), &groups.unwrap_or_default())
    }

    fn of(text: &str, users: &str, groups: &str) -> Result<Self, Failure> {
        let (user, group) = match text.split_once(':') {
            Some((user, group)) => (user, Some(group)),
            None => (text, None),
        };
        let entries = || users.lines().filter_map(Entry::parse);
        // A name of digits is a name before it is a number.
        let entry = entries().find(|entry| entry.name == user);
        let entry = entry.or_else(|| entries().find(|entry| Some(entry.uid) == number(user)));
        let uid = entry.as_ref().map(|entry| entry.uid).or_else(|| number(user));
        let Some(uid) = uid else {
            return Err(Failure::usage(format!("there is no user {user:?} in /etc/passwd"))
                .hint("give the numbers of one that is not in it: --user UID:GID"));
        };
        let gid = match (group, &entry) {
            (Some(group), _) => gid(group, groups).ok_or_else(|| {
                Failure::usage(format!("there is no group {group:?} in /etc/group"))
                    .hint(format!("give its number: --user {user}:GID"))
            })?,
            (None, Some(entry)) => entry.gid,
            (None, None) => {
                return Err(Failure::usage(format!("the group of user {uid} is not known"))
                    .hint(format!("give it as well: --user {uid}:GID")));
            }
        };
        let mut found = Self {
            uid,
            gid,
            groups: Vec::new(),
            name: entry.as_ref().map(|entry| entry.name.to_owned()),
            home: entry.as_ref().map_or("/".into(), |entry| entry.home.into()),
            shell: entry.as_ref().map(|entry| entry.shell.to_owned()).filter(|shell| !shell.is_empty()),
        };
        // Who names a group wants that one and no other.
        if let (None, Some(name)) = (group, &found.name) {
            found.groups = memberships(name, groups);
        }
        Ok(found)
    }

    /// What the user's programs expect to be told of their user.
    pub fn variables(&self) -> Vec<(&'static str, OsString)> {
        let name = self.name.clone().unwrap_or_else(|| self.uid.to_string());
        let mut told = vec![
            ("HOME", self.home.clone().into_os_string()),
            ("USER", OsString::from(&name)),
            ("LOGNAME", OsString::from(name)),
        ];
        told.extend(self.shell.as_ref().map(|shell| ("SHELL", OsString::from(shell))));
        told
    }

    /// Does `work` in a thread that has this user's rights and no others. Processes that it
    /// starts have them, too; every other thread keeps its own.
    pub fn act<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let acting = || {
                self.become_it()?;
                work()
            };
            let acting = thread::Builder::new().spawn_scoped(scope, acting)?;
            acting.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
        })
    }

    /// The groups first: who is no longer root cannot change them.
    fn become_it(&self) -> io::Result<()> {
        let groups: Vec<Gid> = self.groups.iter().map(|gid| Gid::from_raw(*gid)).collect();
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        set_thread_groups(&groups)?;
        set_thread_res_gid(gid, gid, gid)?;
        set_thread_res_uid(uid, uid, uid)?;
        Ok(())
    }
}

/// A line of `/etc/passwd`.
struct Entry<'a> {
    name: &'a str,
    uid: u32,
    gid: u32,
    home: &'a Path,
    shell: &'a str,
}

impl<'a> Entry<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let mut fields = line.split(':');
        let (name, _password) = (fields.next()?, fields.next()?);
        let (uid, gid) = (number(fields.next()?)?, number(fields.next()?)?);
        let (_about, home) = (fields.next()?, Path::new(fields.next()?));
        Some(Self { name, uid, gid, home, shell: fields.next().unwrap_or_default() })
    }
}

fn number(text: &str) -> Option<u32> {
    let is_digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_digits && *number != NOBODYS)
}

fn gid(text: &str, groups: &str) -> Option<u32> {
    let named = groups.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == text).then(|| number(fields.nth(1)?)).flatten()
    });
    named.or_else(|| number(text))
}

/// The groups that list the user as a member.
fn memberships(name: &str, groups: &str) -> Vec<u32> {
    let of = |line: &str| {
        let mut fields = line.split(':');
        let gid = number(fields.nth(2)?)?;
        fields.next()?.split(',').any(|member| member == name).then_some(gid)
    };
    groups.lines().filter_map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: &str = "root:x:0:0:root:/root:/bin/bash\n\
        broken line\n\
        agent:x:1001:1002:An Agent,,,:/home/agent:/bin/zsh\n\
        1001:x:77:77::/home/digits:\n";
    const GROUPS: &str =
        "root:x:0:\nagent:x:1002:\nvideo:x:44:other,agent\naudio:x:63:agents\nrender:x:105:agent\n";

    fn found(text: &str) -> User {
        User::of(text, USERS, GROUPS).unwrap()
    }

    #[test]
    fn a_user_is_found_by_name_with_all_its_groups() {
        let agent = found("agent");
        assert_eq!((agent.uid, agent.gid, agent.groups.as_slice()), (1001, 1002, &[44, 105][..]));
        let told = |name: &str| {
            let variables = agent.variables();
            variables.into_iter().find(|(found, _)| *found == name).unwrap().1.into_string().unwrap()
        };
        assert_eq!(
            ["HOME", "USER", "LOGNAME", "SHELL"].map(told),
            ["/home/agent", "agent", "agent", "/bin/zsh"]
        );
    }

    #[test]
    fn a_group_that_is_named_is_the_only_one() {
        for text in ["agent:video", "agent:44"] {
            let agent = found(text);
            assert_eq!((agent.uid, agent.gid, agent.groups.len()), (1001, 44, 0), "{text}");
        }
    }

    #[test]
    fn numbers_are_enough_where_the_files_say_nothing() {
        let unknown = found("4321:8765");
        assert_eq!((unknown.uid, unknown.gid, unknown.groups.len()), (4321, 8765, 0));
        assert_eq!(unknown.variables()[..2], [("HOME", "/".into()), ("USER", "4321".into())]);
        assert_eq!(found("0").name.as_deref(), Some("root"));
        assert_eq!((found("1001").uid, found("1002:1").uid), (77, 1002), "a name of digits is a name");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_what_to_type() {
        for (text, told) in [
            ("nobody-here", "no user \"nobody-here\""),
            ("", "no user \"\""),
            ("-1", "no user \"-1\""),
            ("4294967295:1", "no user"),
            ("4321", "the group of user 4321 is not known"),
            ("agent:none", "no group \"none\""),
            ("agent:", "no group \"\""),
        ] {
            let failure = User::of(text, USERS, GROUPS).unwrap_err();
            assert!(failure.message.contains(told) && failure.hint.is_some(), "{text}: {failure:?}");
        }
    }
}
