//! `show` shows the record of one snapshot, or the manifest of one archive of another program.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer, ser::Error};
use serde_json::{Value, json};
use store::format::{
    manifest::Manifest,
    record::{Record, SCHEMA},
};

use crate::{
    Engine, failure::Failure, foreign::IntendedFlip, lineages::taking_in, names::SnapshotChoice,
    outcome::Outcome,
};

/// Asks for one snapshot.
#[derive(Clone, Debug)]
pub struct ShowRequest {
    /// The snapshot; the current one if none is named.
    pub snapshot: SnapshotChoice,
}

/// A snapshot or an archive, in the words of its record or its manifest.
#[derive(Clone, Debug)]
pub enum ShowOutcome {
    /// A snapshot.
    Snapshot(Box<Record>),
    /// An archive of another program.
    Archive(Box<Manifest>),
}

impl Outcome for ShowOutcome {}

impl Engine {
    /// Tells everything that is known of one snapshot.
    #[crate::boxed]
    pub async fn show(&self, request: &ShowRequest) -> Result<ShowOutcome, Failure> {
        let reference = request.snapshot.reference()?;
        let (tenant, lineage) = self.lineage(&request.snapshot.lineage()).await?;
        Ok(match self.named_snapshot(&tenant, &lineage, reference).await? {
            IntendedFlip::Ours(record) => ShowOutcome::Snapshot(record),
            IntendedFlip::Anothers(manifest) => {
                if reference.is_none() {
                    self.say(&format!("hint: {}", taking_in(&lineage)));
                }
                ShowOutcome::Archive(manifest)
            }
        })
    }
}

impl Serialize for ShowOutcome {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).map_err(S::Error::custom);
        let document = match self {
            Self::Snapshot(record) => document(&record.encode())?,
            Self::Archive(manifest) => {
                let mut document = document(&manifest.encode())?;
                document["foreign"] = json!(true);
                document
            }
        };
        document.serialize(serializer)
    }
}

impl JsonSchema for ShowOutcome {
    fn schema_name() -> Cow<'static, str> {
        "ShowOutcome".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [record(generator), manifest(generator)] })
    }
}

/// A record as it is stored: with a digest, and without fields that this pstore does not know.
fn record(generator: &mut SchemaGenerator) -> Value {
    let mut schema = Record::json_schema(generator).to_value();
    schema["properties"]["schema"] = json!({ "const": SCHEMA });
    // Only these are shown.
    schema["properties"]["state"] = json!({ "enum": ["live", "trashed"] });
    schema["properties"]["check"] =
        json!({ "type": "string", "description": "The digest of the record's other fields." });
    if let Some(required) = schema["required"].as_array_mut() {
        required.push(json!("check"));
    }
    close(&mut schema);
    schema
}

/// A manifest is another program's, which may have fields of its own.
fn manifest(generator: &mut SchemaGenerator) -> Value {
    let mut schema = Manifest::json_schema(generator).to_value();
    schema["description"] = json!("An archive of another program, as its manifest has it.");
    schema["properties"]["schema"] = json!({ "const": SCHEMA });
    schema["properties"]["foreign"] =
        json!({ "const": true, "description": "It is an archive of another program." });
    if let Some(required) = schema["required"].as_array_mut() {
        required.push(json!("foreign"));
    }
    schema
}

/// Objects that keep unknown fields are described by the known ones alone, and a field that may be
/// missing is never `null`.
fn close(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            if fields.get("additionalProperties") == Some(&json!(true)) && fields.contains_key("properties") {
                fields.insert("additionalProperties".to_owned(), json!(false));
            }
            let required = fields.get("required").cloned().unwrap_or_default();
            let is_required =
                |name: &str| required.as_array().is_some_and(|names| names.iter().any(|other| other == name));
            if let Some(Value::Object(properties)) = fields.get_mut("properties") {
                let optional = properties.iter_mut().filter(|(name, _)| !is_required(name));
                optional.for_each(|(_, schema)| refuse_null(schema));
            }
            fields.values_mut().for_each(close);
        }
        Value::Array(items) => items.iter_mut().for_each(close),
        _ => {}
    }
}

fn refuse_null(schema: &mut Value) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = &types[..] {
            schema["type"] = only.clone();
        }
    }
    let Some(Value::Array(forms)) = schema.get_mut("anyOf") else { return };
    forms.retain(|form| *form != json!({ "type": "null" }));
    if let [Value::Object(only)] = &forms[..] {
        let (only, description) = (only.clone(), schema.get("description").cloned());
        *schema = Value::Object(only);
        schema["description"] = description.unwrap_or_else(|| schema["description"].clone());
    }
}
