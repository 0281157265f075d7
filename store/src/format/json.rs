//! Writes JSON sorted, and reads only plain JSON, as documents use it.
//!
//! The digest of a document is over its sorted form, so the order is made here and not
//! left to how a map happens to be built: a dependency can change that for the whole
//! program.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{self, MapAccess, SeqAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::{Map, Value};

/// The largest integer that every JSON library reads alike.
pub(super) const MAX_INTEGER: u64 = (1 << 53) - 1;

/// A value whose objects are written with their keys sorted, at every depth.
pub(super) enum Sorted<'a> {
    Object(&'a Map<String, Value>),
    Other(&'a Value),
}

impl<'a> Sorted<'a> {
    pub fn object(fields: &'a Map<String, Value>) -> Self {
        Self::Object(fields)
    }

    fn of(value: &'a Value) -> Self {
        match value {
            Value::Object(fields) => Self::Object(fields),
            other => Self::Other(other),
        }
    }
}

impl Serialize for Sorted<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Object(fields) => {
                let mut sorted: Vec<(&String, &Value)> = fields.iter().collect();
                sorted.sort_unstable_by_key(|(name, _)| *name);
                let mut map = serializer.serialize_map(Some(sorted.len()))?;
                for (name, value) in sorted {
                    map.serialize_entry(name, &Sorted::of(value))?;
                }
                map.end()
            }
            Self::Other(Value::Array(items)) => serializer.collect_seq(items.iter().map(Sorted::of)),
            Self::Other(value) => value.serialize(serializer),
        }
    }
}

/// A value without a field given twice, and without a number that is not 0 … 2⁵³ − 1:
/// of such, two libraries may read two different documents.
pub(super) struct Strict(pub Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("plain JSON with integers of 0 to 2^53 - 1")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        if value > MAX_INTEGER {
            return Err(E::custom(format!("the integer {value} is above 2^53 - 1")));
        }
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(item)) = items.next_element()? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let Strict(value) = fields.next_value()?;
            if object.contains_key(&name) {
                return Err(de::Error::custom(format!("the field {name:?} is given twice")));
            }
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_fields_have_one_reading() {
        let read = |text: &str| serde_json::from_str::<Strict>(text).map(|Strict(value)| value);
        let good = r#"{"a":[0,9007199254740991,null,true],"b":{"c":"d"}}"#;
        assert_eq!(read(good).unwrap().to_string(), good);
        for bad in ["9007199254740992", "-1", "-0", "1.0", "1e3", r#"{"a":{"b":1,"b":1}}"#] {
            read(bad).unwrap_err();
        }
    }

    #[test]
    fn keys_are_sorted_by_their_bytes() {
        let value: Value =
            serde_json::from_str(r#"{"b":[{"z":1,"a":"\u0007\n\""}],"B":2,"é":3,"a":4}"#).unwrap();
        let fields = value.as_object().unwrap();
        let text = serde_json::to_string(&Sorted::object(fields)).unwrap();
        assert_eq!(text, r#"{"B":2,"a":4,"b":[{"a":"\u0007\n\"","z":1}],"é":3}"#);
    }
}
