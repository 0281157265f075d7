//! These tests hold the documents of the vectors against the schemas of `format-spec/schemas`.

use std::fs;

use serde_json::Value;

use super::{document, on_disk, spec};

#[test]
fn the_schemas_describe_the_documents() {
    let files = on_disk();
    for (schema, suffix) in [
        ("store", "/pstore.json"),
        ("tenant", "/tenant.json"),
        ("record", "/snap-01JED0YH00248H248H248H248H.json"),
        ("record", "/snap-01JED10BK048H248H248H248H2.json"),
        ("pointer", "/latest.json"),
        ("pointer", "steps/claimed-first.json"),
        ("pointer", "steps/foreign-claimed.json"),
        ("lock", "/lock.json"),
        ("event", "/events/01JED0YKXR8H248H248H248H24.json"),
        ("event", "/events/01JED0YG0RNANANANANANANANA.json"),
        ("events", "/events/merged-01JEFKB800EXVQEXVQEXVQEXVQ.json"),
        ("manifest", "manifest.json"),
        ("tombstone", "tombstone.json"),
        ("wip", "wip.json"),
        ("record", "records/damaged.json"),
        ("record", "records/hot.json"),
        ("record", "records/moved.json"),
        ("pin", "/pins/01JED0YNW8QEXVQEXVQEXVQEXV"),
        ("expectations", "/expectations.json"),
        ("condemned", "/condemned/01JED0YGZZ6CSK6CSK6CSK6CSK"),
    ] {
        let schema = fs::read(spec().join(format!("schemas/{schema}.json"))).unwrap();
        let mut document: Value = serde_json::from_slice(&document(&files, suffix)).unwrap();
        forget_tomorrow(&mut document);
        fits(&serde_json::from_slice(&schema).unwrap(), &document, suffix);
    }
}

/// The documents carry a field of tomorrow wherever one may be; no schema knows it.
fn forget_tomorrow(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.remove("a_field_of_tomorrow");
            fields.values_mut().for_each(forget_tomorrow);
        }
        Value::Array(items) => items.iter_mut().for_each(forget_tomorrow),
        _ => {}
    }
}

/// Every field is described, and every required one is there.
fn fits(schema: &Value, value: &Value, at: &str) {
    let choices = schema["anyOf"].as_array().map_or(&[] as &[Value], Vec::as_slice);
    let schema =
        choices.iter().find(|choice| choice["type"] != "null").filter(|_| !value.is_null()).unwrap_or(schema);
    match value {
        Value::Object(fields) => {
            for required in schema["required"].as_array().into_iter().flatten() {
                assert!(fields.contains_key(required.as_str().unwrap()), "{at} lacks {required}");
            }
            for (name, value) in fields {
                let at = format!("{at}.{name}");
                let described = schema["properties"].get(name).or_else(|| schema.get("additionalProperties"));
                fits(described.unwrap_or_else(|| panic!("{at} is not described")), value, &at);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| fits(&schema["items"], item, at)),
        Value::String(_) if schema.get("type").is_some() => assert_eq!(schema["type"], "string", "{at}"),
        Value::Number(_) if schema.get("type").is_some() => assert_eq!(schema["type"], "integer", "{at}"),
        _ => {}
    }
    if let Some(constant) = schema.get("const") {
        assert_eq!(constant, value, "{at}");
    }
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        assert!(choices.contains(value), "{at} is {value}");
    }
}
