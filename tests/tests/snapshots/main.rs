//! These tests turn trees into snapshots and snapshots into trees: what is read, stored, changed, damaged, killed
//! in the middle.

#![allow(clippy::unwrap_used)]

mod away;
mod by_need;
mod changes;
mod cost;
mod crash;
mod damage;
mod disk;
mod failures;
mod faults;
mod generations;
mod kill;
mod layout;
mod local;
mod memory;
mod readers;
mod recovery;
mod repair;
mod repair_killed;
mod roundtrip;
mod unchanged;
mod uploads;
