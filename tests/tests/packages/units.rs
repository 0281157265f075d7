//! These tests install the Debian package on a machine with systemd, by the commands of `docs/install.md`: its units do
//! their work, confined.

use std::fs;

use tests::{server::program, systemd::Machine};

use super::made::{package, root};

/// What the page says to put there.
const SERVE_ENV: &str = "PSTORE_STORE=s3://profiles/prod
PSTORE_S3_ENDPOINT=http://127.0.0.1:8333
AWS_ACCESS_KEY_ID=pstore
AWS_SECRET_ACCESS_KEY=of-the-test
";

/// An S3 server of the machine's own.
const BUCKET: &str = "[Service]
Environment=AWS_ACCESS_KEY_ID=pstore AWS_SECRET_ACCESS_KEY=of-the-test HOME=/srv
ExecStart=/srv/weed mini -ip=127.0.0.1 -bucket=profiles -dir=/srv/bucket -s3.port.iceberg=0 -s3.port.lance=0 -webdav=false -admin.ui=false
ExecStartPre=mkdir -p /srv/bucket
";

/// A profile with a database, sent to the server as an archive, examined there, and fetched again.
const ROUND_TRIP: &str = r#"
import pathlib, sqlite3, sys
import pstore
udd = pathlib.Path("udd/Default"); udd.mkdir(parents=True)
database = sqlite3.connect(udd / "Cookies")
database.execute("create table cookies (host_key, name, value)"); database.commit(); database.close()
server = pstore.Server("http://127.0.0.1:7070", token=sys.argv[1])
profile = pstore.profile("acme/alice", chrome_major=131, through=server)
stored = profile.snapshot("udd")
assert profile.current().sha256_prefix == stored.sha256_prefix, stored.document
profile.restore("again")
assert pathlib.Path("again/Default/Cookies").read_bytes() == (udd / "Cookies").read_bytes()
"#;

/// The lines of a block of a page: of the first one below a heading, or of the next.
fn block(page: &str, heading: &str, number: usize) -> String {
    let text = fs::read_to_string(root().join(page)).unwrap();
    let (_, below) = text.split_once(&format!("\n{heading}\n")).expect("the page has the heading");
    let block = below.split("\n```").nth(2 * number + 1).expect("the page has the block");
    block.trim_start_matches('\n').to_owned()
}

/// A machine that has installed the package, and a bucket.
fn machine() -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let made = package("deb", folder.path());
    let client = root().join("clients/python/pstore");
    let machine = Machine::boot(&[&made, &program("weed").canonicalize().unwrap(), &client]);
    machine.sh(&format!("cat > /etc/systemd/system/bucket.service <<'END'\n{BUCKET}END\nsystemctl daemon-reload\nsystemctl start bucket"));
    machine.sh(&block("docs/install.md", "## Debian", 0));
    machine.sh(&format!("cat > /etc/pstore/serve.env <<'END'\n{SERVE_ENV}END"));
    as_root(&machine, "for _ in $(seq 100); do pstore init && exit; sleep 0.2; done; exit 1");
    machine
}

/// Runs a command of root's with the variables of the services.
fn as_root(machine: &Machine, script: &str) -> String {
    machine.sh(&format!("set -a; . /etc/pstore/serve.env; set +a\n{script}"))
}

/// The secret in what `pstore token new` has said.
fn secret(said: &str) -> &str {
    let begin = said.find("pstore_").expect("a secret is told");
    let rest = &said[begin..];
    &rest[..rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len())]
}

#[test]
fn the_services_of_the_debian_package_do_their_work_confined() {
    let machine = machine();
    let said = machine.sh(&block("docs/install.md", "## Debian", 1));
    assert_eq!(
        machine
            .sh("systemctl is-active pstore-serve.service pstore-retention.timer pstore-gc.timer")
            .lines()
            .count(),
        3
    );
    let wait = "curl -sS --retry 60 --retry-connrefused --fail http://127.0.0.1:7070/readyz";
    machine.sh(wait);
    let script = format!("python3 - {} <<'END'\n{ROUND_TRIP}END", secret(&said));
    machine.sh(&script);
    // Each does its work once, and fails if it is kept from it.
    machine.sh("systemctl start pstore-reap.service pstore-retention.service pstore-gc.service");
    assert!(as_root(&machine, "pstore verify acme/alice").contains("No damage found"));
    // The server is nobody else's, and may do nothing but its work.
    let status = machine.sh(
        "grep -E '^(Uid|CapEff|NoNewPrivs|Seccomp):' /proc/$(systemctl show -P MainPID pstore-serve)/status",
    );
    let user = machine.sh("id -u pstore");
    assert!(status.contains(&format!("Uid:\t{}", user.trim())), "{status}");
    for line in ["CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
        assert!(status.contains(line), "{status}");
    }
    // The package goes, and its services end before.
    machine.sh("dpkg --remove pstore");
    assert_eq!(machine.try_sh("systemctl is-active pstore-serve.service").stdout, b"inactive\n");
}

#[test]
fn a_server_with_the_example_of_mounts_makes_mounts_that_outlive_it() {
    let machine = machine();
    let place = "/etc/systemd/system/pstore-serve.service.d";
    machine.sh(&format!(
        "mkdir -p {place} /srv/mounts
        sed 's/--json-log/& --socket-user=10001=acme:run/' /usr/share/doc/pstore/examples/mounts.conf > {place}/mounts.conf
        systemctl daemon-reload"
    ));
    machine.sh(&block("docs/install.md", "## Debian", 1));
    // Another user of the machine, whom the kernel names, and who has no rights.
    let agent = "setpriv --reuid=10001 --regid=10001 --clear-groups --inh-caps=-all";
    let ask = |line: &str| -> serde_json::Value {
        // It says nothing of the tries before: what it says comes with the answer.
        let ask = "curl -s --retry 60 --retry-all-errors --fail-with-body --unix-socket /run/pstore.sock";
        let said = machine.sh(&format!("{agent} {ask} {line}"));
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error} in {said:?}"))
    };
    let body = "-H 'Content-Type: application/json' -d '{\"tenant_id\": \"acme\", \"profile_id\": \"alice\", \"chrome_major_version\": 131}'";
    let made = ask(&format!("{body} http://host/v1/mounts"));
    let point = made["mountpoint"].as_str().unwrap();
    machine.sh(&format!("{agent} sh -ec 'echo before > {point}/Preferences'"));
    machine.sh("systemctl restart pstore-serve");
    machine.sh(&format!("{agent} sh -ec 'echo after >> {point}/Preferences'"));
    let id = made["mount_id"].as_str().unwrap();
    let ended = ask(&format!("-X DELETE 'http://host/v1/mounts/{id}?changes=commit'"));
    assert!(ended["committed"]["active_sha256_prefix"].is_string(), "{ended:#}");
    assert_eq!(as_root(&machine, "pstore cat acme/alice /Preferences"), "before\nafter\n");
}
