//! `request_id` carries the id of a request to the store's server and into the log.

tokio::task_local! {
    static REQUEST: String;
}

/// Carries out `work` for the request with this name. Requests of its task to an S3 server name that request
/// in their `User-Agent`, and so in the access log of the server; requests of other tasks for it do not.
pub async fn for_request<T>(name: String, work: impl Future<Output = T>) -> T {
    REQUEST.scope(name, work).await
}

/// The name of the request that this task works for.
pub(crate) fn current() -> Option<String> {
    REQUEST.try_with(Clone::clone).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_task_works_for_one_request_at_a_time() {
        assert_eq!(current(), None);
        let inner = for_request("first".to_owned(), async {
            let within = for_request("second".to_owned(), async { current() }).await;
            (within, current())
        });
        assert_eq!(inner.await, (Some("second".to_owned()), Some("first".to_owned())));
    }
}
