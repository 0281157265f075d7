//! `processes` reads what the kernel says of processes.

use std::{fs, path::Path};

/// In the flags of a process: it is a part of the kernel.
const KERNEL_THREAD: u32 = 0x0020_0000;

/// What the kernel says of a process or of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Its state, as a letter.
    pub state: char,
    /// The process that it is a child of.
    pub parent: i32,
    flags: u32,
    /// When it began, in the kernel's ticks.
    pub began: u64,
}

impl Stat {
    /// Of a process. `None` if there is none.
    pub fn of(pid: i32) -> Option<Self> {
        Self::read(&Path::new("/proc").join(pid.to_string()))
    }

    /// Of the process or thread with this folder.
    pub fn read(folder: &Path) -> Option<Self> {
        // A program may give itself any name.
        Self::parse(&String::from_utf8_lossy(&fs::read(folder.join("stat")).ok()?))
    }

    fn parse(text: &str) -> Option<Self> {
        // The name, in brackets, may hold brackets and blanks.
        let fields: Vec<&str> = text[text.rfind(')')? + 1..].split_whitespace().collect();
        Some(Self {
            state: fields.first()?.chars().next()?,
            parent: fields.get(1)?.parse().ok()?,
            flags: fields.get(6)?.parse().ok()?,
            began: fields.get(19)?.parse().ok()?,
        })
    }

    /// Whether it is a part of the kernel.
    pub fn is_kernel_thread(&self) -> bool {
        self.flags & KERNEL_THREAD != 0
    }
}

/// Whether a process is this one, or one that it descends from.
pub fn is_above(pid: i32) -> bool {
    let mut own = i32::try_from(std::process::id()).ok();
    while let Some(above) = own.filter(|above| *above > 1) {
        if above == pid {
            return true;
        }
        own = Stat::of(above).map(|stat| stat.parent);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_says_is_read_whatever_a_program_calls_itself() {
        let rest = "S 1 42 42 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 3 0 987654 1 2 3";
        let stat = Stat::parse(&format!("42 (a) R 7 (b)) {rest}")).unwrap();
        assert_eq!((stat.state, stat.parent, stat.began), ('S', 1, 987_654));
        assert!(!stat.is_kernel_thread());
        let kernel =
            Stat::parse("2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0 0 0 20 0 1 0 33 0 0").unwrap();
        assert!(kernel.is_kernel_thread());
        assert_eq!(Stat::parse("42 (torn) S 1"), None);
        let own = Stat::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(!own.is_kernel_thread() && own.began > 0);
    }

    #[test]
    fn we_and_those_that_run_us_are_above_us() {
        for pid in [std::process::id(), std::os::unix::process::parent_id()] {
            assert!(is_above(i32::try_from(pid).unwrap()));
        }
        let child = std::process::Command::new("true").spawn().unwrap();
        assert!(!is_above(i32::try_from(child.id()).unwrap()));
        child.wait_with_output().unwrap();
    }
}
