//! `Certified` is the identity in a client's certificate: its tenant and its role.

use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use webpki::EndEntityCert;

use crate::tokens::{Caller, CallerKind, Role, Tenants};

/// The prefix of a tenant's name among the alternative names of a certificate.
const SCHEME: &str = "pstore://";
const TENANT: &str = "pstore://tenant/";
const ROLE: &str = "?role=";
/// So many digits of its SHA-256 name a certificate in logs and events.
const DIGITS: usize = 12;

/// A certificate that an authority vouches for.
#[derive(Clone, Debug)]
pub(crate) struct Certified {
    /// The client that it names; or the reason why it names none.
    pub(crate) caller: Result<Caller, String>,
    /// The certificate, and those that lead from it to an authority.
    pub(super) chain: Arc<[CertificateDer<'static>]>,
}

impl Certified {
    /// None if nothing was shown.
    pub(super) fn of(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let certificate = chain.first()?;
        let digest = Sha256::digest(certificate.as_ref());
        let mut name: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        name.truncate(DIGITS);
        let names = EndEntityCert::try_from(certificate).map_err(|error| error.to_string());
        let caller = names.and_then(|certificate| {
            let uris: Vec<&str> = certificate.valid_uri_names().collect();
            let (tenants, role) = meant(&uris)?;
            Ok(Caller { kind: CallerKind::Certificate, name, tenants, role })
        });
        Some(Self { caller, chain: chain.iter().cloned().map(CertificateDer::into_owned).collect() })
    }
}

/// The tenant and the role that these names say. Names of other programs do not matter.
fn meant(uris: &[&str]) -> Result<(Tenants, Role), String> {
    let own: Vec<&str> = uris.iter().copied().filter(|uri| uri.starts_with(SCHEME)).collect();
    let [uri] = own[..] else {
        return Err(match own.len() {
            0 => format!("this certificate has no name {TENANT}NAME{ROLE}ROLE"),
            _ => format!("this certificate has more than one name that begins with {SCHEME}"),
        });
    };
    let named = uri.strip_prefix(TENANT).and_then(|rest| rest.split_once(ROLE));
    let (tenant, role) = named.ok_or_else(|| format!("{uri} is not of the form {TENANT}NAME{ROLE}ROLE"))?;
    let role = Role::ALL.into_iter().find(|known| known.name() == role);
    let role = role.ok_or_else(|| format!("{uri} names no role"))?;
    Ok((Tenants::of(&[tenant.to_owned()])?, role))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_name_says_the_tenant_and_the_role() {
        let (tenants, role) = meant(&["spiffe://x/y", "pstore://tenant/acme?role=run"]).unwrap();
        assert!(tenants.include("acme") && !tenants.include("other"));
        assert_eq!(role, Role::Run);
        assert!(meant(&["pstore://tenant/*?role=admin"]).unwrap().0.include("anybody"));
        for wrong in [
            &[][..],
            &["spiffe://x/y"],
            &["pstore://tenant/acme?role=run", "pstore://tenant/other?role=run"],
            &["pstore://tenant/acme"],
            &["pstore://tenant/acme?role=owner"],
            &["pstore://tenant/acme?role=run&x=1"],
            &["pstore://tenant/?role=run"],
            &["pstore://tenant/a/b?role=run"],
            &["pstore://role/run"],
            &["PSTORE://tenant/acme?role=run"],
        ] {
            assert!(meant(wrong).is_err(), "{wrong:?}");
        }
    }
}
