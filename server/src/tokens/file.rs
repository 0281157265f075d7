//! `TokenFile` reads the tokens from a file, and again whenever the file changes.

use std::{
    collections::BTreeSet,
    fs::{self, Metadata},
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use engine::failure::Failure;
use parking_lot::Mutex;
use rustix::process::geteuid;
use serde::Deserialize;
use store::ErrorKind;

use super::{Role, SecretDigest, Tenants, Token, find};

const WRITTEN_BY_OTHERS: u32 = 0o022;
/// A name longer than this is a mistake.
const MAX_NAME_BYTES: usize = 64;
const EMPTY_HINT: &str = "`pstore token new --tenant NAME --role read` makes an entry";

/// The tokens of a file, as they were when it could last be read.
#[derive(Debug)]
pub struct TokenFile {
    path: PathBuf,
    read: Mutex<Read>,
}

#[derive(Debug)]
struct Read {
    /// Which state of the file was looked at last, whether it could be read or not.
    stamp: Option<Stamp>,
    tokens: Arc<Vec<Token>>,
    /// Whether the tokens are those of that state.
    is_in_order: bool,
}

/// Changes whenever somebody writes to the file, or puts another in its place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp([i64; 5]);

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        let (inode, size) = (metadata.ino() as i64, metadata.size() as i64);
        Self([inode, size, metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()])
    }
}

impl TokenFile {
    /// Reads the file, which must be in order.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let (stamp, tokens) = read(path)?;
        let read = Read { stamp: Some(stamp), tokens: Arc::new(tokens), is_in_order: true };
        Ok(Self { path: path.to_owned(), read: Mutex::new(read) })
    }

    /// The token with this secret.
    pub fn find(&self, secret: &str) -> Option<Token> {
        find(&self.current(), secret).cloned()
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.current().len()
    }

    /// Whether the tokens are those that the file has now: it is there, and it could be read.
    pub fn is_in_order(&self) -> bool {
        self.current();
        self.read.lock().is_in_order
    }

    /// The tokens as the file has them now. If it cannot be read, those that were read before stay, and
    /// that is said once.
    fn current(&self) -> Arc<Vec<Token>> {
        let now = fs::metadata(&self.path).ok().map(|metadata| Stamp::of(&metadata));
        let mut kept = self.read.lock();
        if now == kept.stamp {
            return Arc::clone(&kept.tokens);
        }
        match read(&self.path) {
            Ok((stamp, tokens)) => {
                tracing::info!(tokens = tokens.len(), "the token file was read again");
                *kept = Read { stamp: Some(stamp), tokens: Arc::new(tokens), is_in_order: true };
            }
            Err(failure) => {
                tracing::error!("the tokens stay as they were: {}", failure.message);
                kept.stamp = now;
                kept.is_in_order = false;
            }
        }
        Arc::clone(&kept.tokens)
    }
}

