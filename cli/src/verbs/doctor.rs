//! `doctor` prints one finding per line, and what to do about it.

use engine::{
    Engine,
    failure::Failure,
    verbs::doctor::{DoctorOutcome, DoctorRequest},
};

use crate::{answer::Answer, args::DoctorArgs};

pub(super) async fn run(engine: Engine, args: &DoctorArgs) -> Result<Answer, Failure> {
    let outcome = engine.doctor(&DoctorRequest { tenant: args.tenant.clone() }).await?;
    Answer::of(&outcome, text(&outcome))
}

fn text(outcome: &DoctorOutcome) -> String {
    let mut text = format!("pstore {} with {}\n", outcome.version, outcome.store);
    for check in &outcome.checks {
        text.push_str(&format!("{:<5} {:<12} {}\n", check.status.word(), check.name, check.found));
        if let Some(advice) = &check.advice {
            text.push_str(&format!("{:<18} -> {advice}\n", ""));
        }
    }
    text
}
