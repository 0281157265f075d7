//! These tests save databases of a real PostgreSQL, and restore them into another one.

use std::{
    io::Write,
    process::{Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use rustix::process::{Pid, Signal, kill_process};
use tests::{binary::assert_says, postgres::Postgres};

use crate::{load::rounds, shop::Shop};

fn project(server: &Postgres, databases: &str) -> String {
    format!(
        "[volumes.orders]\nconsistency = \"postgres\"\nurl = \"{}\"\ndatabases = {databases}\n",
        server.url()
    )
}

/// A server with two databases, and a role that owns a table.
fn server() -> Postgres {
    let server = Postgres::start();
    server.sql("postgres", "CREATE ROLE clerk LOGIN");
    for database in ["shop", "audit"] {
        server.sql("postgres", &format!("CREATE DATABASE {database}"));
    }
    server.sql("shop", "CREATE TABLE a(n int, t text); CREATE TABLE b(n int); ALTER TABLE a OWNER TO clerk");
    server.sql(
        "audit",
        "CREATE TABLE \"odd name\"(n int); INSERT INTO \"odd name\" SELECT generate_series(1, 7)",
    );
    server
}

#[test]
fn linked_rows_beside_a_writer_are_restored_into_a_second_server() {
    let (first, second) = (server(), Postgres::start());
    let shop = Shop::new(&project(&first, "[\"shop\", \"audit\"]"));
    let stop = Arc::new(AtomicBool::new(false));
    let mut writer = Command::new(Postgres::programs().join("psql"))
        .args(["-Xq", "-v", "ON_ERROR_STOP=1", "-d", &first.url().replace("/postgres?", "/shop?")])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
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
    for round in 0..rounds(3) {
        let told: u64 = first.sql("shop", "SELECT count(*) FROM a").parse().unwrap();
        let saved = shop.save(&[]);
        let dumps = &saved["snapshot"]["volumeManifests"]["orders"]["postgres"];
        assert_eq!(dumps[0]["database"], "shop");
        assert!(dumps[0]["serverVersion"].as_str().unwrap().starts_with(char::is_numeric), "{dumps:#}");
        let (target, into) = (shop.path(&format!("out-{round}")), format!("orders={}", second.url()));
        let words = ["--to", target.to_str().unwrap(), "--into", &into];
        let restored = shop.host.succeed(shop.words("restore", "", &words));
        assert_eq!(restored["databases"], serde_json::json!(["orders"]));
        let count = |table: &str| {
            second.sql("shop", &format!("SELECT count(*) FROM {table}")).parse::<u64>().unwrap()
        };
        let (a, b) = (count("a"), count("b"));
        assert_eq!(a, b, "one without the other");
        assert!(a >= told && a >= last, "{a} of {told}");
        assert_eq!(dumps[0]["tables"]["public.a"]["rows"], a);
        last = a;
        assert_eq!(second.sql("audit", "SELECT sum(n) FROM \"odd name\""), "28");
        let owner = "SELECT tableowner FROM pg_tables WHERE tablename = 'a'";
        assert_eq!(second.sql("shop", owner), "clerk", "roles are restored, too");
        // What is there is never overwritten.
        let again = ["--to", target.to_str().unwrap(), "--force", "--into", &into];
        let error = shop.host.fail(5, shop.words("restore", "", &again));
        assert_says(&error, "the database shop of the server is there, and not empty");
        for name in ["shop", "audit"] {
            second.sql("postgres", &format!("DROP DATABASE {name}"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    feeding.join().unwrap();
    assert!(writer.wait().unwrap().success());
    assert!(last > 0, "nobody wrote");
    shop.assert_tidy();
}

#[test]
fn a_dump_that_fails_fails_the_save() {
    let first = server();
    let shop = Shop::new(&project(&first, "[\"audit\"]"));
    shop.save(&[]);
    shop.say(&project(&first, "[\"audit\", \"gone\"]"));
    let error = shop.host.fail(42, shop.words("save", "", &[]));
    assert_says(&error, "step 6 of 10 (copy to the store): pg_dump failed");
    assert_says(&error, "\"gone\" does not exist");
    assert_eq!(shop.states().len(), 1, "no partial state");
    shop.say(&project(&first, "[\"audit\"]").replace("postgres@", "postgres:secret@"));
    assert_says(
        &shop.host.fail(2, shop.words("save", "", &[])),
        "line 3: \"url\" of volume \"orders\" has a password",
    );
    // Nor is one passed on where a server is named.
    shop.say(&project(&first, "[\"audit\"]"));
    let target = shop.path("nowhere");
    for server in ["postgresql://u:secret@/postgres", "host=/run user=u password = secret"] {
        let into = format!("orders={server}");
        let words = ["--to", target.to_str().unwrap(), "--into", &into];
        let error = shop.host.fail(2, shop.words("restore", "", &words));
        assert_says(&error, "the server for volume \"orders\" is named with a password");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    shop.say(&project(&first, "[\"audit\"]").replace("?host=", "?host=/nowhere"));
    assert_says(&shop.host.fail(42, shop.words("save", "", &[])), "psql failed");
    shop.assert_tidy();
}

#[test]
fn a_database_that_was_restored_is_compared_without_room_for_a_second_copy() {
    let (first, second) = (server(), Postgres::start());
    let shop = Shop::new(&project(&first, "[\"audit\"]"));
    shop.save(&[]);
    // Nothing can be written where temporary files are.
    let host = shop.host.clone().with("TMPDIR", shop.path("absent").to_str().unwrap());
    let (target, into) = (shop.path("out"), format!("orders={}", second.url()));
    host.succeed(shop.words("restore", "", &["--to", target.to_str().unwrap(), "--into", &into]));
    assert_eq!(second.sql("audit", "SELECT sum(n) FROM \"odd name\""), "28");
}

#[test]
fn a_restore_that_fails_leaves_no_database_behind() {
    let (first, second) = (server(), Postgres::start());
    let shop = Shop::new(&format!("{}globals = false\n", project(&first, "[\"audit\", \"shop\"]")));
    shop.save(&[]);
    let (target, into) = (shop.path("out"), format!("orders={}", second.url()));
    // The owner of a table in the second database is not there, and was not saved.
    let words = ["--to", target.to_str().unwrap(), "--into", &into];
    let error = shop.host.fail(42, shop.words("restore", "", &words));
    assert_says(&error, "role \"clerk\" does not exist");
    let left = "SELECT count(*) FROM pg_database WHERE datname IN ('shop', 'audit')";
    assert_eq!(second.sql("postgres", left), "0");
    let error =
        shop.host.fail(2, shop.words("restore", "", &["--to", "x", "--into", "uploads=postgresql:///x"]));
    assert_says(&error, "is no volume with databases of Postgres");
}

#[test]
fn a_restore_that_fails_at_its_second_volume_leaves_nothing_of_the_first() {
    let (first, second) = (server(), Postgres::start());
    let volume = |name: &str, database: &str| {
        project(&first, &format!("[\"{database}\"]"))
            .replace("[volumes.orders]", &format!("[volumes.{name}]"))
            + "globals = false\n"
    };
    let shop = Shop::new(&format!("{}{}", volume("books", "audit"), volume("orders", "shop")));
    shop.save(&[]);
    let into = ["books", "orders"].map(|name| format!("{name}={}", second.url()));
    let target = shop.path("out");
    let words = ["--to", target.to_str().unwrap(), "--into", &into[0], "--into", &into[1]];
    let error = shop.host.fail(42, shop.words("restore", "", &words));
    assert_says(&error, "role \"clerk\" does not exist");
    let left = "SELECT count(*) FROM pg_database WHERE datname IN ('shop', 'audit')";
    assert_eq!(second.sql("postgres", left), "0");
    // A second try is not refused for what the first has left.
    second.sql("postgres", "CREATE ROLE clerk");
    shop.host.succeed(shop.words("restore", "", &[&words[..], &["--force"]].concat()));
    assert_eq!(second.sql("postgres", left), "2");
}

#[test]
fn a_restore_in_place_that_is_refused_late_leaves_no_database_behind() {
    let (first, second) = (server(), Postgres::start());
    let tables =
        format!("{}\n[volumes.uploads]\nconsistency = \"generic\"\n", project(&first, "[\"audit\"]"));
    let shop = Shop::new(&tables);
    shop.save(&[]);
    // It opens a file after the first look, when the state of now is saved.
    let hook = "sleep 600 9<>current/volumes/uploads/photo & echo $! > opener.pid";
    shop.say(&format!("{tables}\n[[hooks.pre_save]]\nshell = \"{hook}\"\n"));
    let into = format!("orders={}", second.url());
    let ended = shop.host.run(shop.words("restore", "", &["--into", &into]));
    let opener = std::fs::read_to_string(shop.path("opener.pid")).unwrap().trim().parse().unwrap();
    kill_process(Pid::from_raw(opener).unwrap(), Signal::KILL).unwrap();
    assert_eq!(ended.code, Some(32), "{ended:#?}");
    let left = "SELECT count(*) FROM pg_database WHERE datname = 'audit'";
    assert_eq!(second.sql("postgres", left), "0");
    shop.say(&tables);
    let restored = shop.host.succeed(shop.words("restore", "@latest~1", &["--into", &into]));
    assert_eq!(restored["databases"], serde_json::json!(["orders"]));
    assert_eq!(second.sql("postgres", left), "1");
    // What is there is refused before the state of now is saved.
    let states = shop.states().len();
    let error = shop.host.fail(5, shop.words("restore", "", &["--into", &into]));
    assert_says(&error, "the database audit of the server is there, and not empty");
    assert_eq!(shop.states().len(), states);
    shop.assert_tidy();
}

#[test]
fn a_database_comes_back_with_its_owner_its_encoding_and_its_locale() {
    let (first, second) = (server(), Postgres::start());
    first.sql(
        "postgres",
        "CREATE DATABASE old OWNER clerk TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    first.sql("old", "CREATE TABLE t(s text); INSERT INTO t VALUES ('caf' || chr(233))");
    let shop = Shop::new(&project(&first, "[\"old\"]"));
    let saved = shop.save(&[]);
    let dump = &saved["snapshot"]["volumeManifests"]["orders"]["postgres"][0];
    let told = ["owner", "encoding", "lcCollate", "lcCtype"].map(|field| dump[field].as_str().unwrap());
    assert_eq!(told, ["clerk", "LATIN1", "C", "C"]);
    let (target, into) = (shop.path("out"), format!("orders={}", second.url()));
    let words = ["--to", target.to_str().unwrap(), "--into", &into];
    shop.host.succeed(shop.words("restore", "", &words));
    let properties = "SELECT pg_get_userbyid(datdba), pg_encoding_to_char(encoding), datcollate, datctype \
         FROM pg_database WHERE datname = 'old'";
    assert_eq!(second.sql("postgres", properties), "clerk|LATIN1|C|C");
    assert_eq!(second.sql("old", "SELECT s = 'caf' || chr(233) FROM t"), "t");
    // The app goes on where it was.
    assert_eq!(second.sql("old", "SELECT has_schema_privilege('clerk', 'public', 'CREATE')"), "t");
}
