//! `server` offers the engine over HTTP, to callers that show a token.
//!
//! ```text
//! connections ──> dispatch ──> routes ──> engine
//!                    └───────> tokens
//! ```
//!
//! [`tokens`] defines the rights of callers, one table has all routes, and [`engine::Engine`] carries out
//! every request. A failure becomes a [`problem::Problem`].

#![warn(missing_docs)]

pub mod documents;
pub mod listen;
pub mod mounts;
pub mod problem;
pub mod tls;
pub mod tokens;
pub mod users;

mod api_page;
mod audit;
mod call;
mod concurrency_limit;
mod connections;
mod credentials;
mod delivery;
mod dispatch;
mod idempotency;
mod jobs;
mod kept_answers;
mod live_jobs;
mod lock_queues;
mod login;
mod metrics_turns;
mod observer;
mod openapi;
mod overview_reads;
mod page;
mod peer;
mod ranges;
mod rates;
mod readiness;
mod received_file;
mod reloaded_files;
mod route;
mod routes;
mod schedules;
mod schemas;
mod serve;
mod server_state;
mod shared_reads;
mod stall_guard;
mod stream;
mod unfinished_work;

pub use serve::{ServeOutcome, ServeRequest, serve};
