//! `schema` describes names and ids to JSON Schema: each is the text or the number that it is written as.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{
    format::{
        event::EventKind,
        record::{Mode, Reason},
        startup::Startup,
    },
    id, name,
};

macro_rules! written_as {
    ($as:ty: $($name:ty),+ $(,)?) => {
        $(impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                <$as>::schema_name()
            }

            fn json_schema(generator: &mut SchemaGenerator) -> Schema {
                <$as>::json_schema(generator)
            }
        })+
    };
}

written_as!(String: name::Tenant, name::Profile);
written_as!(String: id::ChunkId, id::ChunkKey, id::EventId, id::FlipId, id::JobId, id::Nonce, id::PackId, id::RecordId, id::Sha256, id::SnapshotId, id::StoreId);
// Words: each may be one that a later pstore came up with.
written_as!(String: EventKind, Mode, Reason);
written_as!(u16: name::ChromeMajor);
written_as!(Vec<Vec<u64>>: Startup);
