//! `routes` has the table of all routes, and what each does.

mod description;
mod health;
mod snapshots;

use axum::http::Method;
use engine::verbs::{
    delete::DeletedSnapshot, force_unlock::ForceUnlockOutcome, rollback::RollbackOutcome, show::ShowOutcome,
};

use self::{
    health::HealthOutcome,
    snapshots::{DeleteQuery, ForceUnlockBody, LineageQuery, ListQuery, RollbackBody, SnapshotPage},
};
use crate::{
    route::{
        Access::{Open, Tenant},
        Route,
        Sent::{Document, Page},
    },
    schemas::{received, sent},
    tokens::Role,
};

/// Every route of the server.
pub(crate) static ROUTES: &[Route] = &[
    Route::new(
        "alive",
        Method::GET,
        "/healthz",
        Open,
        "Tells whether the server runs",
        Document(sent::<HealthOutcome>),
        |call| Box::pin(health::alive(call)),
    ),
    Route::new(
        "ready",
        Method::GET,
        "/readyz",
        Open,
        "Tells whether the server reaches its store",
        Document(sent::<HealthOutcome>),
        |call| Box::pin(health::ready(call)),
    ),
    Route::new(
        "openapi",
        Method::GET,
        "/openapi.json",
        Open,
        "Describes all routes to programs",
        Document(description::schema),
        |call| Box::pin(description::document(call)),
    ),
    Route::new("docs", Method::GET, "/docs", Open, "Describes all routes to people", Page, |call| {
        Box::pin(description::page(call))
    }),
    Route::new(
        "list_snapshots",
        Method::GET,
        "/v1/profile-snapshots/{tenant_id}/{profile_id}",
        Tenant(Role::Read),
        "Lists the snapshots of a profile, page by page",
        Document(sent::<SnapshotPage>),
        |call| Box::pin(snapshots::list(call)),
    )
    .query(received::<ListQuery>),
    Route::new(
        "show_snapshot",
        Method::GET,
        "/v1/profile-snapshots/{tenant_id}/{profile_id}/{sha_prefix}",
        Tenant(Role::Read),
        "Shows what is known of one snapshot",
        Document(sent::<ShowOutcome>),
        |call| Box::pin(snapshots::show(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "rollback",
        Method::POST,
        "/v1/profile-snapshots/{tenant_id}/{profile_id}/rollback",
        Tenant(Role::Operate),
        "Makes another snapshot the current one; without `confirm`, says what would change",
        Document(sent::<RollbackOutcome>),
        |call| Box::pin(snapshots::rollback(call)),
    )
    .body(received::<RollbackBody>),
    Route::new(
        "delete_snapshot",
        Method::DELETE,
        "/v1/profile-snapshots/{tenant_id}/{profile_id}/{sha_prefix}",
        Tenant(Role::Admin),
        "Deletes one snapshot that is neither the current one nor the only one",
        Document(sent::<DeletedSnapshot>),
        |call| Box::pin(snapshots::delete(call)),
    )
    .query(received::<DeleteQuery>),
    Route::new(
        "force_unlock",
        Method::POST,
        "/v1/profile-snapshots/{tenant_id}/{profile_id}/force-unlock",
        Tenant(Role::Admin),
        "Takes the lock of a profile away; without `confirm`, says from whom",
        Document(sent::<ForceUnlockOutcome>),
        |call| Box::pin(snapshots::force_unlock(call)),
    )
    .body(received::<ForceUnlockBody>),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::routing::MethodFilter;

    use super::*;
    use crate::{openapi, page};

    #[test]
    fn every_route_is_described_under_a_name_of_its_own() {
        let document = openapi::document(ROUTES);
        let mut names = BTreeSet::new();
        for route in ROUTES {
            MethodFilter::try_from(route.method.clone()).unwrap();
            assert!(names.insert(route.name), "{} twice", route.name);
            let operation = &document["paths"][openapi::path(route)][openapi::method(route)];
            assert_eq!(operation["summary"], route.summary, "{route:?}");
            let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
            for parameter in &parameters {
                assert!(!parameter["description"].as_str().unwrap().is_empty(), "{route:?}: {parameter}");
            }
            let in_path = parameters.iter().filter(|parameter| parameter["in"] == "path").count();
            assert_eq!(in_path, route.path.matches('{').count(), "{route:?}");
        }
    }

    #[test]
    fn whatever_names_a_tenant_needs_a_token_for_it() {
        let document = openapi::document(ROUTES);
        for route in ROUTES {
            let operation = &document["paths"][openapi::path(route)][openapi::method(route)];
            assert_eq!(operation["security"].is_null(), route.access == Open, "{route:?}");
            assert_eq!(route.path.contains("{tenant_id}"), route.access != Open, "{route:?}");
        }
    }

    #[test]
    fn the_page_shows_every_route_and_needs_nothing_from_elsewhere() {
        let page = page::page(&openapi::document(ROUTES));
        for route in ROUTES {
            assert!(
                page.contains(&format!("<h2>{} {}</h2>", route.method, openapi::path(route))),
                "{route:?}"
            );
        }
        for outside in ["http:", "https:", "src=", "<script", "@import", "url("] {
            assert!(!page.contains(outside), "{outside}");
        }
    }
}
