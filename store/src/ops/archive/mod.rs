//! Makes archives of snapshots, for programs that know only the contract, and snapshots of archives.

pub mod export;
pub mod import;
pub mod import_foreign;
pub mod publish;
pub mod published;
