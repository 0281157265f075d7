//! `server` offers what the engine can do over HTTP, to callers that show a token.
//!
//! ```text
//! connections ──> dispatch ──> routes ──> engine
//!                    └───────> tokens
//! ```
//!
//! [`tokens`] says who may do what, one table has all routes, and everything that is asked for is done by
//! [`engine::Engine`]. What fails is told as a [`problem::Problem`].

#![warn(missing_docs)]

pub mod documents;
pub mod listen;
pub mod mounts;
pub mod problem;
pub mod tls;
pub mod tokens;
pub mod users;

mod audit;
mod call;
mod connections;
mod dispatch;
mod jobs;
mod looks;
mod observer;
mod once;
mod openapi;
mod page;
mod peer;
mod progress;
mod queues;
mod ranges;
mod rates;
mod readiness;
mod received_file;
mod replays;
mod room;
mod route;
mod routes;
mod schedules;
mod schemas;
mod serve;
mod shared;
mod shown;
mod stream;
mod watched;
mod work;

pub use serve::{ServeOutcome, ServeRequest, serve};
