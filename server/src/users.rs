//! `SocketUser` gives a user of this host, who calls through a socket in the file system, a tenant and a role.

use std::str::FromStr;

use crate::tokens::{Caller, CallerKind, Role, Tenants};

/// A user, by the number that the kernel gives when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketUser {
    uid: u32,
    tenants: Tenants,
    role: Role,
}

impl FromStr for SocketUser {
    type Err = String;

    /// As `1000=acme:run`, or `0=*:admin`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "it takes a user, a tenant and a role, as 1000=acme:run; * for all tenants".to_owned();
        let (uid, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (tenant, role) = rest.rsplit_once(':').ok_or_else(wrong)?;
        Ok(Self {
            uid: uid.parse().map_err(|_| wrong())?,
            tenants: Tenants::of(&[tenant.to_owned()])?,
            role: Role::ALL.into_iter().find(|known| known.name() == role).ok_or_else(wrong)?,
        })
    }
}

/// The caller, if this user is known.
pub(crate) fn caller(users: &[SocketUser], uid: u32) -> Option<Caller> {
    let user = users.iter().find(|user| user.uid == uid)?;
    let SocketUser { tenants, role, .. } = user.clone();
    Some(Caller { kind: CallerKind::User, name: uid.to_string(), tenants, role })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_known_by_number_and_by_nothing_else() {
        let users = ["1000=acme:run", "0=*:admin"].map(|text| text.parse::<SocketUser>().unwrap());
        let known = caller(&users, 1000).unwrap();
        assert_eq!((known.to_string().as_str(), known.role), ("user 1000", Role::Run));
        assert!(known.tenants.include("acme") && !known.tenants.include("other"));
        assert!(caller(&users, 0).unwrap().tenants.include("other"));
        assert_eq!(caller(&users, 1), None);
        for wrong in
            ["", "1000", "1000=acme", "x=acme:run", "-1=acme:run", "1=acme:king", "1=:run", "1=a/b:run"]
        {
            wrong.parse::<SocketUser>().unwrap_err();
        }
    }
}
