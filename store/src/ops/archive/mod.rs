//! Archives: snapshots as tar streams for programs that know only the contract, and back.

pub mod export;
pub mod import;
pub mod import_foreign;
pub mod publish;
