//! These tests store projects and containers, with real daemons, services and databases.

#![allow(clippy::unwrap_used)]

mod containers_interrupted;
mod containers_layers;
mod containers_limits;
mod containers_load;
mod containers_own;
mod containers_restore;
mod containers_snapshot;
mod kept;
mod killed;
mod load;
mod places;
mod postgres;
mod postgres_containers;
mod restored;
mod saved;
mod served;
mod services;
mod shop;
