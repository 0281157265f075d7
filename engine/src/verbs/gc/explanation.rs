//! `Explanation` says why a pack or a snapshot is kept.

use schemars::JsonSchema;
use serde::Serialize;
use store::{
    format::record::State,
    id::{PackId, RecordId},
    name::{ChromeMajor, Lineage, Profile, Tenant},
    ops::gc::{self, Subject},
};

use super::{CondemnedPhase, GcExplainRequest};
use crate::{Engine, failure::Failure};

/// A pack that was asked about.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ExplainedPack {
    /// The pack.
    pub pack: PackId,
    /// Its size; nothing if it is not there.
    pub bytes: Option<u64>,
}

/// The states of a record that keeps packs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RootState {
    /// The snapshot is there.
    Live,
    /// The snapshot is being deleted.
    Trashed,
}

/// A snapshot that keeps packs.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Root {
    /// The profile.
    pub profile_id: Profile,
    /// The Chrome that wrote it.
    pub chrome_major_version: ChromeMajor,
    /// The snapshot's record.
    pub record: RecordId,
    /// The first digits of the snapshot's id.
    pub sha256_prefix: String,
    /// Whether it is being deleted.
    pub state: RootState,
    /// Its tags.
    pub tags: Vec<String>,
    /// Whether it is the current one.
    pub is_current: bool,
    /// Whether somebody uses it.
    pub is_pinned: bool,
    /// The bytes that it needs of the packs.
    pub live_bytes: u64,
    /// The profile of the snapshot.
    #[serde(skip)]
    pub lineage: Lineage,
}

/// A document that condemns one of the packs.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct NamingDocument {
    /// The document's id.
    pub id: RecordId,
    /// Its phase.
    pub phase: CondemnedPhase,
}

/// Why a pack or a snapshot is still there.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Explanation {
    /// The tenant.
    pub tenant_id: Tenant,
    /// The pack or the snapshot that was asked about.
    pub subject: String,
    /// Whether something needs it.
    pub alive: bool,
    /// Its packs.
    pub packs: Vec<ExplainedPack>,
    /// The snapshots that need it.
    pub roots: Vec<Root>,
    /// The snapshots that share packs with it.
    pub sharing: Vec<Root>,
    /// The bytes that would be freed if the roots were deleted.
    pub freed_bytes: u64,
    /// The documents that condemn any of the packs.
    pub documents: Vec<NamingDocument>,
}

pub(super) async fn explain(engine: &Engine, request: &GcExplainRequest) -> Result<Explanation, Failure> {
    let GcExplainRequest { tenant, subject } = request;
    let asked = match subject.to_ascii_uppercase().replace("-META", "-meta").parse::<PackId>() {
        Ok(pack) => Subject::Pack(pack),
        Err(_) => Subject::Snapshot(subject.clone()),
    };
    let found = gc::explain(&engine.tenant(tenant).await?, &asked).await?;
    let document =
        |(id, phase): (RecordId, store::format::condemned::Phase)| NamingDocument { id, phase: phase.into() };
    Ok(Explanation {
        tenant_id: tenant.clone(),
        subject: subject.clone(),
        alive: !found.roots.is_empty(),
        packs: found.packs.into_iter().map(|(pack, bytes)| ExplainedPack { pack, bytes }).collect(),
        roots: found.roots.into_iter().map(Root::from).collect(),
        sharing: found.sharing.into_iter().map(Root::from).collect(),
        freed_bytes: found.freed_bytes,
        documents: found.documents.into_iter().map(document).collect(),
    })
}

impl From<gc::Root> for Root {
    fn from(root: gc::Root) -> Self {
        Self {
            profile_id: root.lineage.name.profile.clone(),
            chrome_major_version: root.lineage.chrome_major,
            record: root.record,
            sha256_prefix: root.sha256_prefix,
            state: if root.state == State::Live { RootState::Live } else { RootState::Trashed },
            tags: root.tags,
            is_current: root.is_current,
            is_pinned: root.is_pinned,
            live_bytes: root.live_bytes,
            lineage: root.lineage,
        }
    }
}
