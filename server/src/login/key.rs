//! `LoginKey` signs the cookies of the page.

use std::path::Path;

use engine::failure::Failure;
use store::ErrorKind;

use crate::reloaded_files::read_own;

/// Fewer bytes could be guessed.
const MIN_BYTES: usize = 32;
/// A user who can read the key can make cookies.
const OF_OTHERS: u32 = 0o077;
/// Separates this use of the bytes from any other.
const CONTEXT: &str = "pstore 2026-11 key of the cookies of the page";

/// The key of this server, or of all servers with the same file.
#[derive(Clone)]
pub(crate) struct LoginKey([u8; 32]);

impl std::fmt::Debug for LoginKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LoginKey")
    }
}

impl LoginKey {
    /// Of a file; or a new one, which ends with this process.
    pub(crate) fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let Some(path) = path else { return Self::random() };
        let shown = path.display();
        let hint = format!("`(umask 077; head -c 32 /dev/urandom | base64 > {shown})` makes one");
        let bytes = read_own(path, "key of the page", &hint, OF_OTHERS)?;
        match bytes.trim_ascii() {
            short if short.len() < MIN_BYTES => {
                let message = format!("the key of the page {shown} has fewer than {MIN_BYTES} bytes");
                Err(Failure::usage(message).hint(hint))
            }
            bytes => Ok(Self(blake3::derive_key(CONTEXT, bytes))),
        }
    }

    fn random() -> Result<Self, Failure> {
        let mut key = [0; 32];
        getrandom::fill(&mut key).map_err(|error| {
            Failure::new(ErrorKind::Io, format!("this host gives no random bytes: {error}"))
        })?;
        Ok(Self(key))
    }

    /// The signature of these bytes for one use.
    pub(super) fn sign(&self, purpose: &str, parts: &[&str]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.0);
        for part in [purpose].iter().chain(parts) {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part.as_bytes());
        }
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::PermissionsExt,
    };

    use super::*;

    #[test]
    fn servers_with_the_same_file_agree_and_others_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login.key");
        fs::write(&path, "0123456789abcdef0123456789abcdef\n").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let sign = |key: &LoginKey| key.sign("a use", &["text"]);
        let [one, two] = [(); 2].map(|()| LoginKey::open(Some(&path)).unwrap());
        assert_eq!(sign(&one), sign(&two));
        assert_ne!(sign(&one), one.sign("a use", &["te", "xt"]));
        assert_ne!(sign(&one), one.sign("another use", &["text"]));
        let [one, two] = [(); 2].map(|()| LoginKey::open(None).unwrap());
        assert_ne!(sign(&one), sign(&two));
    }

    #[test]
    fn a_key_that_is_short_or_that_others_can_read_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("login.key");
        fs::write(&path, "short").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(LoginKey::open(Some(&path)).unwrap_err().message.contains("fewer than 32 bytes"));
        fs::write(&path, [b'x'; 64]).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        LoginKey::open(Some(&path)).unwrap_err();
    }
}
