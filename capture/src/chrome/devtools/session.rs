//! `Session` calls methods of a browser over DevTools, one after another.

use std::{io, net::TcpStream, time::Instant};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket, protocol::WebSocketConfig};

use super::{Deadline, DevtoolsError, Duration, Endpoint, is_timeout};

/// A browser has some thousands of cookies at most, of some kilobytes each.
const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// A connection to a browser, for as long as it may take.
#[derive(Debug)]
pub(in crate::chrome) struct Session<'a> {
    endpoint: &'a Endpoint,
    socket: WebSocket<TcpStream>,
    deadline: Deadline,
    calls: u64,
}

impl Endpoint {
    /// Connects to the browser; all calls together may take so long.
    pub(in crate::chrome) fn session(&self, timeout: Duration) -> Result<Session<'_>, DevtoolsError> {
        let deadline = Deadline(Instant::now() + timeout);
        let path = self.verified_path(deadline)?;
        let stream = self.connect(deadline)?;
        let url = format!("ws://127.0.0.1:{}{path}", self.port);
        let limits = WebSocketConfig::default()
            .max_message_size(Some(MAX_MESSAGE_BYTES))
            .max_frame_size(Some(MAX_MESSAGE_BYTES));
        let (socket, _) = tungstenite::client::client_with_config(url, stream, Some(limits))
            .map_err(|error| self.no_answer(io::Error::other(error.to_string())))?;
        Ok(Session { endpoint: self, socket, deadline, calls: 0 })
    }
}

impl Session<'_> {
    /// Calls a method, and waits for its result.
    pub(in crate::chrome) fn call(&mut self, method: &str, params: &Value) -> Result<Value, DevtoolsError> {
        self.calls += 1;
        let ask = json!({ "id": self.calls, "method": method, "params": params });
        let unsent = |error| self.endpoint.no_answer(io::Error::other(error));
        self.socket.send(Message::text(ask.to_string())).map_err(unsent)?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Value, DevtoolsError> {
        let (endpoint, port) = (self.endpoint, self.endpoint.port);
        loop {
            self.deadline.set(self.socket.get_ref()).map_err(|error| endpoint.no_answer(error))?;
            let text = match self.socket.read() {
                Ok(Message::Text(text)) => text,
                Ok(Message::Close(_)) => return Err(DevtoolsError::HungUp { port }),
                Ok(_) => continue,
                Err(tungstenite::Error::Io(error)) if is_timeout(&error) => {
                    return Err(endpoint.no_answer(error));
                }
                Err(_) => return Err(DevtoolsError::HungUp { port }),
            };
            let unexpected = || DevtoolsError::Unexpected { port };
            let mut answer: Value = serde_json::from_str(&text).map_err(|_| unexpected())?;
            match answer.get("id").and_then(Value::as_u64) {
                Some(id) if id == self.calls && answer.get("error").is_none() => {
                    return Ok(answer["result"].take());
                }
                Some(id) if id == self.calls => return Err(unexpected()),
                _ => {}
            }
        }
    }
}
