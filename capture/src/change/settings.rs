//! `settings` tells which settings differ between two `Preferences`. It tells their names, never their values.

use std::collections::BTreeSet;

use serde_json::Value;

/// A larger file is no document of Chrome's.
pub const MAX_BYTES: u64 = 64 << 20;
/// Names are told so deep; below that lie the names of sites, and other things of the user's.
const DEPTH: usize = 3;

/// The names of settings that one document has and the other has not, or has otherwise; `None` if one
/// of them is no such document. One that is not there has none.
pub fn changed(before: Option<&[u8]>, after: Option<&[u8]>) -> Option<BTreeSet<String>> {
    let read = |bytes: Option<&[u8]>| match bytes {
        Some(bytes) => serde_json::from_slice::<Value>(bytes).ok().filter(Value::is_object),
        None => Some(Value::Object(Default::default())),
    };
    let mut names = BTreeSet::new();
    gather(&read(before)?, &read(after)?, &mut Vec::new(), &mut names);
    Some(names)
}

fn gather<'a>(before: &'a Value, after: &'a Value, at: &mut Vec<&'a str>, names: &mut BTreeSet<String>) {
    if before == after {
        return;
    }
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        names.insert(at.join("."));
        return;
    };
    if at.len() == DEPTH {
        names.insert(at.join("."));
        return;
    }
    for key in old.keys().chain(new.keys()).collect::<BTreeSet<&String>>() {
        at.push(key);
        let empty = &Value::Null;
        match (old.get(key), new.get(key)) {
            (Some(old), Some(new)) => gather(old, new, at, names),
            // Of what has come or gone as a whole, the parts are not told.
            (old, new) => gather(old.unwrap_or(empty), new.unwrap_or(empty), at, names),
        }
        at.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(before: &str, after: &str) -> Option<Vec<String>> {
        Some(changed(Some(before.as_bytes()), Some(after.as_bytes()))?.into_iter().collect())
    }

    #[test]
    fn names_are_told_and_no_values() {
        let before = r#"{"a": 1, "homepage": "https://secret", "deep": {"b": {"c": {"https://site": 1}}}, "gone": {"x": 1}}"#;
        let after = r#"{"a": 1, "homepage": "other", "deep": {"b": {"c": {"https://site": 2}, "d": [1]}}}"#;
        assert_eq!(names(before, after).unwrap(), ["deep.b.c", "deep.b.d", "gone", "homepage"]);
        assert_eq!(names(before, before).unwrap(), [""; 0]);
        assert_eq!(names("{", after), None);
        assert_eq!(names("[]", after), None);
        assert_eq!(changed(None, Some(br#"{"a": 1}"#)).unwrap().into_iter().collect::<Vec<_>>(), ["a"]);
    }
}
