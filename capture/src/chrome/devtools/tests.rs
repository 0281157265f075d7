//! These tests ask servers within this process; the tests crate asks a real browser.

use std::{net::TcpListener, thread};

use super::*;

const PATH: &str = "/devtools/browser/01234567-89ab";

/// An endpoint that belongs to this process and gives `answer` to everyone.
fn serve(answer: Option<String>) -> Endpoint {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().flatten() {
            if let Some(answer) = &answer {
                stream.write_all(answer.as_bytes()).ok();
            }
            kept.push(stream);
        }
    });
    Endpoint { pid: std::process::id(), port, path: Some(PATH.to_owned()) }
}

fn version(path: &str) -> String {
    let body = format!(r#"{{"webSocketDebuggerUrl": "ws://127.0.0.1:1{path}"}}"#);
    format!("HTTP/1.1 200 OK\r\ncontent-length:{}\r\n\r\n{body}", body.len())
}

fn close(answer: Option<String>) -> Result<(), DevtoolsError> {
    serve(answer).close(Duration::from_millis(300))
}

#[test]
fn a_path_that_is_not_the_one_noted_is_a_strangers() {
    let answer = close(Some(version("/devtools/browser/other")));
    assert!(matches!(answer, Err(DevtoolsError::Stranger { .. })), "{answer:?}");
    let endpoint = serve(Some(version(PATH)));
    let deadline = Deadline(Instant::now() + Duration::from_secs(10));
    assert_eq!(endpoint.verified_path(deadline).unwrap(), PATH);
    assert_eq!(Endpoint { path: None, ..endpoint.clone() }.verified_path(deadline).unwrap(), PATH);
    let others = Endpoint { pid: std::os::unix::process::parent_id(), ..endpoint };
    assert!(matches!(others.close(Duration::from_secs(10)), Err(DevtoolsError::Stranger { .. })));
}

#[test]
fn what_is_not_devtools_is_an_error_and_not_a_wait() {
    let endless = format!("HTTP/1.1 200 OK\r\n{}", "x".repeat(1 << 20));
    let long = "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n{}".to_owned();
    let refusal = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_owned();
    for answer in [None, Some(endless), Some(long), Some(refusal), Some("HTTP/1.1 200".to_owned())] {
        let said = close(answer.clone());
        assert!(matches!(said, Err(DevtoolsError::NoAnswer { .. })), "{said:?}");
    }
    for path in
        ["", "/devtools/page/1", "/devtools/browser/", "/devtools/browser/a/../b", "/devtools/browser/ä"]
    {
        let said = close(Some(version(path)));
        assert!(matches!(said, Err(DevtoolsError::Unexpected { .. })), "{path}: {said:?}");
    }
    // It says it is one, and then does not speak as one.
    let said = close(Some(version(PATH)));
    assert!(matches!(said, Err(DevtoolsError::NoAnswer { .. })), "{said:?}");
}

#[test]
fn only_what_chrome_would_note_is_taken() {
    let dir = tempfile::tempdir().unwrap();
    let endpoint = serve(None);
    let (pid, port) = (endpoint.pid, endpoint.port);
    let find = |text: &str| {
        std::fs::write(dir.path().join(FILE), text).unwrap();
        find(dir.path(), pid, None)
    };
    assert_eq!(find(&format!("{port}\n{PATH}")), Some(endpoint.clone()));
    for text in [format!("{port}"), format!("{port}\n/other"), format!("x\n{PATH}"), format!("0\n{PATH}")] {
        assert_eq!(find(&text), None, "{text}");
    }
    assert_eq!(find(&format!("{port}\n{PATH}{}", " ".repeat(2000))), None);
    assert_eq!(super::find(dir.path(), pid, Some(port)), Some(Endpoint { path: None, ..endpoint }));
    assert_eq!(super::find(dir.path(), std::os::unix::process::parent_id(), Some(port)), None);
}
