//! Captures response headers that the SDK's outputs leave out.

use std::{
    sync::{Arc, OnceLock},
    time::SystemTime,
};

use aws_sdk_s3::{
    config::{ConfigBag, Intercept, RuntimeComponents},
    primitives::{DateTime, DateTimeFormat},
};
use aws_smithy_runtime_api::{
    box_error::BoxError,
    client::interceptors::{
        context::{BeforeDeserializationInterceptorContextRef, BeforeTransmitInterceptorContextMut},
        dyn_dispatch_hint,
    },
};

use crate::bucket::request_id;

/// The server's own name, from the first answer that tells it. Failures are left out:
/// they may come from a proxy that speaks for a server it cannot reach.
#[derive(Clone, Debug, Default)]
pub(super) struct ServerName(Arc<OnceLock<String>>);

impl ServerName {
    pub(super) fn get(&self) -> Option<String> {
        self.0.get().cloned()
    }
}

#[dyn_dispatch_hint]
impl Intercept for ServerName {
    fn name(&self) -> &'static str {
        "ServerName"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        if let Some(name) = response.headers().get("server").filter(|_| response.status().as_u16() < 500) {
            self.0.get_or_init(|| name.to_owned());
        }
        Ok(())
    }
}

/// Names the request that is carried out to the server, behind the SDK's own words. The signature does not
/// cover this header.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestName;

#[dyn_dispatch_hint]
impl Intercept for RequestName {
    fn name(&self) -> &'static str {
        "RequestName"
    }

    fn modify_before_transmit(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(name) = request_id::current() else { return Ok(()) };
        let sent = context.request_mut();
        tracing::debug!(request_id = name, "S3: {} {}", sent.method(), sent.uri());
        let headers = sent.headers_mut();
        let agent = headers.get(USER_AGENT).unwrap_or_default().to_owned();
        headers.try_insert(USER_AGENT, format!("{agent} request/{name}"))?;
        Ok(())
    }
}

const USER_AGENT: &str = "user-agent";

/// When one answer was given, by the server's clock.
#[derive(Clone, Debug, Default)]
pub(super) struct AnswerDate(Arc<OnceLock<SystemTime>>);

impl AnswerDate {
    /// A server that sends no `Date` leaves only the host's clock; HTTP requires one of
    /// every server that has a clock.
    pub(super) fn get(&self) -> SystemTime {
        self.0.get().copied().unwrap_or_else(SystemTime::now)
    }
}

#[dyn_dispatch_hint]
impl Intercept for AnswerDate {
    fn name(&self) -> &'static str {
        "AnswerDate"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let date = context.response().headers().get("date");
        if let Some(date) = date.and_then(|text| DateTime::from_str(text, DateTimeFormat::HttpDate).ok()) {
            self.0.get_or_init(|| time(Some(&date)));
        }
        Ok(())
    }
}

/// A time that the server does not tell counts as now: young objects are left alone.
pub(super) fn time(date: Option<&DateTime>) -> SystemTime {
    date.and_then(|date| SystemTime::try_from(*date).ok()).unwrap_or_else(SystemTime::now)
}
