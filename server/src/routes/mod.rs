//! `ROUTES` lists every HTTP route with its handler and the role that it needs.

mod activity;
mod browse;
mod description;
mod health;
mod leases;
mod snapshots;
mod tags;

use axum::http::Method;
use engine::verbs::{
    delete::DeletedSnapshot,
    diff::DiffOutcome,
    force_unlock::ForceUnlockOutcome,
    history::HistoryOutcome,
    lock::{AcquireLockOutcome, ReleaseLockOutcome, RenewLockOutcome, ShowLockOutcome},
    log::LogOutcome,
    ls::LsOutcome,
    rollback::RollbackOutcome,
    show::ShowOutcome,
    stats::TenantStats,
    tag::TagOutcome,
};

use self::{
    activity::EventsQuery,
    browse::{DiffQuery, TreeQuery},
    health::HealthOutcome,
    leases::{AcquireBody, AcquireQuery, HeldBody},
    snapshots::{DeleteQuery, ForceUnlockBody, LineageQuery, ListQuery, RollbackBody, SnapshotPage},
};
use crate::{
    route::{
        Access::{Open, Tenant},
        Route,
        Sent::{Bytes, Document, Page},
    },
    schemas::{received, sent},
    tokens::Role,
};

/// A path of what is a profile's.
macro_rules! profile {
    ($below:literal) => {
        concat!("/v1/profile-snapshots/{tenant_id}/{profile_id}", $below)
    };
}

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
        "Tells whether the server reaches its store, and whether its token file is in order",
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
        profile!(""),
        Tenant(Role::Read),
        "Lists the snapshots of a profile, page by page",
        Document(sent::<SnapshotPage>),
        |call| Box::pin(snapshots::list(call)),
    )
    .query(received::<ListQuery>),
    Route::new(
        "show_snapshot",
        Method::GET,
        profile!("/{sha_prefix}"),
        Tenant(Role::Read),
        "Shows what is known of one snapshot",
        Document(sent::<ShowOutcome>),
        |call| Box::pin(snapshots::show(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "rollback",
        Method::POST,
        profile!("/rollback"),
        Tenant(Role::Operate),
        "Makes another snapshot the current one; without `confirm`, says what would change",
        Document(sent::<RollbackOutcome>),
        |call| Box::pin(snapshots::rollback(call)),
    )
    .body(received::<RollbackBody>),
    Route::new(
        "delete_snapshot",
        Method::DELETE,
        profile!("/{sha_prefix}"),
        Tenant(Role::Admin),
        "Deletes one snapshot that is neither the current one nor the only one",
        Document(sent::<DeletedSnapshot>),
        |call| Box::pin(snapshots::delete(call)),
    )
    .query(received::<DeleteQuery>),
    Route::new(
        "force_unlock",
        Method::POST,
        profile!("/force-unlock"),
        Tenant(Role::Admin),
        "Takes the lock of a profile away; without `confirm`, says from whom",
        Document(sent::<ForceUnlockOutcome>),
        |call| Box::pin(snapshots::force_unlock(call)),
    )
    .body(received::<ForceUnlockBody>),
    Route::new(
        "history",
        Method::GET,
        profile!("/{sha_prefix}/history"),
        Tenant(Role::Read),
        "Tells which snapshots led to one",
        Document(sent::<HistoryOutcome>),
        |call| Box::pin(browse::history(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "tree",
        Method::GET,
        profile!("/{sha_prefix}/tree"),
        Tenant(Role::Run),
        "Lists a directory of a snapshot",
        Document(sent::<LsOutcome>),
        |call| Box::pin(browse::tree(call)),
    )
    .query(received::<TreeQuery>),
    Route::new(
        "file",
        Method::GET,
        profile!("/{sha_prefix}/files/{*path}"),
        Tenant(Role::Run),
        "Sends one file of a snapshot, every byte verified",
        Bytes,
        |call| Box::pin(browse::file(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "diff",
        Method::GET,
        profile!("/{sha_prefix}/diff/{other_sha_prefix}"),
        Tenant(Role::Run),
        "Tells which paths differ between two snapshots",
        Document(sent::<DiffOutcome>),
        |call| Box::pin(browse::diff(call)),
    )
    .query(received::<DiffQuery>),
    Route::new(
        "tag",
        Method::PUT,
        profile!("/{sha_prefix}/tags/{tag}"),
        Tenant(Role::Operate),
        "Gives a snapshot a name, so that it is kept",
        Document(sent::<TagOutcome>),
        |call| Box::pin(tags::tag(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "untag",
        Method::DELETE,
        profile!("/{sha_prefix}/tags/{tag}"),
        Tenant(Role::Operate),
        "Takes a name from a snapshot",
        Document(sent::<TagOutcome>),
        |call| Box::pin(tags::untag(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "events",
        Method::GET,
        profile!("/events"),
        Tenant(Role::Read),
        "Tells what has happened to the pointer and the lock of a profile",
        Document(sent::<LogOutcome>),
        |call| Box::pin(activity::events(call)),
    )
    .query(received::<EventsQuery>),
    Route::new(
        "show_lease",
        Method::GET,
        profile!("/leases"),
        Tenant(Role::Read),
        "Tells who holds the lock of a profile",
        Document(sent::<ShowLockOutcome>),
        |call| Box::pin(leases::show(call)),
    )
    .query(received::<LineageQuery>),
    Route::new(
        "acquire_lease",
        Method::POST,
        profile!("/leases"),
        Tenant(Role::Run),
        "Takes the lock of a profile, and waits for another holder if asked to",
        Document(sent::<AcquireLockOutcome>),
        |call| Box::pin(leases::acquire(call)),
    )
    .query(received::<AcquireQuery>)
    .body(received::<AcquireBody>),
    Route::new(
        "renew_lease",
        Method::PUT,
        profile!("/leases"),
        Tenant(Role::Run),
        "Renews the lock of a profile",
        Document(sent::<RenewLockOutcome>),
        |call| Box::pin(leases::renew(call)),
    )
    .body(received::<HeldBody>),
    Route::new(
        "release_lease",
        Method::DELETE,
        profile!("/leases"),
        Tenant(Role::Run),
        "Gives the lock of a profile back",
        Document(sent::<ReleaseLockOutcome>),
        |call| Box::pin(leases::release(call)),
    )
    .body(received::<HeldBody>),
    Route::new(
        "stats",
        Method::GET,
        "/v1/tenants/{tenant_id}/stats",
        Tenant(Role::Read),
        "Counts what a tenant has stored, and what it stands for",
        Document(sent::<TenantStats>),
        |call| Box::pin(activity::stats(call)),
    ),
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
