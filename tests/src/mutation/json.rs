//! `json` makes other documents of known ones.

use serde_json::{Value, json};

use super::Dice;

/// Puts something else in the place of one value, or leaves it out.
pub(crate) fn change(bytes: &mut Vec<u8>, dice: &mut Dice) {
    let Ok(mut document) = serde_json::from_slice::<Value>(bytes) else { return };
    let mut chosen = dice.below(count(&document));
    let other = nth(&document, &mut dice.below(count(&document))).cloned();
    let new = match dice.below(10) {
        0 => Value::Null,
        1 => json!(dice.number()),
        2 => json!(-1),
        3 => json!(0.5),
        4 => json!(""),
        5 => json!("x".repeat(1 << dice.below(14))),
        6 => json!([[[{ "a": [] }]]]),
        7 => json!("\u{0}\u{1f}\"\\\u{10ffff}/../"),
        8 => json!(vec![0; dice.below(5000)]),
        _ => other.unwrap_or_default(),
    };
    put(&mut document, &mut chosen, &new, dice.below(6) == 0);
    *bytes = document.to_string().into_bytes();
}

/// Every value below this one and itself.
fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(values) => values.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn nth<'a>(value: &'a Value, at: &mut usize) -> Option<&'a Value> {
    if *at == 0 {
        return Some(value);
    }
    *at -= 1;
    match value {
        Value::Array(values) => values.iter().find_map(|value| nth(value, at)),
        Value::Object(fields) => fields.values().find_map(|value| nth(value, at)),
        _ => None,
    }
}

/// Replaces the value that is counted down to; says whether it was found. A field may go instead.
fn put(value: &mut Value, at: &mut usize, new: &Value, remove: bool) -> bool {
    if *at == 0 {
        *value = new.clone();
        return true;
    }
    *at -= 1;
    match value {
        Value::Array(values) => values.iter_mut().any(|value| put(value, at, new, remove)),
        Value::Object(fields) => {
            let mut gone = None;
            let mut found = false;
            for (name, value) in fields.iter_mut() {
                if *at == 0 && remove {
                    gone = Some(name.clone());
                }
                found = put(value, at, new, remove);
                if found {
                    break;
                }
            }
            gone.map(|name| fields.remove(&name));
            found
        }
        _ => false,
    }
}
