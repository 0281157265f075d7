//! These tests give `hear` answers that are right, wrong and hostile.

use super::*;
use crate::db_state::DbState;

const READY: &str = r#"{"ready":{"seccomp":true,"landlock":true}}"#;
const WHOLE: &str =
    r#"{"sqlite":[0,{"state":{"state":"ok"},"hot_journal":false,"wal":false,"bytes":9,"cookies":null}]}"#;

fn hear(lines: &[&str]) -> Result<Heard, Stop> {
    let (database, directory) = (CheckJob::Sqlite("Cookies".into()), CheckJob::LevelDb("db".into()));
    let mut heard = Heard::default();
    for line in lines {
        heard.hear(line.as_bytes(), &[&database, &directory])?;
    }
    Ok(heard)
}

#[test]
fn an_answer_to_what_was_asked_is_taken() {
    let heard = hear(&[READY, r#"{"began":0}"#, r#"{"began":1}"#, WHOLE]).unwrap();
    assert_eq!((heard.found.len(), heard.begun), (1, BTreeSet::from([1])));
    assert!(matches!(&heard.found[&0], CheckResult::Sqlite(checked, None) if checked.state == DbState::Ok));
    assert_eq!(hear(&[READY, r#"{"began":0}"#, r#""out_of_memory""#]).unwrap_err(), Stop::OutOfMemory);
    assert_eq!(hear(&[r#"{"failed":"why"}"#]).unwrap_err(), Stop::Failed("why".to_owned()));
}

#[test]
fn nothing_else_is_believed() {
    let began = r#"{"began":0}"#;
    let with = |from: &str, to: &str| WHOLE.replace(from, to);
    for (what, lines) in [
        ("text", vec!["hello".to_owned()]),
        ("nothing", vec![String::new()]),
        ("a line that is cut off", vec![READY[..20].to_owned()]),
        ("work before it is confined", vec![began.to_owned()]),
        ("an answer before that", vec![WHOLE.to_owned()]),
        ("confined twice", vec![READY.to_owned(), READY.to_owned()]),
        ("failed after all", vec![READY.to_owned(), r#"{"failed":"x"}"#.to_owned()]),
        ("a job that is none", vec![READY.to_owned(), r#"{"began":2}"#.to_owned()]),
        ("begun twice", vec![READY.to_owned(), began.to_owned(), began.to_owned()]),
        ("answered unbegun", vec![READY.to_owned(), WHOLE.to_owned()]),
        ("answered twice", vec![READY.to_owned(), began.to_owned(), WHOLE.to_owned(), WHOLE.to_owned()]),
        ("of another kind", vec![READY.to_owned(), r#"{"began":1}"#.to_owned(), with("[0,", "[1,")]),
        ("more than was asked", vec![READY.to_owned(), began.to_owned(), with("null", "null,\"more\":1")]),
        (
            "damage without a problem",
            vec![
                READY.to_owned(),
                began.to_owned(),
                with(r#"{"state":"ok"}"#, r#"{"state":"damaged","detail":[]}"#),
            ],
        ),
        ("a number below none", vec![READY.to_owned(), began.to_owned(), with("9", "-9")]),
    ] {
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(hear(&lines).map(drop), Err(Stop::Nonsense), "{what}");
    }
}

#[test]
fn what_is_told_is_cut_to_what_a_person_reads() {
    let long = "x".repeat(10_000);
    let detail = format!(r#"{{"state":"damaged","detail":["{long}","{long}"]}}"#);
    let line = WHOLE.replace(r#"{"state":"ok"}"#, &detail);
    let mut heard = hear(&[READY, r#"{"began":0}"#, &line]).unwrap();
    let Some(CheckResult::Sqlite(checked, _)) = heard.found.remove(&0) else { panic!() };
    let DbState::Damaged(problems) = checked.state else { panic!() };
    assert!(problems.iter().all(|problem| problem.chars().count() <= 241), "{problems:?}");
}

#[test]
fn an_endless_line_is_cut_off() {
    let (tell, told) = std::sync::mpsc::sync_channel(4);
    std::thread::scope(|scope| {
        scope.spawn(move || listen(std::io::repeat(b'x'), &tell));
        assert_eq!(told.recv().unwrap().len() as u64, MAX_ANSWER_BYTES);
        drop(told);
    });
}
