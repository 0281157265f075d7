//! `issue` makes a new token: a secret for its holder, and an entry for the token file.

use std::{fmt::Write, str::FromStr, time::Duration};

use engine::{failure::Failure, outcome::Outcome, text::time};
use schemars::JsonSchema;
use serde::Serialize;
use store::catalog::clock;

use super::{Role, SecretDigest, Tenants, file};

/// Begins every secret, so that it is known for one wherever it turns up.
const MARK: &str = "pstore_";

/// Asks for a new token.
#[derive(Clone, Debug)]
pub struct IssueRequest {
    /// Names it in logs and events; made up if it is not said.
    pub name: Option<String>,
    /// The tenants that it is for; `*` stands for all.
    pub tenants: Vec<String>,
    /// The rights of its holder.
    pub role: Role,
    /// How long it can be used.
    pub lifetime: Lifetime,
}

/// How long a token can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// So long.
    For(Duration),
    /// Until its entry is removed.
    Unlimited,
}

impl FromStr for Lifetime {
    type Err = String;

    /// `90d`, `12h`, `30m`, or `never` for one that does not end by itself.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "never" {
            return Ok(Self::Unlimited);
        }
        let wrong = || "it takes a number of days, hours or minutes, as 90d, 12h or 30m; or never".to_owned();
        let unit_seconds = match text.chars().last() {
            Some('d') => 86_400,
            Some('h') => 3600,
            Some('m') => 60,
            _ => return Err(wrong()),
        };
        let number = text[..text.len() - 1].parse::<u32>().ok().filter(|number| *number > 0);
        let number = number.ok_or_else(wrong)?;
        Ok(Self::For(Duration::from_secs(u64::from(number) * unit_seconds)))
    }
}

/// A token that was just made. Its secret is printed only once.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct IssuedToken {
    /// Names it in logs and events.
    pub name: String,
    /// The tenants that it is for; `*` stands for all.
    pub tenants: Vec<String>,
    /// The rights of its holder.
    pub role: Role,
    /// When it ends; never if there is none.
    pub expires_at_ms: Option<u64>,
    /// The secret that its holder sends with every request.
    pub secret: String,
    /// The SHA-256 of the secret.
    pub sha256: String,
    /// The entry for the token file, which does not hold the secret.
    pub entry: String,
}

impl Outcome for IssuedToken {}

impl IssuedToken {
    /// Makes a token.
    pub fn issue(request: &IssueRequest) -> Result<Self, Failure> {
        let tenants = Tenants::of(&request.tenants).map_err(Failure::usage)?.names();
        let random = |bytes: &mut [u8]| {
            getrandom::fill(bytes)
                .map_err(|error| Failure::internal(format!("this host gives no random numbers: {error}")))
        };
        let (mut secret, mut distinct) = ([0; 32], [0; 3]);
        random(&mut secret)?;
        random(&mut distinct)?;
        let secret = format!("{MARK}{}", hex(&secret));
        let name = match &request.name {
            Some(name) => name.clone(),
            None => format!("{}-{}", request.role, hex(&distinct)),
        };
        file::check_name(&name).map_err(Failure::usage)?;
        let expires_at_ms = match request.lifetime {
            Lifetime::For(lifetime) => Some(clock::unix_ms() + lifetime.as_millis() as u64),
            Lifetime::Unlimited => None,
        };
        let sha256 = SecretDigest::of(&secret).to_string();
        let entry = entry(&name, &sha256, &tenants, request.role, expires_at_ms);
        Ok(Self { name, tenants, role: request.role, expires_at_ms, secret, sha256, entry })
    }
}

/// The names were checked, so that none of them needs an escape.
fn entry(name: &str, sha256: &str, tenants: &[String], role: Role, expires_at_ms: Option<u64>) -> String {
    let tenants: Vec<String> = tenants.iter().map(|tenant| format!("\"{tenant}\"")).collect();
    let mut entry = format!(
        "[[token]]\nname = \"{name}\"\nsha256 = \"{sha256}\"\ntenants = [{}]\nrole = \"{role}\"\n",
        tenants.join(", ")
    );
    if let Some(end) = expires_at_ms {
        // Writing to memory does not fail.
        let _ = writeln!(entry, "expires_at_ms = {end} # {} UTC", time::utc(end));
    }
    entry.push('\n');
    entry
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lifetime_is_read_in_days_hours_and_minutes() {
        let seconds = |text: &str| match text.parse() {
            Ok(Lifetime::For(lifetime)) => Some(lifetime.as_secs()),
            _ => None,
        };
        assert_eq!(seconds("90d"), Some(90 * 86_400));
        assert_eq!(seconds("12h"), Some(12 * 3600));
        assert_eq!(seconds("30m"), Some(1800));
        assert_eq!("never".parse(), Ok(Lifetime::Unlimited));
        for wrong in ["", "d", "0d", "-1d", "90", "90 d", "1ü", "99999999999d"] {
            assert!(wrong.parse::<Lifetime>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_entry_can_be_read_back_and_holds_no_secret() {
        let request = IssueRequest {
            name: None,
            tenants: vec!["acme".to_owned(), "other".to_owned()],
            role: Role::Operate,
            lifetime: Lifetime::For(Duration::from_secs(60)),
        };
        let issued = IssuedToken::issue(&request).unwrap();
        assert!(!issued.entry.contains(&issued.secret));
        let unlimited =
            IssueRequest { name: Some("ci".to_owned()), lifetime: Lifetime::Unlimited, ..request };
        let second = IssuedToken::issue(&unlimited).unwrap();
        let tokens = file::parse(&format!("{}{}", issued.entry, second.entry)).unwrap();
        assert_eq!(tokens.len(), 2);
        assert_eq!(tokens[0].digest, SecretDigest::of(&issued.secret));
        assert_eq!((tokens[0].role, tokens[0].expires_at_ms), (Role::Operate, issued.expires_at_ms));
        assert_eq!((tokens[1].name.as_str(), tokens[1].expires_at_ms), ("ci", None));
        assert_ne!(issued.secret, second.secret);
    }
}
