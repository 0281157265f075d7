//! `json_edit` changes single members of a JSON object and no other byte.
//!
//! Preferences hold numbers that fit no 64-bit type, in an order that readers may rely on; writing a parsed document
//! back might keep neither. So it edits the text.

use std::ops::Range;

/// Sets members of the object that is member `object` of the document. `None` if the text is
/// not JSON or has no such object.
pub(super) fn set(text: &[u8], object: &str, values: &[(&str, &str)]) -> Option<Vec<u8>> {
    // What follows relies on the text being well-formed.
    serde_json::from_slice::<serde::de::IgnoredAny>(text).ok()?;
    let start = skip_space(text, 0);
    let mut edits: Vec<(Range<usize>, String)> = Vec::new();
    for (_, target) in members(text, start)?.into_iter().filter(|(key, _)| key == object) {
        let Some(found) = members(text, target.start) else { continue };
        for (name, value) in values {
            let places: Vec<_> = found.iter().filter(|(key, _)| key == name).collect();
            for (_, place) in &places {
                edits.push((place.clone(), (*value).to_owned()));
            }
            if places.is_empty() {
                let at = target.start + 1;
                let comma = if found.is_empty() && edits.iter().all(|(range, _)| range.start != at) {
                    ""
                } else {
                    ","
                };
                edits.push((at..at, format!("\"{name}\":{value}{comma}")));
            }
        }
    }
    if edits.is_empty() {
        return None;
    }
    // From the end, so that what is still to be done keeps its place. The sort keeps the order
    // of those at the same place; the first of them ends up last, and has no comma if it need not.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut edited = text.to_vec();
    for (range, value) in edits {
        edited.splice(range, value.into_bytes());
    }
    Some(edited)
}

/// Keys and places of values of the object that begins at `start`; `None` if none does.
fn members(text: &[u8], start: usize) -> Option<Vec<(String, Range<usize>)>> {
    let mut found = Vec::new();
    let mut at = start;
    if text.get(at) != Some(&b'{') {
        return None;
    }
    loop {
        at = skip_space(text, at + 1);
        if text.get(at)? == &b'}' {
            return Some(found);
        }
        let key_end = end_of_value(text, at)?;
        let key = serde_json::from_slice(&text[at..key_end]).ok()?;
        let colon = skip_space(text, key_end);
        let value = skip_space(text, colon + 1);
        let value_end = end_of_value(text, value)?;
        found.push((key, value..value_end));
        at = skip_space(text, value_end);
        if text.get(at)? == &b'}' {
            return Some(found);
        }
    }
}

fn skip_space(text: &[u8], from: usize) -> usize {
    let rest = text.get(from..).unwrap_or_default();
    from + rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
}

fn end_of_value(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut depth = 0_usize;
    loop {
        match text.get(at)? {
            b'"' => at = end_of_string(text, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            // Numbers and words end where something else begins.
            _ if depth == 0 => {
                let rest = &text[at..];
                let len = rest.iter().position(|byte| b",]} \t\r\n".contains(byte)).unwrap_or(rest.len());
                return (len > 0).then_some(at + len);
            }
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

fn end_of_string(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        match text.get(at)? {
            b'\\' => at += 2,
            b'"' => return Some(at + 1),
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NORMAL: [(&str, &str); 2] = [("exit_type", "\"Normal\""), ("exited_cleanly", "true")];

    fn edit(text: &str) -> Option<String> {
        set(text.as_bytes(), "profile", &NORMAL).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn only_the_members_asked_for_change() {
        let text = r#" {"big":123456789012345678901234567890.10e3, "s":"}\"{profile", "profile" : {"a":[{"exit_type":"x"}],
            "exit_type" : "Cra\"shed" , "exited_cleanly":false, "z":1E400}, "o":{"profile":{"exit_type":"x"}}}"#;
        let expected = text
            .replace(r#""Cra\"shed""#, r#""Normal""#)
            .replace(r#""exited_cleanly":false"#, r#""exited_cleanly":true"#);
        assert_eq!(edit(&text.replace("1E400", "1")), Some(expected.replace("1E400", "1")));
    }

    #[test]
    fn what_is_missing_is_added() {
        let added = edit(r#"{"profile":{}}"#).unwrap();
        let value: serde_json::Value = serde_json::from_str(&added).unwrap();
        assert_eq!(value, serde_json::json!({"profile": {"exit_type": "Normal", "exited_cleanly": true}}));
        let added = edit(r#"{"profile":{ "exit_type":"Crashed"}}"#).unwrap();
        assert_eq!(added, r#"{"profile":{"exited_cleanly":true, "exit_type":"Normal"}}"#);
        let added = edit("{\"profile\":\n{\"name\":\"x\"}}").unwrap();
        let value: serde_json::Value = serde_json::from_str(&added).unwrap();
        assert_eq!(value["profile"]["name"], "x");
        assert_eq!(value["profile"]["exited_cleanly"], true);
    }

    #[test]
    fn a_member_given_twice_or_in_other_letters_is_found() {
        let edited =
            edit(r#"{"profile":{"exit_type":"a","\u0065xit_type":"b","exited_cleanly":true}}"#).unwrap();
        assert_eq!(edited.matches("Normal").count(), 2);
    }

    #[test]
    fn what_is_not_such_a_document_is_left_alone() {
        for text in ["", "{", "[]", "7", "{}", r#"{"profile":7}"#, r#"{"profile":[]}"#, r#"{"profile":{}"#] {
            assert_eq!(edit(text), None, "{text}");
        }
    }
}
