//! These tests make tokens for callers of the server.

use crate::test_host::TestHost;

/// The secret that was told, alone on its line or at its end.
fn secret(stderr: &str) -> &str {
    let secret = stderr.trim_end().rsplit(' ').next().unwrap();
    assert!(secret.starts_with("pstore_") && secret.len() == "pstore_".len() + 64, "{stderr}");
    secret
}

#[test]
fn an_entry_goes_to_stdout_and_its_secret_to_stderr() {
    let host = TestHost::new();
    let ran = host.run("token new --tenant acme --tenant other --role operate --name ci");
    assert_eq!(ran.code, 0, "{ran:?}");
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert_eq!(lines[..2], ["[[token]]", "name = \"ci\""]);
    assert!(lines[2].starts_with("sha256 = \"") && lines[5].starts_with("expires_at_ms = "), "{ran:?}");
    assert_eq!(lines[3..5], ["tenants = [\"acme\", \"other\"]", "role = \"operate\""]);
    assert!(ran.stderr.starts_with("the secret of ci, told this once: "), "{ran:?}");
    assert!(!ran.stdout.contains(secret(&ran.stderr)), "{ran:?}");
    // For scripts: the secret, and nothing else.
    let quiet = host.run("token new --tenant * --role admin --expires never -q");
    assert_eq!(quiet.stderr, format!("{}\n", secret(&quiet.stderr)));
    assert!(quiet.stdout.contains("tenants = [\"*\"]") && !quiet.stdout.contains("expires"), "{quiet:?}");
    let document = host.json("token new --tenant acme --role read");
    assert_eq!(document["role"], "read");
}

#[test]
fn a_token_for_nobody_is_not_made() {
    let host = TestHost::new();
    host.run("token new --role read").refused(2, &["--tenant"]);
    host.run("token new --tenant acme").refused(2, &["--role"]);
    host.run("token new --tenant acme --role owner").refused(2, &["read, run, operate, admin"]);
    host.run("token new --tenant a/b --role read").refused(2, &["invalid tenant name"]);
    host.run("token new --tenant * --tenant acme --role read").refused(2, &["stands for all tenants"]);
    host.run("token new --tenant acme --role read --expires soon").refused(2, &["90d, 12h or 30m"]);
    host.run("token new --tenant acme --role read --name a/b").refused(2, &["names no token"]);
}

#[test]
fn a_server_needs_tokens_and_a_place() {
    let host = TestHost::new();
    host.run("serve").refused(2, &["--tokens"]);
    host.run("serve --tokens t --listen nowhere").refused(2, &["127.0.0.1:7070"]);
    host.run("serve --tokens missing.toml").refused(6, &["cannot read the token file", "pstore token new"]);
}
