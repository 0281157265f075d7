//! `document` checks JSON documents: I4.

use serde_json::Value;

use super::State;

impl State {
    /// Keeps every document whose `check` is right.
    pub(super) fn read_documents(&mut self) {
        for (key, bytes) in self.objects.clone() {
            let json = key.ends_with(".json") && !key.ends_with(".manifest.json");
            let content = ["/condemned/", "/pins/"].iter().any(|folder| key.contains(folder));
            if key.starts_with("probe/") || key.contains("/probe/") || !(json || content) {
                continue;
            }
            let read = serde_json::from_slice::<Value>(&bytes).map_err(|error| error.to_string());
            let Some(document) = self.findings.whole(read, "I4", &key) else { continue };
            // The contract's own documents have a check in our block alone, and need not have one.
            let checked = match key.ends_with("/latest.json") || key.ends_with("/lock.json") {
                true => document.get("pstore").cloned(),
                false => Some(document.clone()),
            };
            let right = checked.is_none_or(|checked| text(&checked, "check") == digest(&checked));
            self.findings.must(right, "I4", format_args!("the check of {key}"));
            self.findings.must(document["version"] == 1, "I4", format_args!("the version of {key}"));
            self.documents.insert(key, document);
        }
    }
}

/// A string of a document; empty if there is none.
pub(super) fn text<'a>(document: &'a Value, field: &str) -> &'a str {
    document[field].as_str().unwrap_or_default()
}

pub(super) fn number(document: &Value, field: &str) -> u64 {
    document[field].as_u64().unwrap_or_default()
}

/// Empty if it is none.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Option<Vec<u8>> =
        text.chars().map(|digit| digit.to_digit(16).map(|digit| digit as u8)).collect();
    digits
        .unwrap_or_default()
        .chunks(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect()
}

/// The correct `check` of a document.
pub fn digest(document: &Value) -> String {
    let mut without = document.clone();
    if let Some(fields) = without.as_object_mut() {
        fields.remove("check");
    }
    let mut compact = String::new();
    write(&without, &mut compact);
    blake3::hash(compact.as_bytes()).to_hex().to_string()
}

/// The compact form of 11.1.
fn write(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.as_bytes().cmp(b.as_bytes()));
            out.push('{');
            for (place, (name, value)) in fields.into_iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                quote(name, out);
                out.push(':');
                write(value, out);
            }
            out.push('}');
        }
        Value::Array(values) => {
            out.push('[');
            for (place, value) in values.iter().enumerate() {
                out.push_str(if place > 0 { "," } else { "" });
                write(value, out);
            }
            out.push(']');
        }
        Value::String(text) => quote(text, out),
        other => out.push_str(&other.to_string()),
    }
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            '\x08' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\x0c' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => out.push_str(&format!("\\u{:04x}", control as u32)),
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Whether a record can have come from one state to another, along the arrows of 11.4.
pub(super) fn reachable(from: &str, to: &str) -> bool {
    match from {
        "writing" => true,
        "live" | "trashed" => ["live", "trashed", "tombstone"].contains(&to),
        last => last == to,
    }
}
