//! These tests send requests through a proxy to a server that counts them.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::{FaultPlan, FaultyProxy, NetworkFault};

const LOCAL: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

/// A server that answers every request with the number of those before it, and keeps them.
fn server() -> (SocketAddr, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind(SocketAddr::from(LOCAL)).unwrap();
    let address = listener.local_addr().unwrap();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let keep = Arc::clone(&seen);
    thread::spawn(move || {
        for client in listener.incoming() {
            let keep = Arc::clone(&keep);
            thread::spawn(move || answer(client.unwrap(), &keep));
        }
    });
    (address, seen)
}

/// Requests of tests have a body that ends in a full stop.
fn answer(mut client: TcpStream, seen: &Mutex<Vec<String>>) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1 << 16]);
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        bytes.extend(&buffer[..read]);
        if bytes.ends_with(b".") {
            let mut seen = seen.lock();
            let body = format!("answer {:04}", seen.len());
            seen.push(String::from_utf8(std::mem::take(&mut bytes)).unwrap());
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len());
            client.write_all(answer.as_bytes()).unwrap();
        }
    }
}

fn request(body: &str) -> String {
    format!("PUT /k HTTP/1.1\r\nHost: signed:80\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

/// The bytes that come back until the connection ends or the answer's body is there.
fn ask(proxy: &FaultyProxy, body: &str) -> Result<String, std::io::Error> {
    let mut stream = TcpStream::connect(proxy.address())?;
    stream.write_all(request(body).as_bytes())?;
    let (mut answer, mut buffer) = (Vec::new(), [0; 4096]);
    while !answer.windows(11).any(|part| part.starts_with(b"answer 0")) && !answer.ends_with(b"</Error>") {
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => answer.extend(&buffer[..read]),
            Err(error) if answer.is_empty() => return Err(error),
            Err(_) => break,
        }
    }
    Ok(String::from_utf8(answer).unwrap())
}

fn always(fault: NetworkFault) -> FaultPlan {
    FaultPlan::none().with(fault, 1)
}

#[test]
fn what_is_sent_arrives_as_it_was() {
    let (address, seen) = server();
    let proxy = FaultyProxy::start(LOCAL.into(), address, FaultPlan::none()).unwrap();
    assert!(ask(&proxy, "a body.").unwrap().ends_with("answer 0000"));
    assert_eq!(*seen.lock(), [request("a body.")]);
    assert_eq!((proxy.requests(), proxy.faults()), (1, 0));
}

#[test]
fn a_fault_is_what_it_is_called() {
    // What of it the server has seen when the client knows, and what the client is told.
    let cases = [
        (NetworkFault::ResetBefore, 0, ""),
        (NetworkFault::ResetWithin, 0, ""),
        (NetworkFault::ResetAfter, 1, ""),
        (NetworkFault::Late, 0, ""),
        (NetworkFault::Truncated, 1, "answe"),
        (NetworkFault::InternalError, 0, "<Code>InternalError</Code>"),
        (NetworkFault::SlowDown, 0, "<Code>SlowDown</Code>"),
        (NetworkFault::Twice, 2, "answer 0001"),
        (NetworkFault::Overtaken, 1, "answer 0000"),
    ];
    for (fault, delivered, told) in cases {
        let (address, seen) = server();
        let proxy = FaultyProxy::start(LOCAL.into(), address, always(fault)).unwrap();
        let answer = ask(&proxy, "a body.").unwrap_or_default();
        assert_eq!(seen.lock().len(), delivered, "{fault:?}");
        assert!(answer.contains(told) && answer.is_empty() == told.is_empty(), "{fault:?}: {answer:?}");
        assert_eq!(answer.contains("answer 0"), told.starts_with("answer 0"), "{fault:?}: {answer:?}");
        assert_eq!(proxy.faults(), 1);
        let began = Instant::now();
        while fault == NetworkFault::Late && seen.lock().is_empty() {
            assert!(began.elapsed() < Duration::from_secs(30), "it never arrives");
            thread::sleep(Duration::from_millis(5));
        }
    }
}

#[test]
fn delay_and_width_take_the_time_they_say() {
    let (address, _) = server();
    let plan = FaultPlan { delay: Duration::from_millis(40), bytes_per_second: 1 << 20, ..FaultPlan::none() };
    let proxy = FaultyProxy::start(LOCAL.into(), address, plan).unwrap();
    let began = Instant::now();
    ask(&proxy, &format!("{}.", "x".repeat(100 << 10))).unwrap();
    // No upper end: a machine may be busy.
    assert!(began.elapsed() >= Duration::from_millis(135), "{:?}", began.elapsed());
}

#[test]
fn a_seed_decides_which_requests_have_faults() {
    let plan = |seed| {
        FaultPlan { seed, ..FaultPlan::none() }.with(NetworkFault::Twice, 4).with(NetworkFault::Late, 5)
    };
    let drawn = |seed| (0..1000).map(|n| plan(seed).fault(n)).collect::<Vec<_>>();
    assert_eq!(drawn(1), drawn(1));
    assert_ne!(drawn(1), drawn(2));
    let count = |fault| drawn(1).iter().filter(|drawn| **drawn == Some(fault)).count();
    assert!((200..300).contains(&count(NetworkFault::Twice)), "{}", count(NetworkFault::Twice));
    assert!((100..200).contains(&count(NetworkFault::Late)), "{}", count(NetworkFault::Late));
}
