//! These tests save databases of a PostgreSQL that runs in a container, and restore them into another one's.

use std::{
    io::Write,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use tests::{binary::assert_says, docker::Daemon};

use crate::{load::rounds, shop::Shop};

fn project(daemon: &Daemon) -> String {
    format!(
        "docker_host = \"{}\"\n[volumes.orders]\nconsistency = \"postgres\"\ncontainer = \"db\"\ndatabases = [\"shop\"]\n",
        daemon.address()
    )
}

#[test]
fn linked_rows_beside_a_writer_are_restored_into_a_server_at_a_second_daemon() {
    let (first, second) = (Daemon::start(), Daemon::start());
    first.postgres("db");
    second.postgres("other");
    first.sql("db", "postgres", "CREATE ROLE clerk LOGIN");
    first.sql("db", "postgres", "CREATE DATABASE shop");
    first.sql(
        "db",
        "shop",
        "CREATE TABLE a(n int, t text); CREATE TABLE b(n int); ALTER TABLE a OWNER TO clerk",
    );
    let shop = Shop::new(&project(&first));
    let stop = Arc::new(AtomicBool::new(false));
    let psql =
        ["exec", "--interactive", "db", "psql", "-XqU", "postgres", "-v", "ON_ERROR_STOP=1", "-d", "shop"];
    let mut writer = first.command(&psql).stdin(Stdio::piped()).spawn().unwrap();
    let feeding = {
        let (mut stdin, stop) = (writer.stdin.take().unwrap(), Arc::clone(&stop));
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let rows = "BEGIN; INSERT INTO a VALUES (1, 'x\\\\y'); INSERT INTO b VALUES (1); COMMIT;";
                writeln!(stdin, "{rows}").unwrap();
            }
        })
    };
    let mut last = 0;
    for round in 0..rounds(2) {
        let told: u64 = first.sql("db", "shop", "SELECT count(*) FROM a").parse().unwrap();
        let saved = shop.save(&[]);
        let dump = &saved["snapshot"]["volumeManifests"]["orders"]["postgres"][0];
        let (target, address) = (shop.path(&format!("out-{round}")), second.address());
        let words =
            ["--to", target.to_str().unwrap(), "--into", "orders=container:other", "--docker-host", &address];
        shop.host.succeed(shop.words("restore", "", &words));
        let count = |table: &str| -> u64 {
            second.sql("other", "shop", &format!("SELECT count(*) FROM {table}")).parse().unwrap()
        };
        let (a, b) = (count("a"), count("b"));
        assert_eq!(a, b, "one without the other");
        assert!(a >= told && a >= last, "{a} of {told}");
        assert_eq!(dump["tables"]["public.a"]["rows"], a);
        last = a;
        assert_eq!(
            second.sql("other", "shop", "SELECT tableowner FROM pg_tables WHERE tablename = 'a'"),
            "clerk"
        );
        second.sql("other", "postgres", "DROP DATABASE shop");
    }
    stop.store(true, Ordering::Relaxed);
    feeding.join().unwrap();
    assert!(writer.wait().unwrap().success());
    assert!(last > 0);
    shop.assert_tidy();
}

#[test]
fn a_dump_in_a_container_that_fails_fails_the_save_and_says_why() {
    let daemon = Daemon::start();
    daemon.postgres("db");
    let shop = Shop::new(&project(&daemon));
    assert_says(&shop.host.fail(42, shop.words("save", "", &[])), "database \"shop\" does not exist");
    daemon.docker(&["pause", "db"]);
    assert_says(&shop.host.fail(32, shop.words("save", "", &[])), "db");
    assert_eq!(daemon.state("db"), "paused");
    daemon.docker(&["unpause", "db"]);
    // One without the programs.
    daemon.docker(&["rm", "--force", "db"]);
    daemon.docker(&["run", "--detach", "--name", "db", "busybox:test", "sleep", "600"]);
    let error = shop.host.fail(42, shop.words("save", "", &[]));
    assert!(error["hint"].as_str().unwrap().contains("the container needs psql"), "{error}");
    assert!(shop.states().is_empty());
    shop.assert_tidy();
}

/// Building its index takes a minute, and dumping it does not.
const SLOW: &str = "CREATE TABLE t(n int); INSERT INTO t SELECT generate_series(1, 300); \
     CREATE FUNCTION slow(n int) RETURNS int IMMUTABLE LANGUAGE plpgsql AS \
     $$ BEGIN IF current_setting('application_name') ~ '^(pstore|pg_restore)' THEN PERFORM pg_catalog.pg_sleep(0.2); END IF; \
     RETURN n; END $$; \
     CREATE INDEX ON t (slow(n))";

#[test]
fn what_a_failed_restore_has_begun_in_a_container_is_not_committed_later() {
    let daemon = Daemon::start();
    daemon.postgres("db");
    daemon.postgres("other");
    daemon.sql("db", "postgres", "CREATE DATABASE shop");
    daemon.sql("db", "shop", SLOW);
    let shop = Shop::new(&project(&daemon));
    shop.save(&[]);
    shop.say(&format!("{}time_limit = \"5s\"\n", project(&daemon)));
    let databases =
        || daemon.sql("other", "postgres", "SELECT count(*) FROM pg_database WHERE datname = 'shop'");
    let target = shop.path("out");
    let words = ["--to", target.to_str().unwrap(), "--into", "orders=container:other"];
    let error = shop.host.fail(42, shop.words("restore", "", &words));
    assert_says(&error, "it took longer than 5 s");
    let busy = "SELECT count(*) FROM pg_stat_activity WHERE application_name ~ '^(pstore|pg_restore)'";
    assert_eq!((databases().as_str(), daemon.sql("other", "postgres", busy).as_str()), ("0", "0"));
    // One that was there, and empty, stays empty.
    daemon.sql("other", "postgres", "CREATE DATABASE shop");
    shop.host.fail(42, shop.words("restore", "", &[&words[..], &["--force"]].concat()));
    assert_eq!(daemon.sql("other", "postgres", busy), "0");
    assert_eq!(daemon.sql("other", "shop", "SELECT count(*) FROM pg_tables WHERE tablename = 't'"), "0");
}
