//! `RequestObserver` logs the remarks of the engine during a request.

use engine::observer::{Observation, Observer};

/// Of one request.
#[derive(Clone, Debug)]
pub(crate) struct RequestObserver {
    pub(crate) request_id: String,
}

impl Observer for RequestObserver {
    fn observe(&self, observation: &Observation<'_>) {
        let request_id = &self.request_id;
        match observation {
            Observation::Step(text) => tracing::debug!(request_id, "{text}"),
            Observation::Remark(text) => tracing::info!(request_id, "{text}"),
            Observation::Warning(text) => tracing::warn!(request_id, "{text}"),
            _ => {}
        }
    }
}
