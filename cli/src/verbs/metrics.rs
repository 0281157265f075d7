//! `metrics` prints what the commands of this host have counted. It never needs a store.

use engine::{failure::Failure, settings::Settings, verbs::metrics::MetricsRequest};

use crate::{answer::Answer, console::Console};

pub(super) fn run(settings: &Settings, console: Console) -> Result<Answer, Failure> {
    let outcome = settings.show_metrics(&MetricsRequest {});
    if outcome.textfile.is_none() {
        console.say(
            "no metrics_textfile is set, so that nothing is kept from one command to the next; docs/metrics.md says more",
        );
    }
    Answer::of(&outcome, outcome.text.clone())
}
