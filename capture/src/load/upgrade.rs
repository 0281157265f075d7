//! `Upgrade` makes an older Chrome's snapshot the start of a newer one's.
//!
//! Chrome brings the profile of an older version up to date when it starts, and never the other way. So each major
//! version has its own snapshots, and a version without one may start from that of an older one, if the user asks for
//! it. The older ones stay as they are.

use store::{
    Error, ErrorKind, Result,
    catalog::records,
    content::TenantStore,
    format::record::Record,
    name::{ChromeMajor, Lineage},
    ops::read::resolve::{self, Reference},
};

const UPGRADED: &str = "upgraded-from-";

/// Whether a word of `transforms` says that a snapshot was started from an older Chrome's.
pub fn is_upgrade(transform: &str) -> bool {
    transform.starts_with(UPGRADED)
}

/// Whether a Chrome that has no snapshot yet may start from an older one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upgrade {
    #[default]
    Refuse,
    /// From this one's, which there must be.
    From(ChromeMajor),
    /// From the newest older one's, if there is any.
    Forward,
}

/// The snapshot that a newer Chrome starts from.
#[derive(Clone, Debug)]
pub struct Older {
    pub lineage: Lineage,
    pub record: Record,
}

impl Older {
    /// As the records of snapshots that are captured from it say it, in `transforms`.
    pub fn transform(&self) -> String {
        format!("{UPGRADED}{}/{}", self.lineage.chrome_major, self.record.record)
    }

    /// For people.
    pub fn told(&self) -> String {
        let Lineage { name, chrome_major } = &self.lineage;
        format!(
            "starting from snapshot {} of Chrome {chrome_major}; `--chrome-major {chrome_major}` goes back to {name} as it was there",
            self.record.sha256_prefix()
        )
    }
}

/// The snapshot that `lineage`, which has none, starts from; with `reference`, the one that it names.
pub async fn older(
    store: &TenantStore,
    lineage: &Lineage,
    upgrade: Upgrade,
    reference: Option<&Reference>,
) -> Result<Option<Older>> {
    match upgrade {
        Upgrade::Refuse => Ok(None),
        Upgrade::From(major) if major >= lineage.chrome_major => Err(not_older(major, lineage.chrome_major)),
        Upgrade::From(chrome_major) => {
            let lineage = Lineage { name: lineage.name.clone(), chrome_major };
            let record = resolve::snapshot(store, &lineage, reference).await?;
            Ok(Some(Older { lineage, record }))
        }
        Upgrade::Forward => {
            let all = records::lineages(store, &lineage.name).await?;
            for older in all.into_iter().rev().filter(|other| other.chrome_major < lineage.chrome_major) {
                match resolve::snapshot(store, &older, reference).await {
                    Ok(record) => return Ok(Some(Older { lineage: older, record })),
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(None)
        }
    }
}

/// A newer Chrome's profile is of no use to an older one.
pub fn not_older(from: ChromeMajor, to: ChromeMajor) -> Error {
    let what = format!("--upgrade-from {from} names no older Chrome than {to}, which is to use the profile");
    Error::InvalidInput { what }
}
