//! `Schema` implements as much of JSON Schema as docs/schemas uses. An unknown keyword fails the test, so that none
//! is written down without being checked.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Map, Value};

pub struct Schema {
    root: Value,
}

impl Schema {
    pub fn directory() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/schemas")
    }

    pub fn of(name: &str) -> Self {
        Self::read(&Self::directory().join(format!("{name}.json")))
    }

    fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        Self {
            root: serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display())),
        }
    }

    /// What is wrong with a document, each with its place.
    pub fn misfits(&self, document: &Value) -> Vec<String> {
        let mut misfits = Vec::new();
        self.check(&self.root, document, "$", &mut misfits);
        misfits
    }

    fn check(&self, schema: &Value, value: &Value, at: &str, misfits: &mut Vec<String>) {
        // Anything: what another program describes is as that program says.
        if *schema == Value::Bool(true) {
            return;
        }
        let schema = schema.as_object().unwrap_or_else(|| panic!("{at}: no schema"));
        for (keyword, wanted) in schema {
            match keyword.as_str() {
                "$schema" | "$id" | "$defs" | "title" | "description" | "properties" => {}
                "$ref" => {
                    let name = wanted.as_str().unwrap().strip_prefix("#/$defs/").unwrap();
                    self.check(&self.root["$defs"][name], value, at, misfits);
                }
                "anyOf" => {
                    let fits = |schema: &Value| {
                        let mut inner = Vec::new();
                        self.check(schema, value, at, &mut inner);
                        inner.is_empty()
                    };
                    if !wanted.as_array().unwrap().iter().any(fits) {
                        misfits.push(format!("{at}: {value} fits none of {wanted}"));
                    }
                }
                "oneOf" => {
                    let fits = |schema: &&Value| {
                        let mut inner = Vec::new();
                        self.check(schema, value, at, &mut inner);
                        inner.is_empty()
                    };
                    let count = wanted.as_array().unwrap().iter().filter(fits).count();
                    if count != 1 {
                        misfits.push(format!("{at}: {value} fits {count} of {wanted}"));
                    }
                }
                "const" if wanted == value => {}
                "const" => misfits.push(format!("{at}: {value} is not {wanted}")),
                "type" => {
                    let words = wanted.as_array().cloned().unwrap_or_else(|| vec![wanted.clone()]);
                    if !words.iter().any(|word| is(word.as_str().unwrap(), value)) {
                        misfits.push(format!("{at}: {value} is not {wanted}"));
                    }
                }
                "enum" if wanted.as_array().unwrap().contains(value) => {}
                "enum" => misfits.push(format!("{at}: {value} is none of {wanted}")),
                "minLength" | "maxLength" => {
                    let (len, bound) = (value.as_str().map_or(0, str::len) as u64, wanted.as_u64().unwrap());
                    if value.is_string() && (if keyword == "minLength" { len < bound } else { len > bound }) {
                        misfits.push(format!("{at}: {value} has {len} characters"));
                    }
                }
                "required" => {
                    let missing = wanted.as_array().unwrap().iter().filter_map(Value::as_str);
                    let has = |name: &str| value.as_object().is_none_or(|fields| fields.contains_key(name));
                    misfits.extend(
                        missing.filter(|name| !has(name)).map(|name| format!("{at}: {name} is missing")),
                    );
                }
                "additionalProperties" => self.check_more(schema, wanted, value, at, misfits),
                "uniqueItems" => {
                    let items = value.as_array().map_or(&[][..], Vec::as_slice);
                    let is_again = |(at, item): (usize, &Value)| items[..at].contains(item);
                    if wanted == true && items.iter().enumerate().any(is_again) {
                        misfits.push(format!("{at}: {value} has an item twice"));
                    }
                }
                "items" => {
                    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(wanted, item, &format!("{at}[{index}]"), misfits);
                    }
                }
                other => panic!("{at}: {other:?} is a keyword that no test checks"),
            }
        }
        if let (Some(properties), Value::Object(fields)) = (properties(schema), value) {
            for (name, schema) in properties {
                if let Some(value) = fields.get(name) {
                    self.check(schema, value, &format!("{at}.{name}"), misfits);
                }
            }
        }
    }

    /// Fields that are not mentioned.
    fn check_more(
        &self,
        schema: &Map<String, Value>,
        wanted: &Value,
        value: &Value,
        at: &str,
        misfits: &mut Vec<String>,
    ) {
        let known = |name: &str| properties(schema).is_some_and(|known| known.contains_key(name));
        for (name, value) in value.as_object().into_iter().flatten().filter(|(name, _)| !known(name)) {
            match wanted {
                Value::Bool(false) => misfits.push(format!("{at}: {name} is not documented")),
                schema => self.check(schema, value, &format!("{at}.{name}"), misfits),
            }
        }
    }
}

fn properties(schema: &Map<String, Value>) -> Option<&Map<String, Value>> {
    schema.get("properties").and_then(Value::as_object)
}

fn is(word: &str, value: &Value) -> bool {
    match word {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{other:?} is no type"),
    }
}
