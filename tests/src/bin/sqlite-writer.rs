//! `sqlite-writer` writes to a database in a loop, as a process of its own that a test can kill.
//!
//! `sqlite-writer DATABASE JOURNAL-MODE NAME`: adds rows one transaction at a time, each of
//! them durable, and says the number of each on stdout once it has been acknowledged.

use std::{env, io::Write, thread, time::Duration};

use rusqlite::{Connection, Result};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [path, mode, name] = &arguments[..] else { panic!("see the head of this file") };
    // A daemon that is killed ends this, too: then there is nothing more to say.
    if let Err(error) = write(path, mode, name) {
        eprintln!("{error}");
    }
}

fn write(path: &str, mode: &str, name: &str) -> Result<()> {
    let mut database = Connection::open(path)?;
    // SQLite's own waits too long between looks to ever find a moment that another leaves it.
    database.busy_handler(Some(|looks| {
        thread::sleep(Duration::from_millis(1));
        looks < 20_000
    }))?;
    database.pragma_update(None, "journal_mode", mode)?;
    database.pragma_update(None, "synchronous", "FULL")?;
    // Checkpoints, too, are to be cut short now and then.
    database.pragma_update(None, "wal_autocheckpoint", 20)?;
    let mut stdout = std::io::stdout();
    for number in 0.. {
        let writing = database.transaction_with_behavior(rusqlite::TransactionBehavior::Immediate)?;
        let row = "INSERT INTO rows VALUES (?1, ?2, randomblob(3000))";
        writing.execute(row, (name, number))?;
        // Pages in the middle change as well.
        writing.execute("UPDATE rows SET filler = randomblob(2000) WHERE number = ?1 / 2", [number])?;
        writing.commit()?;
        if writeln!(stdout, "{number}").and_then(|()| stdout.flush()).is_err() {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
