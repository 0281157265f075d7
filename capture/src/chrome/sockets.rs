//! `sockets` tells whether a process listens on a port.

use std::{fs, net::Ipv4Addr};

/// Whether `pid` itself accepts connections to `127.0.0.1:port`. Where that cannot be seen,
/// it is taken not to.
pub(super) fn listens(pid: u32, port: u16) -> bool {
    let Ok(table) = fs::read_to_string("/proc/net/tcp") else { return false };
    let names: Vec<_> = table
        .lines()
        .filter_map(|line| listener(line, port))
        .map(|inode| format!("socket:[{inode}]"))
        .collect();
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    !names.is_empty()
        && descriptors.flatten().any(|entry| {
            fs::read_link(entry.path()).is_ok_and(|target| {
                target.to_str().is_some_and(|target| names.iter().any(|name| name == target))
            })
        })
}

/// The inode of a socket that listens there: `slot local remote state … inode …`.
fn listener(line: &str, port: u16) -> Option<&str> {
    const LISTEN: &str = "0A";
    let mut fields = line.split_ascii_whitespace();
    let (address, found) = fields.nth(1)?.split_once(':')?;
    let address = Ipv4Addr::from(u32::from_str_radix(address, 16).ok()?.to_ne_bytes());
    let here = address.is_unspecified() || address == Ipv4Addr::LOCALHOST;
    let fits = here && u16::from_str_radix(found, 16) == Ok(port) && fields.nth(1)? == LISTEN;
    fields.nth(5).filter(|_| fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn a_port_belongs_to_who_listens_there() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port));
        let mut other = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        assert!(!listens(other.id(), port));
        other.kill().unwrap();
        other.wait().unwrap();
        drop(listener);
        assert!(!listens(std::process::id(), port));
    }
}
