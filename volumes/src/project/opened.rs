//! `opened` finds the saved states of a project in the store, and reads their metadata.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
};

use engine::{Engine, failure::Failure};
use parking_lot::Mutex;
use store::{
    Error, ErrorKind,
    content::TenantStore,
    format::{record::Record, tree::TreePath},
    name::{ChromeMajor, Lineage, ProfileName},
    ops::read::{
        browse::OpenFile,
        resolve::{self, Reference},
    },
};

use super::{METADATA, metadata::Metadata};

/// Metadata is no longer than this.
const MAX_BYTES: u64 = 16 << 20;

/// The lineage of a project.
pub fn lineage(name: &ProfileName) -> Lineage {
    Lineage { name: name.clone(), chrome_major: ChromeMajor::PROJECT }
}

/// A saved state with its record.
#[derive(Clone, Debug)]
pub struct Saved {
    /// The record of the snapshot.
    pub record: Record,
    /// What is known of it.
    pub metadata: Metadata,
}

/// The metadata of a saved state.
#[crate::boxed]
pub async fn metadata(tenant: &TenantStore, record: &Record) -> Result<Metadata, Failure> {
    let damaged = |problem: String| {
        let error = Error::damaged(format!("{METADATA} of {}", record.sha256_prefix()), problem);
        Failure::from(error)
    };
    let path = TreePath::new(METADATA.as_bytes()).map_err(|error| Failure::internal(error.to_string()))?;
    let file = OpenFile::open(tenant, record, &path).await?;
    if file.size() > MAX_BYTES {
        return Err(damaged(format!("it has {} bytes", file.size())));
    }
    let buffer = Buffer::default();
    file.write((buffer.clone(), PathBuf::from("memory"))).await?;
    let bytes = std::mem::take(&mut *buffer.0.lock());
    serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
}

/// The saved state that is meant: as everywhere, or by its `snapshotId`.
#[crate::boxed]
pub async fn find(
    engine: &Engine,
    tenant: &TenantStore,
    name: &ProfileName,
    reference: Option<&str>,
) -> Result<Saved, Failure> {
    if let Some(id) = reference.filter(|text| is_uuid(text)) {
        return by_id(engine, tenant, name, id).await;
    }
    let lineage = lineage(name);
    let reference = reference.map(str::parse::<Reference>).transpose();
    let reference = reference.map_err(|error| Failure::usage(error.to_string()))?;
    let found = resolve::snapshot(tenant, &lineage, reference.as_ref()).await;
    let record = found.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Failure::from(error).hint(hint(engine)),
        _ => error.into(),
    })?;
    let metadata = metadata(tenant, &record).await?;
    Ok(Saved { record, metadata })
}

/// The saved state of this `snapshotId`. Others may be damaged: just then an older one is wanted.
async fn by_id(
    engine: &Engine,
    tenant: &TenantStore,
    name: &ProfileName,
    id: &str,
) -> Result<Saved, Failure> {
    let listing = resolve::list(tenant, &lineage(name)).await?;
    let mut unread = Vec::new();
    for record in listing.records.into_iter().rev() {
        match metadata(tenant, &record).await {
            Ok(metadata) if metadata.snapshot_id.eq_ignore_ascii_case(id) => {
                return Ok(Saved { record, metadata });
            }
            Ok(_) => {}
            Err(failure) if ends_the_search(failure.kind) => return Err(failure),
            Err(failure) => unread.push(format!("{} ({})", record.sha256_prefix(), failure.message)),
        }
    }
    let message = format!("there is no saved state {id} of {name}");
    match unread.is_empty() {
        true => Err(Failure::new(ErrorKind::NotFound, message).hint(hint(engine))),
        false => {
            let message =
                format!("{message} among those that can be read; these cannot: {}", unread.join(", "));
            Err(Failure::new(ErrorKind::Damaged, message)
                .hint(format!("`pstore verify {name}` tells what is damaged")))
        }
    }
}

/// Whether the reason lies with the store, and not with one state.
fn ends_the_search(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Unavailable | ErrorKind::Denied | ErrorKind::Interrupted)
}

fn hint(engine: &Engine) -> String {
    format!("`pstore project list FILE` shows those that {} has", engine.location.shown())
}

/// Five groups of hexadecimal digits; the digits of a snapshot's id have no dashes.
fn is_uuid(text: &str) -> bool {
    let groups: Vec<usize> = text.split('-').map(str::len).collect();
    groups == [8, 4, 4, 4, 12] && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

#[derive(Clone, Default)]
struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
