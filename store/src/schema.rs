//! `schema` describes names and ids to JSON Schema: each is the text or the number that it is written as.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use crate::{id, name};

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

written_as!(String: name::Tenant, name::Profile, id::SnapshotId, id::Sha256, id::Nonce, id::RecordId, id::EventId, id::StoreId);
written_as!(u16: name::ChromeMajor);
