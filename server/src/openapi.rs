//! `openapi` describes all routes as an OpenAPI 3.1 document, made from their table and the types that they use.

use serde_json::{Map, Value, json};

use crate::{
    idempotency::takes_key,
    kept_answers::KEY,
    problem::{self, Problem},
    route::{Access, Route, Sent},
    schemas::sent,
};

/// The media type of an archive.
pub(crate) const ARCHIVE: &str = "application/zstd";

/// The description of the header `Idempotency-Key`.
const KEY_MEANS: &str = "Names this request. Sent again within an hour to the same server, it is not carried out again, and gets the same answer.";

/// Describes these routes.
pub(crate) fn document<'a>(routes: impl Iterator<Item = &'a Route>) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let operations = paths.entry(path(route)).or_insert_with(|| json!({}));
        operations[method(route)] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "pstore",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Snapshots of browser profiles, for those who run agents and for those who operate them.",
        },
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "The secret of a token that `pstore token new` has made.",
                },
            },
            "schemas": { "Problem": sent::<Problem>() },
        },
    })
}

/// The path in the words of OpenAPI, which does not mark parameters that may hold slashes.
pub(crate) fn path(route: &Route) -> String {
    route.path.replace("{*", "{")
}

/// The method in the words of OpenAPI.
pub(crate) fn method(route: &Route) -> String {
    route.method.as_str().to_ascii_lowercase()
}

fn operation(route: &Route) -> Value {
    let mut operation = json!({
        "operationId": route.name,
        "summary": route.summary,
        "responses": responses(&route.sent),
    });
    let needed = match route.access {
        Access::Open => None,
        Access::Tenant(role) => {
            Some(format!("Needs a token for the tenant with the role `{role}` or a higher one."))
        }
        Access::Token(role) => Some(format!("Needs a token with the role `{role}` or a higher one.")),
    };
    if let Some(needed) = needed {
        operation["security"] = json!([{ "token": [] }]);
        operation["description"] = json!(needed);
    }
    let parameters: Vec<Value> = in_path(route).chain(in_query(route)).chain(in_head(route)).collect();
    if !parameters.is_empty() {
        operation["parameters"] = json!(parameters);
    }
    if let Some(body) = route.body {
        operation["requestBody"] =
            json!({ "required": true, "content": { "application/json": { "schema": body() } } });
    }
    if route.takes_archive {
        operation["requestBody"] = json!({
            "required": true,
            "content": { "application/octet-stream": { "schema": { "type": "string", "format": "binary" } } },
        });
    }
    operation
}

/// The possible answers. Every other status is a problem.
fn responses(sent: &Sent) -> Value {
    let mut responses = json!({
        "200": { "description": "Done", "content": content(sent) },
        "default": {
            "description": "What is wrong, and what to do next",
            "content": { problem::MEDIA_TYPE: { "schema": { "$ref": "#/components/schemas/Problem" } } },
        },
    });
    if let Sent::Archive = sent {
        responses["206"] = json!({ "description": "The part that was asked for", "content": content(sent) });
        responses["304"] = json!({ "description": "The caller has it already" });
        responses["307"] = json!({ "description": "It can be fetched at `Location`, for a few minutes" });
    }
    if let Sent::Mcp = sent {
        responses["202"] = json!({ "description": "A notification was taken" });
        // What is no message of the protocol is refused in the protocol's own way.
        responses["default"]["content"]["application/json"] = json!({ "schema": { "type": "object" } });
        responses["default"]["content"]["text/plain"] = json!({ "schema": { "type": "string" } });
    }
    responses
}

fn content(sent: &Sent) -> Value {
    match sent {
        Sent::Document(schema) => json!({ "application/json": { "schema": schema() } }),
        Sent::Feed(schema) => json!({
            "application/json": { "schema": schema() },
            "text/event-stream": { "schema": { "type": "string" } },
        }),
        Sent::Metrics => json!({
            "application/openmetrics-text": { "schema": { "type": "string" } },
            "text/plain": { "schema": { "type": "string" } },
        }),
        Sent::Page => json!({ "text/html": { "schema": { "type": "string" } } }),
        Sent::PageFile => {
            let text = json!({ "schema": { "type": "string" } });
            json!({ "text/css": text, "text/javascript": text, "image/svg+xml": text })
        }
        Sent::Bytes => json!({ "application/octet-stream": {} }),
        Sent::Mcp => json!({
            "application/json": { "schema": { "type": "object" } },
            "text/event-stream": { "schema": { "type": "string" } },
        }),
        Sent::Archive => json!({ ARCHIVE: {} }),
    }
}

/// The names in braces.
fn in_path(route: &Route) -> impl Iterator<Item = Value> + '_ {
    let names = route.path.split('{').skip(1).filter_map(|rest| rest.split('}').next());
    names.map(move |name| {
        let name = name.trim_start_matches('*');
        json!({
            "name": name,
            "in": "path",
            "required": true,
            "description": place(route, name),
            "schema": { "type": "string" },
        })
    })
}

fn place(route: &Route, name: &str) -> &'static str {
    match name {
        "sha_prefix" if route.name == "delete_snapshot" => {
            "The first digits of the snapshot's id, at least 12 of them; nothing else names it here."
        }
        "mount_id" => "The id of the mount, as it was answered when it was made.",
        "job_id" => "The id of the job, as it was answered when it began.",
        "tenant_id" => "The tenant.",
        "profile_id" => "The profile of the tenant.",
        "sha_prefix" => "The first digits of the snapshot's id; or a tag, `latest`, `latest~1` or a time.",
        "other_sha_prefix" => "The snapshot to compare it with, the later one; named in the same way.",
        "tag" => "The tag: of A-Z a-z 0-9 . _ -",
        "file" => "The name of the file.",
        "path" => "The path of the file in the profile, with its slashes.",
        _ => "",
    }
}

/// The headers that the route looks at.
fn in_head(route: &Route) -> impl Iterator<Item = Value> + '_ {
    let is_once = takes_key(route) && route.access != Access::Open;
    let key = is_once.then_some(&(KEY, KEY_MEANS));
    route.headers.iter().chain(key).map(|(name, description)| {
        json!({
            "name": name,
            "in": "header",
            "required": false,
            "description": description,
            "schema": { "type": "string" },
        })
    })
}

/// The fields of the type that the query is read into.
fn in_query(route: &Route) -> impl Iterator<Item = Value> {
    let schema = route.query.map(|schema| schema()).unwrap_or_default();
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let fields = schema["properties"].as_object().cloned().unwrap_or_default();
    fields.into_iter().map(move |(name, mut schema)| {
        let description = schema.as_object_mut().and_then(|schema| schema.remove("description"));
        json!({
            "name": name,
            "in": "query",
            "required": required.contains(&json!(name)),
            "description": description,
            "schema": schema,
        })
    })
}
