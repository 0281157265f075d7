//! `trace` writes calls and answers in words, for a run that went wrong.

use store::{
    Error,
    bucket::{BucketError, Write},
    catalog::pointer::Flip,
    format::{condemned::Condemned, lock::Lock, pointer::Pointer, record::Record},
};

use super::call::{Op, Reply};

pub fn key(op: &Op) -> String {
    match op {
        Op::Get(key) | Op::Put { key, .. } | Op::Delete(key) | Op::DeleteIf { key, .. } => key.to_string(),
        Op::List { prefix, .. } => prefix.to_string(),
    }
}

fn short(key: &str) -> &str {
    key.rsplit('/').find(|part| !part.is_empty()).unwrap_or(key)
}

pub fn op(op: &Op) -> String {
    let whole = key(op);
    let name = short(&whole);
    match op {
        Op::Get(_) => format!("reads {name}"),
        Op::Put { bytes, write: Write::Create, .. } => format!("creates {name} as {}", content(name, bytes)),
        Op::Put { bytes, .. } => format!("replaces {name} by {}", content(name, bytes)),
        Op::List { .. } => format!("lists {name}"),
        Op::Delete(_) => format!("deletes {name}, whatever it is"),
        Op::DeleteIf { .. } => format!("deletes {name} if it is what was read"),
    }
}

pub fn answer(op: &Op, answer: &Result<Reply, BucketError>) -> String {
    match answer {
        Ok(Reply::Object(object)) => content(short(&key(op)), &object.bytes),
        Ok(Reply::Page(page)) => format!("{} objects", page.entries.len()),
        Ok(_) => "done".to_owned(),
        Err(failed) => error(failed).to_owned(),
    }
}

pub fn error(error: &BucketError) -> &'static str {
    match error {
        BucketError::NotFound { .. } => "absent",
        BucketError::AlreadyExists { .. } => "exists already",
        BucketError::VersionMismatch { .. } => "is another version",
        BucketError::Unavailable { .. } => "no answer",
        _ => "failed",
    }
}

pub fn report(answer: &store::Result<Flip>) -> String {
    match answer {
        Ok(Flip::Flipped { from, .. }) => format!("moved from {from:?}"),
        Ok(Flip::Unchanged) => "there already".to_owned(),
        Err(Error::PointerUnknown { .. }) => "unknown".to_owned(),
        Err(error) => format!("not moved ({:?})", error.kind()),
    }
}

fn content(name: &str, bytes: &[u8]) -> String {
    let told = match name {
        "latest.json" => Pointer::decode(bytes).ok().map(|pointer| {
            let claim = pointer.block().map_or("no block".to_owned(), |block| {
                let claim = block.lease.as_ref().map(|lease| short_id(&lease.nonce.to_string()));
                let flip = short_id(&block.flip_id.to_string());
                format!("write {flip}, claim {}", claim.unwrap_or_else(|| "none".to_owned()))
            });
            let (from, to) = (&pointer.flipped_from_sha256_prefix, &pointer.active_sha256_prefix);
            format!("[{to:?} from {from:?}, {claim}]")
        }),
        "lock.json" => Lock::decode(bytes).ok().map(|lock| {
            let nonce = lock.block().map(|block| short_id(&block.nonce.to_string()));
            let nonce = nonce.unwrap_or_else(|| "none".to_owned());
            if lock.is_free() {
                format!("[free, nonce {nonce}]")
            } else {
                format!("[held by {}, nonce {nonce}, renewed {}]", lock.holder_run_id, lock.renewal_count)
            }
        }),
        name if name.starts_with("snap-") => Record::decode(bytes).ok().map(|record| {
            let packs = record.content.iter().flat_map(|content| &content.packs);
            let packs: Vec<String> = packs.map(|used| used.pack.to_string()).collect();
            format!("[{} {:?} of {packs:?}]", record.sha256_prefix(), record.state)
        }),
        _ => Condemned::decode(bytes).ok().map(|condemned| {
            let Condemned { phase, packs, blockers, .. } = condemned;
            format!("[{phase:?} {packs:?}, blockers {blockers:?}]")
        }),
    };
    told.unwrap_or_else(|| format!("{} bytes", bytes.len()))
}

fn short_id(id: &str) -> String {
    id.chars().take(6).collect()
}
