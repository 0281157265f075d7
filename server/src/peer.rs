//! `Peer` says where a request came from.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
};

/// Where a request came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// From an address.
    Address(IpAddr),
    /// Through a socket in the file system, where callers have no address of their own: the user, if the kernel
    /// tells.
    Socket(Option<LocalUser>),
}

/// A user of this host, as the kernel names it when it connects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocalUser {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
}

/// As logs name it.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Socket(_) => f.write_str("unix"),
        }
    }
}

impl Peer {
    /// The name that its requests are counted against. A caller with one IPv6 address has 2⁶⁴ of them.
    pub(crate) fn network(&self) -> Option<String> {
        let address = match self {
            Self::Address(address) => address,
            Self::Socket(user) => return user.map(|user| format!("user {} without a token", user.uid)),
        };
        Some(match address.to_canonical() {
            IpAddr::V4(address) => format!("address {address}"),
            IpAddr::V6(address) => {
                let network = Ipv6Addr::from_bits(address.to_bits() >> 64 << 64);
                format!("network {network}/64")
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_network_count_as_one() {
        let network = |address: &str| Peer::Address(address.parse().unwrap()).network().unwrap();
        assert_eq!(network("192.0.2.1"), "address 192.0.2.1");
        assert_eq!(network("::ffff:192.0.2.1"), network("192.0.2.1"));
        assert_eq!(network("2001:db8:1:2::1"), "network 2001:db8:1:2::/64");
        assert_eq!(network("2001:db8:1:2:ffff::1"), network("2001:db8:1:2::1"));
        assert_ne!(network("2001:db8:1:3::1"), network("2001:db8:1:2::1"));
        let user = |uid| Peer::Socket(Some(LocalUser { uid, gid: 0 })).network().unwrap();
        assert_ne!(user(1000), user(1001));
        assert_eq!(Peer::Socket(None).network(), None);
    }
}
