//! This test drives `pstore mcp` over stdin and stdout with the official Python client; `tests/agents/drive.py` says
//! what must hold.

use crate::scene::{CURRENT, PREVIOUS, Scene};

#[test]
fn every_tool_does_what_it_says() {
    Scene::new().play("every_tool", CURRENT);
}

#[test]
fn every_tool_does_what_it_says_in_the_revisions_before() {
    Scene::new().play("every_tool", PREVIOUS);
}

#[test]
fn what_is_wrong_is_told_with_what_to_do_next_and_nothing_outside_is_touched() {
    Scene::new().play("what_is_wrong", CURRENT);
}

#[test]
fn a_full_pool_says_which_checkpoint_to_delete() {
    Scene::new().play("a_full_pool", CURRENT);
}

#[test]
fn answers_come_in_pages_that_fit_a_context() {
    Scene::new().play("pages", CURRENT);
}

#[test]
fn an_agent_finds_what_a_shell_broke_and_takes_back_that_alone() {
    Scene::new().play("an_agent_breaks_things_and_mends_them", CURRENT);
}

#[test]
fn a_long_call_tells_how_far_it_is_and_keeps_no_other_waiting() {
    Scene::new().play("two_calls_at_once", CURRENT);
}
