//! These tests check what `deploy/` has for clusters and for Docker, without either.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use tests::{binary::program as pstore, server::program};

use crate::root;

fn manifests(folder: &Path) -> Output {
    let mut command = Command::new(program("python"));
    command.arg(root().join("scripts/manifests")).arg(folder).env("PSTORE", pstore());
    command.output().unwrap()
}

#[test]
fn the_manifests_fit_kubernetes_and_one_another() {
    let ended = manifests(&root().join("deploy/kubernetes"));
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

/// A file, what it says, what it says instead, and what is then wrong.
const MISTAKES: [(&str, &str, &str, &str); 10] = [
    ("server.yaml", "replicas: 3", "replica: 3", "('replica' was unexpected)"),
    ("server.yaml", "--json-log", "--json-logs", "pstore serve knows no --json-logs"),
    ("server.yaml", "lock_ttl_seconds", "lock_ttl_secs", "pstore does not take pstore.toml"),
    ("server.yaml", "limits: { memory: 1Gi }", "limits: { cpu: 1 }", "no request or limit of memory"),
    ("server.yaml", "drop: [ALL]", "drop: [NET_RAW]", "would not be admitted"),
    ("server.yaml", "targetPort: https", "targetPort: http", "no pod has the port http"),
    ("mounts.yaml", "secretName: pstore-tokens", "secretName: other", "how to make the secret other"),
    ("mounts.yaml", "podSelector: {}", "podSelector: { matchLabels: { a: b } }", "chooses no pod"),
    ("agent.yaml", "HostToContainer", "None", "does not see mounts that are made later"),
    (
        "agent.yaml",
        "claimRef: { namespace: agents-acme, name: socket",
        "claimRef: { namespace: agents-acme, name: other",
        "claim it back",
    ),
];

/// All mistakes are made at once: each is found beside the others.
#[test]
fn a_manifest_that_is_wrong_is_found() {
    let folder = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(root().join("deploy/kubernetes")).unwrap() {
        let path = entry.unwrap().path();
        let mut text = fs::read_to_string(&path).unwrap();
        for (file, from, to, _) in MISTAKES {
            if path.file_name().unwrap() == file {
                assert!(text.contains(from), "{file} has no {from}");
                text = text.replacen(from, to, 1);
            }
        }
        fs::write(folder.path().join(path.file_name().unwrap()), text).unwrap();
    }
    let ended = manifests(folder.path());
    assert!(!ended.status.success());
    let found = String::from_utf8(ended.stderr).unwrap();
    for (file, from, to, said) in MISTAKES {
        assert!(found.contains(said), "{file}: {from} became {to}, and nobody noticed: {found}");
    }
}

#[test]
fn the_compose_file_is_one_that_compose_takes() {
    let folder = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(root().join("deploy/compose/compose.yml")).unwrap();
    fs::write(folder.path().join("store.env"), "PSTORE_STORE=s3://profiles/prod\n").unwrap();
    let config = |text: &str| {
        fs::write(folder.path().join("compose.yml"), text).unwrap();
        let file = folder.path().join("compose.yml");
        Command::new("docker-compose").arg("-f").arg(file).args(["config"]).output().unwrap()
    };
    let ended = config(&text);
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    for words in ["propagation: rshared", "propagation: rslave", "replicas: 2", "privileged: true"] {
        assert!(said.contains(words), "no {words} in {said}");
    }
    assert!(!config(&text.replace("cap_drop:", "cap_dropped:")).status.success());
}

/// The options of every server in the compose file are those of `pstore serve`.
#[test]
fn the_compose_file_starts_servers_with_options_that_they_have() {
    let help = Command::new(pstore()).args(["serve", "--help"]).output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let text = fs::read_to_string(root().join("deploy/compose/compose.yml")).unwrap();
    let words = text.split(['"', ' ', '\n', ',']).filter(|word| word.starts_with("--"));
    let options: Vec<&str> = words.map(|word| word.split('=').next().unwrap()).collect();
    let unknown: Vec<_> = options
        .iter()
        // Those of Docker, in the comments, and of the probe.
        .filter(|option| !["--scale", "--rm", "--tenant", "--role", "--server", "--json"].contains(option))
        .filter(|option| !help.contains(&format!("{option} ")) && !help.contains(&format!("{option}\n")))
        .collect();
    assert!(options.len() > 8, "{options:?}");
    assert!(unknown.is_empty(), "{unknown:?}");
}
