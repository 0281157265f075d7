//! `schemas` makes the JSON Schemas of requests and answers, from their types.

use engine::schemas;
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::{Value, json};

/// The schema of an answer.
pub(crate) fn sent<T: JsonSchema>() -> Value {
    plain(schemas::document::<T>(T::schema_name().into_owned()))
}

/// The schema of a request's body.
pub(crate) fn received<T: JsonSchema>() -> Value {
    let mut settings = SchemaSettings::draft2020_12().for_deserialize();
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    schema["title"] = json!(T::schema_name());
    plain(schema)
}

/// Without the version of JSON Schema, which a document that holds it has.
fn plain(mut schema: Value) -> Value {
    if let Some(fields) = schema.as_object_mut() {
        fields.remove("$schema");
    }
    schema
}
