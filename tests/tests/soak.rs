//! This test has hosts do everything at once, by lot, with real processes on a real server.

use tests::soak::{Plan, run};

#[tokio::test(flavor = "multi_thread")]
async fn nothing_synced_is_lost_nothing_is_torn_and_no_pointer_moves_by_itself() {
    run(&Plan::from_environment()).await;
}
