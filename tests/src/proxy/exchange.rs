//! `Exchange` joins one connection of a client with the one to the server.

use std::{
    io::{self, BufReader, ErrorKind, Read, Write},
    net::TcpStream,
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

use socket2::SockRef;

use super::{
    FaultPlan, NetworkFault, Shared,
    message::{Framing, Message, answer_framing, header, read_body, read_head, request_framing, status},
};

/// How long an answer lets others pass, and a late request is under way.
const AWHILE: Duration = Duration::from_millis(300);

type Connection = BufReader<TcpStream>;

pub(super) struct Exchange<'a> {
    client: Connection,
    /// Made when it is needed, and again when the server has ended it.
    server: Option<Connection>,
    shared: &'a Arc<Shared>,
}

impl<'a> Exchange<'a> {
    /// Serves requests until either side has enough, or a fault ends it.
    pub(super) fn serve(client: TcpStream, shared: &'a Arc<Shared>) {
        client.set_nodelay(true).ok();
        let mut exchange = Self { client: BufReader::new(client), server: None, shared };
        while let Ok(true) = exchange.once() {}
    }

    /// One request and its answer; `false` if the connection has ended.
    fn once(&mut self) -> io::Result<bool> {
        let Some(head) = read_head(&mut self.client)? else { return Ok(false) };
        let plan = self.shared.plan.lock().clone();
        let number = self.shared.requests.fetch_add(1, Ordering::Relaxed);
        let is_long = is_long(&head, plan.least_body_bytes);
        let fault = plan.fault(number).filter(|_| is_long);
        self.shared.faults.fetch_add(u64::from(fault.is_some()), Ordering::Relaxed);
        if fault == Some(NetworkFault::ResetBefore) {
            return self.reset();
        }
        if header(&head, "expect").is_some() {
            self.client.get_mut().write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        let mut body = read_body(&mut self.client, request_framing(&head))?;
        if is_long && !body.is_empty() {
            let bodies = &self.shared.bodies;
            let before = bodies.arrived.fetch_add(1, Ordering::Relaxed);
            if plan.most_bodies.is_some_and(|most| before >= most) {
                return self.vanish();
            }
            bodies.bytes.fetch_add(body.len() as u64, Ordering::Relaxed);
        }
        let middle = body.len() / 2;
        if let (Some(NetworkFault::Flipped), Some(byte)) = (fault, body.get_mut(middle)) {
            *byte ^= 1;
        }
        let request = Message { head, body };
        thread::sleep(plan.delay / 2);
        match fault {
            Some(NetworkFault::InternalError) => return self.refuse(&request, 500, "InternalError"),
            Some(NetworkFault::SlowDown) => return self.refuse(&request, 503, "SlowDown"),
            Some(NetworkFault::ResetWithin) => return self.halve(&request),
            Some(NetworkFault::Late) => return self.deliver_late(request),
            _ => {}
        }
        // A server that is away looks like a broken connection, as it would without a proxy.
        let Ok(mut answer) = self.ask(&request, &plan) else { return self.reset() };
        match fault {
            Some(NetworkFault::ResetAfter) => return self.reset(),
            Some(NetworkFault::Twice) => answer = self.ask(&request, &plan)?,
            Some(NetworkFault::Overtaken) => self.shared.turns.let_one_pass(AWHILE),
            _ => {}
        }
        thread::sleep(plan.delay / 2);
        if fault == Some(NetworkFault::Truncated) && !answer.body.is_empty() {
            answer.body.truncate(answer.body.len() / 2);
            self.answer(&answer, &plan)?;
            return self.reset();
        }
        self.answer(&answer, &plan)?;
        let ends =
            |head: &[u8]| header(head, "connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
        let closes = answer_framing(&answer.head, &request.head) == Framing::Close;
        Ok(!closes && !ends(&answer.head) && !ends(&request.head))
    }

    /// The server's answer. A connection that it has ended meanwhile is made again.
    fn ask(&mut self, request: &Message, plan: &FaultPlan) -> io::Result<Message> {
        let kept = self.server.is_some();
        match self.ask_once(request, plan) {
            Err(_) if kept => {
                self.server = None;
                self.ask_once(request, plan)
            }
            answer => answer,
        }
    }

    fn ask_once(&mut self, request: &Message, plan: &FaultPlan) -> io::Result<Message> {
        let server = match &mut self.server {
            Some(server) => server,
            None => self.server.insert(connect(self.shared)?),
        };
        server.get_mut().write_all(&request.head)?;
        self.shared.pace.write(server.get_mut(), &request.body, plan.bytes_per_second)?;
        loop {
            let head = read_head(server)?.ok_or(ErrorKind::UnexpectedEof)?;
            let body = read_body(server, answer_framing(&head, &request.head))?;
            // What it says before its answer was for who waits with the body, and nobody does.
            if !(100..200).contains(&status(&head)) {
                return Ok(Message { head, body });
            }
        }
    }

    fn answer(&mut self, answer: &Message, plan: &FaultPlan) -> io::Result<()> {
        self.client.get_mut().write_all(&answer.head)?;
        self.shared.pace.write(self.client.get_mut(), &answer.body, plan.bytes_per_second)?;
        self.shared.turns.answered();
        Ok(())
    }

    /// An answer of the proxy's own, as S3 words it.
    fn refuse(&mut self, request: &Message, status: u16, code: &str) -> io::Result<bool> {
        let body = match request.head.starts_with(b"HEAD ") {
            true => String::new(),
            false => format!("<Error><Code>{code}</Code><Message>on purpose</Message></Error>"),
        };
        let head = format!(
            "HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        self.client.get_mut().write_all(format!("{head}{body}").as_bytes())?;
        Ok(true)
    }

    /// Answers nothing, for as long as the client waits.
    fn vanish(&mut self) -> io::Result<bool> {
        *self.shared.bodies.vanished.lock() += 1;
        self.shared.bodies.more.notify_all();
        while self.client.get_mut().read(&mut [0; 512])? > 0 {}
        Ok(false)
    }

    /// Breaks both connections when the server has got half of the request.
    fn halve(&mut self, request: &Message) -> io::Result<bool> {
        if let Ok(mut server) = connect(self.shared) {
            let bytes = [&request.head[..], &request.body[..]].concat();
            let half =
                if request.body.is_empty() { bytes.len() / 2 } else { bytes.len() - request.body.len() / 2 };
            server.get_mut().write_all(&bytes[..half]).ok();
            SockRef::from(server.get_ref()).set_linger(Some(Duration::ZERO)).ok();
        }
        self.reset()
    }

    /// Breaks the client's connection; the server is asked when the client has gone on.
    fn deliver_late(&mut self, request: Message) -> io::Result<bool> {
        let shared = Arc::clone(self.shared);
        let client = self.client.get_ref().try_clone()?;
        thread::spawn(move || {
            thread::sleep(AWHILE);
            let mut exchange = Exchange { client: BufReader::new(client), server: None, shared: &shared };
            exchange.ask(&request, &FaultPlan::none()).ok();
        });
        self.reset()
    }

    /// Ends the client's connection so that its next read or write fails.
    fn reset(&mut self) -> io::Result<bool> {
        let client = self.client.get_ref();
        SockRef::from(client).set_linger(Some(Duration::ZERO))?;
        client.shutdown(std::net::Shutdown::Both).ok();
        Ok(false)
    }
}

/// One whose length is not told is long.
fn is_long(head: &[u8], least: usize) -> bool {
    !matches!(request_framing(head), Framing::Length(length) if length < least)
}

fn connect(shared: &Shared) -> io::Result<Connection> {
    let server = TcpStream::connect(shared.server)?;
    server.set_nodelay(true)?;
    Ok(BufReader::new(server))
}
