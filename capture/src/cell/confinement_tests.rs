//! These tests try to leave a cell.

use std::{
    fs::{self, File},
    io,
    net::{TcpListener, TcpStream},
    os::{fd::AsFd, unix::net::UnixStream, unix::process::CommandExt},
    process::Command,
};

use super::*;

/// Runs `attempt` within the sandbox; a thread of its own is as confined as a process.
fn within<T: Send>(attempt: impl FnOnce() -> T + Send) -> T {
    let (root, scratch) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (root, scratch) = (File::open(root.path()).unwrap(), File::open(scratch.path()).unwrap());
    let sandbox = Sandbox::around(root.as_fd(), scratch.as_fd());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            assert_eq!(
                sandbox.close(),
                Confinement { seccomp: true, landlock: true },
                "this kernel has neither"
            );
            attempt()
        });
        thread.join().unwrap()
    })
}

fn refused<T>(result: io::Result<T>, errno: i32) {
    assert_eq!(result.err().and_then(|error| error.raw_os_error()), Some(errno));
}

#[test]
fn nothing_is_reached_over_a_network() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    within(|| {
        refused(TcpStream::connect(address), ENOSYS);
        refused(TcpListener::bind("127.0.0.1:0"), ENOSYS);
        refused(UnixStream::pair(), ENOSYS);
    });
    TcpStream::connect(address).unwrap();
}

#[test]
fn nothing_is_started() {
    within(|| {
        refused(Command::new("/bin/true").spawn(), ENOSYS);
        // In its own place.
        refused(Err::<(), _>(Command::new("/bin/true").exec()), ENOSYS);
        assert!(std::thread::Builder::new().spawn(|| ()).is_err());
    });
}

#[test]
fn no_limit_is_lifted_and_nobody_is_signalled() {
    use rustix::process::{Pid, Resource, Signal, kill_process, setrlimit};
    let before = rustix::process::getrlimit(Resource::Core);
    within(|| {
        setrlimit(Resource::Core, before).unwrap_err();
        kill_process(Pid::from_raw(std::process::id() as i32).unwrap(), Signal::CONT).unwrap_err();
    });
}

#[test]
fn files_are_read_below_the_root_and_written_among_the_copies() {
    let [root, scratch, other] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    fs::write(root.path().join("database"), "x").unwrap();
    fs::write(other.path().join("secret"), "x").unwrap();
    let (in_root, in_scratch) = (File::open(root.path()).unwrap(), File::open(scratch.path()).unwrap());
    let sandbox = Sandbox::around(in_root.as_fd(), in_scratch.as_fd());
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            sandbox.close();
            assert_eq!(fs::read(root.path().join("database")).unwrap(), b"x");
            fs::create_dir(scratch.path().join("check")).unwrap();
            fs::write(scratch.path().join("check/copy"), "x").unwrap();
            fs::write(scratch.path().join("check/copy"), "").unwrap();
            fs::remove_dir_all(scratch.path().join("check")).unwrap();

            refused(File::options().write(true).open(root.path().join("database")), EACCES);
            refused(fs::write(root.path().join("new"), "x"), EACCES);
            refused(fs::remove_file(root.path().join("database")), EACCES);
            refused(fs::read(other.path().join("secret")), EACCES);
            refused(fs::write(other.path().join("secret"), "y"), EACCES);
            refused(File::open("/etc/passwd"), EACCES);
            refused(File::open("/proc/self/environ"), EACCES);
            refused(fs::hard_link(root.path().join("database"), scratch.path().join("link")), ENOSYS);
            refused(std::os::unix::fs::symlink("/etc", scratch.path().join("link")), ENOSYS);
            refused(fs::rename(root.path().join("database"), scratch.path().join("moved")), ENOSYS);
        });
        thread.join().unwrap();
    });
    assert_eq!(fs::read(other.path().join("secret")).unwrap(), b"x");
}
