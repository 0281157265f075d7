//! `routes` joins the tables of all HTTP routes. Each file has the table of its area, with the role that each route
//! needs and its handler.

/// The path of a profile's resource.
macro_rules! profile {
    ($below:literal) => {
        concat!("/v1/profile-snapshots/{tenant_id}/{profile_id}", $below)
    };
}

mod activity;
mod archives;
mod browse;
mod containers;
mod description;
mod events;
mod health;
mod jobs;
mod loads;
mod locks;
mod login;
mod mcp;
mod metrics;
mod mounts;
mod overview;
mod page;
mod projects;
mod schedules;
mod sessions;
mod snapshots;
mod tags;
mod uploads;

use crate::route::Route;

/// The tables of all areas, in the order in which they are described.
static TABLES: &[&[Route]] = &[
    health::ROUTES,
    metrics::ROUTES,
    description::ROUTES,
    page::ROUTES,
    login::ROUTES,
    overview::ROUTES,
    snapshots::ROUTES,
    browse::ROUTES,
    archives::ROUTES,
    loads::ROUTES,
    uploads::ROUTES,
    tags::ROUTES,
    activity::ROUTES,
    locks::ROUTES,
    jobs::ROUTES,
    schedules::ROUTES,
    events::ROUTES,
    mcp::ROUTES,
    mounts::ROUTES,
    sessions::ROUTES,
    containers::ROUTES,
    projects::ROUTES,
];

/// Every route of the server.
pub(crate) fn all() -> impl Iterator<Item = &'static Route> {
    TABLES.iter().copied().flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use axum::routing::MethodFilter;

    use super::*;
    use crate::{
        api_page, openapi,
        route::Access::{Open, Tenant},
    };

    #[test]
    fn every_route_is_described_under_a_name_of_its_own() {
        let document = openapi::document(all());
        let mut names = BTreeSet::new();
        for route in all() {
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
        let document = openapi::document(all());
        for route in all() {
            let operation = &document["paths"][openapi::path(route)][openapi::method(route)];
            assert_eq!(operation["security"].is_null(), route.access == Open, "{route:?}");
            let is_of_a_tenant = matches!(route.access, Tenant(_));
            assert_eq!(route.path.contains("{tenant_id}"), is_of_a_tenant, "{route:?}");
        }
    }

    #[test]
    fn the_page_shows_every_route_and_needs_nothing_from_elsewhere() {
        let page = api_page::page(&openapi::document(all()));
        for route in all() {
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
