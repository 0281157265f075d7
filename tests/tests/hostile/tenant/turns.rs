//! These tests put a tenant whose documents are junk in the way of an operator who goes through all tenants.

use std::fs;

use serde_json::Value;
use tests::binary::Ended;

use super::{GLOBEX, Neighbours, overwrite, sizes};

const ALL: [&str; 5] = ["stats", "gc", "reap", "retention plan", "retention apply"];

fn run(neighbours: &Neighbours, line: &str) -> Ended {
    neighbours.host.clone().within_memory(sizes::MEMORY).run(line.split(' '))
}

/// Whether the document tells of the other tenant's part.
fn tells_of_globex(verb: &str, document: &Value) -> bool {
    let list = if verb.starts_with("retention") { "snapshots" } else { "tenants" };
    match verb {
        "reap" => document["tenants"] == 2 && document["outcome"] == "swept",
        _ => document[list].as_array().unwrap().iter().any(|line| line["tenant_id"] == "globex"),
    }
}

/// All that the verb says of the tenant that fails: its name, why, and what to type.
#[track_caller]
fn passed_over(neighbours: &Neighbours, verb: &str, object: &str) {
    let ended = run(neighbours, verb);
    assert_eq!(ended.code, Some(40), "{verb}: {ended:#?}");
    assert_eq!(ended.document["error"]["kind"], "tenants_failed", "{verb}");
    let failed = ended.document["failed"].as_array().unwrap();
    assert_eq!((failed.len(), &failed[0]["tenant_id"]), (1, &"acme".into()), "{verb}: {failed:#?}");
    assert_eq!(failed[0]["kind"], "damaged", "{verb}: {failed:#?}");
    let told = failed[0]["message"].as_str().unwrap();
    assert!(told.contains(object), "{verb}: {told}");
    let alone = verb.replace("apply", "plan");
    assert!(ended.stderr.contains(&format!("`pstore {alone} acme`")), "{verb}: {ended:#?}");
    assert!(ended.stderr.contains("1 of 2 tenants failed"), "{verb}: {ended:#?}");
    assert!(!ended.stderr.contains("TENANT/PROFILE"), "a hint names whom it is about: {ended:#?}");
    assert!(tells_of_globex(verb, &ended.document), "{verb}: {ended:#?}");
    // By itself it fails as it is damaged.
    let ended = run(neighbours, &format!("{verb} acme"));
    assert_eq!(ended.code, Some(10), "{verb}: {ended:#?}");
}

#[test]
fn a_tenant_with_junk_for_a_configuration_is_passed_over() {
    let neighbours = Neighbours::new();
    let config = neighbours.path("store/objects/content/acme/tenant.json");
    for harm in ["{", "[]", "null", "{\"version\":1}"] {
        overwrite(&config, harm.as_bytes());
        for verb in ALL {
            passed_over(&neighbours, verb, "content/acme/tenant.json");
        }
    }
    sizes::swell(&config);
    for verb in ALL {
        passed_over(&neighbours, verb, "content/acme/tenant.json");
    }
    neighbours.host.verify(GLOBEX, &["--read-data"]);
}

#[test]
fn a_tenant_whose_documents_cannot_be_read_is_passed_over_by_collections() {
    for object in [
        "content/acme/condemned/01J00000000000000000000000",
        "content/acme/pins/01J00000000000000000000000",
        "snapshots/acme/alice/131/snap-01J00000000000000000000000.json",
        "snapshots/acme/alice/131/latest.json",
    ] {
        let neighbours = Neighbours::new();
        let path = neighbours.path("store/objects").join(object);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "{").unwrap();
        passed_over(&neighbours, "gc", object);
        sizes::swell(&path);
        passed_over(&neighbours, "gc", object);
    }
}

/// A store that does not answer fails for all: nobody is passed over.
#[test]
fn a_store_that_is_gone_is_no_tenants_fault() {
    let neighbours = Neighbours::new();
    fs::rename(neighbours.path("store"), neighbours.path("moved")).unwrap();
    for verb in ALL {
        let ended = run(&neighbours, verb);
        assert_eq!(ended.code, Some(3), "{verb}: {ended:#?}");
    }
}
