//! `names` reads extensions and origins from the names of a profile's files.

use std::collections::BTreeSet;

/// An extension of one of the profiles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extension {
    pub profile: String,
    pub id: String,
    pub version: String,
}

/// The extension whose directory this path is: `Default/Extensions/ID/VERSION`.
pub fn extension(path: &[u8]) -> Option<Extension> {
    let text = std::str::from_utf8(path).ok()?;
    let [profile, "Extensions", id, version] = text.split('/').collect::<Vec<_>>()[..] else { return None };
    // Chrome's own directory for what is being installed is no extension.
    let is_id = id.len() == 32 && id.bytes().all(|b| (b'a'..=b'p').contains(&b));
    is_id.then(|| Extension { profile: profile.to_owned(), id: id.to_owned(), version: version.to_owned() })
}

/// The origin that keeps a database at this path: `Default/IndexedDB/https_example.com_0.indexeddb.leveldb`.
pub fn origin(path: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(path).ok()?;
    let [_, "IndexedDB", name] = text.split('/').collect::<Vec<_>>()[..] else { return None };
    let (scheme, rest) = name.strip_suffix(".indexeddb.leveldb")?.split_once('_')?;
    let (host, port) = rest.rsplit_once('_')?;
    match port {
        "0" => Some(format!("{scheme}://{host}")),
        port => Some(format!("{scheme}://{host}:{port}")),
    }
}

/// Those that only one of the two has: first those that came, then those that went.
pub fn changed<T: Clone + Ord>(before: &BTreeSet<T>, after: &BTreeSet<T>) -> (Vec<T>, Vec<T>) {
    (after.difference(before).cloned().collect(), before.difference(after).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_and_origins_are_told_from_paths() {
        let id = "abcdefghijklmnopabcdefghijklmnop";
        let found = extension(format!("Default/Extensions/{id}/1.2_0").as_bytes()).unwrap();
        assert_eq!((found.id.as_str(), found.version.as_str()), (id, "1.2_0"));
        for other in ["Default/Extensions/Temp/1", "Default/Extensions", "Default/x/y/z"] {
            assert_eq!(extension(other.as_bytes()), None, "{other}");
        }
        let origin = |name: &str| origin(format!("Default/IndexedDB/{name}").as_bytes());
        assert_eq!(origin("https_www.example.com_0.indexeddb.leveldb").unwrap(), "https://www.example.com");
        assert_eq!(origin("http_localhost_8080.indexeddb.leveldb").unwrap(), "http://localhost:8080");
        assert_eq!(origin("https_www.example.com_0.indexeddb.blob"), None);
    }
}