/// The file as it is: who can change it can do everything, so it must be this user's alone.
fn read(path: &Path) -> Result<(Stamp, Vec<Token>), Failure> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| {
        let failure = Failure::new(ErrorKind::Io, format!("cannot read the tokens in {shown}: {error}"));
        failure.hint(format!("{EMPTY_HINT}: add `>> {shown}`"))
    };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    let own = geteuid().as_raw();
    if metadata.uid() != own && metadata.uid() != 0 {
        let message = format!("the token file {shown} belongs to user {}", metadata.uid());
        return Err(Failure::usage(message).hint(format!("`chown {own} {shown}` if it is yours")));
    }
    if metadata.mode() & WRITTEN_BY_OTHERS != 0 {
        let mode = metadata.mode() & 0o7777;
        let message = format!("the token file {shown} can be changed by other users (mode {mode:04o})");
        return Err(Failure::usage(message).hint(format!("`chmod go-w {shown}` closes it")));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let tokens = parse(&text).map_err(|problem| Failure::usage(format!("{shown}: {problem}")))?;
    Ok((Stamp::of(&metadata), tokens))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    #[serde(default)]
    token: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: String,
    sha256: String,
    tenants: Vec<String>,
    role: Role,
    expires_at_ms: Option<u64>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Token>, String> {
    let document: Document = toml::from_str(text).map_err(|error| error.message().to_owned())?;
    let (mut names, mut digests) = (BTreeSet::new(), BTreeSet::new());
    let mut tokens = Vec::new();
    for entry in document.token {
        let Entry { name, sha256, tenants, role, expires_at_ms } = entry;
        check_name(&name)?;
        if !names.insert(name.clone()) {
            return Err(format!("two tokens are called {name}"));
        }
        let digest = SecretDigest::parse(&sha256)
            .ok_or_else(|| format!("the sha256 of {name} is not one of 64 digits 0-9 a-f"))?;
        if !digests.insert(digest.0) {
            return Err(format!("{name} has the sha256 of another token"));
        }
        let tenants = Tenants::of(&tenants).map_err(|problem| format!("the tenants of {name}: {problem}"))?;
        tokens.push(Token { name, digest, tenants, role, expires_at_ms });
    }
    Ok(tokens)
}

/// A name is written into logs and events.
pub(super) fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if name.is_empty() || name.len() > MAX_NAME_BYTES || !name.bytes().all(is_plain) {
        return Err(format!("{name:?} names no token: it takes up to {MAX_NAME_BYTES} of A-Z a-z 0-9 . _ -"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::{fs::Permissions, os::unix::fs::PermissionsExt};

    use super::*;

    fn entry(name: &str, secret: &str) -> String {
        let digest = SecretDigest::of(secret);
        format!(
            "[[token]]\nname = \"{name}\"\nsha256 = \"{digest}\"\ntenants = [\"acme\"]\nrole = \"read\"\n"
        )
    }

    #[test]
    fn the_file_is_read_again_when_it_changes_and_a_broken_one_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, entry("one", "s1")).unwrap();
        let tokens = TokenFile::open(&path).unwrap();
        assert_eq!(tokens.find("s1").unwrap().name, "one");
        assert_eq!(tokens.find("s2"), None);
        fs::write(&path, format!("{}{}", entry("one", "s1"), entry("two", "s2"))).unwrap();
        assert_eq!(tokens.find("s2").unwrap().name, "two");
        for broken in ["[[token]", "[[token]]\nname = \"x\"\n", &entry("a b", "s")] {
            fs::write(&path, broken).unwrap();
            assert!(tokens.find("s1").is_some() && tokens.find("s2").is_some(), "{broken}");
            assert!(!tokens.is_in_order(), "{broken}");
        }
        fs::remove_file(&path).unwrap();
        assert_eq!(tokens.count(), 2);
        // Another file in its place, as editors do it.
        fs::write(folder.path().join("next"), entry("two", "s2")).unwrap();
        fs::rename(folder.path().join("next"), &path).unwrap();
        assert!(tokens.find("s1").is_none() && tokens.find("s2").is_some() && tokens.is_in_order());
    }

    #[test]
    fn a_file_that_others_can_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens.toml");
        fs::write(&path, entry("one", "s1")).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        let failure = TokenFile::open(&path).unwrap_err();
        assert!(failure.message.contains("can be changed by other users"), "{failure:?}");
        assert!(failure.hint.unwrap().starts_with("`chmod go-w "));
        assert!(TokenFile::open(&folder.path().join("none")).is_err());
    }

    #[test]
    fn an_entry_with_a_mistake_is_refused_with_what_it_is() {
        let good = entry("one", "s1");
        for (wrong, words) in [
            (good.replace("one", "a b"), "names no token"),
            (format!("{good}{good}"), "two tokens are called one"),
            (format!("{good}{}", good.replace("one", "two")), "two has the sha256 of another token"),
            (good.replace("\"acme\"", ""), "for no tenant"),
            (good.replace("read", "owner"), "unknown variant"),
            (good.replace("sha256 = \"", "sha256 = \"0"), "not one of 64 digits"),
            (format!("{good}colour = 1\n"), "unknown field"),
        ] {
            let problem = parse(&wrong).unwrap_err();
            assert!(problem.contains(words), "{problem}");
        }
        assert_eq!(parse("").unwrap(), []);
    }
}
