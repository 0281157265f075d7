//! These tests check an engine that works for other users, as a server's does.

use std::{path::Path, sync::Arc};

use store::{ErrorKind, format::config::Chunking};

use crate::{
    Engine, interrupt::Interrupt, observer::Unobserved, settings::Overrides, verbs::init::InitRequest,
};

fn engine(folder: &Path) -> Engine {
    let config = folder.join("pstore.toml");
    std::fs::write(&config, "").unwrap();
    let overrides = Overrides {
        store: Some(format!("file://{}", folder.join("store").display())),
        config: Some(config),
        no_cache: true,
        ..Overrides::default()
    };
    Engine::open(&overrides, Arc::new(Unobserved), Interrupt::new()).unwrap()
}

#[tokio::test]
async fn others_hear_neither_of_other_tenants_nor_where_the_store_is() {
    let folder = tempfile::tempdir().unwrap();
    let own = engine(folder.path());
    own.init(&InitRequest { chunking: Chunking::default() }).await.unwrap();
    own.writable_tenant(&"bigbank".parse().unwrap()).await.unwrap();
    let tenant = "acme".parse().unwrap();
    let said = |engine: Engine| async move {
        let failure = engine.tenant(&"acme".parse().unwrap()).await.unwrap_err();
        assert_eq!(failure.kind, ErrorKind::NotFound);
        format!("{} {}", failure.message, failure.hint.unwrap_or_default())
    };
    assert!(said(own.clone()).await.contains("bigbank"));
    let to_others = said(own.clone().serving()).await;
    let place = folder.path().display().to_string();
    assert!(!to_others.contains("bigbank") && !to_others.contains(&place), "{to_others}");
    // One that is new may be made in a store that is there.
    own.serving().writable_tenant(&tenant).await.unwrap();
}

#[tokio::test]
async fn a_server_makes_no_store() {
    let folder = tempfile::tempdir().unwrap();
    let serving = engine(folder.path()).serving();
    let failure = serving.writable_tenant(&"acme".parse().unwrap()).await.unwrap_err();
    assert_eq!(failure.kind, ErrorKind::NotFound);
    assert!(!failure.message.contains(&folder.path().display().to_string()), "{}", failure.message);
    assert!(!folder.path().join("store").exists());
}
