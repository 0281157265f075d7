//! `devtools` is a client of Chromium's DevTools, as small as tests need it.

use std::{collections::BTreeMap, net::TcpStream, time::Duration};

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug)]
pub struct Devtools {
    socket: WebSocket<TcpStream>,
    calls: u64,
    /// The events of pages that are [listened to](Page::listen).
    told: Vec<Value>,
}

/// One page of a browser.
#[derive(Debug)]
pub struct Page<'a> {
    devtools: &'a mut Devtools,
    session: String,
}

impl Devtools {
    pub fn connect(port: u16, path: &str) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let url = format!("ws://127.0.0.1:{port}{path}");
        let (socket, _) = tungstenite::client::client(url, stream).unwrap();
        Self { socket, calls: 0, told: Vec::new() }
    }

    /// Calls a method of the browser and returns its result.
    #[track_caller]
    pub fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.send(json!({"method": method, "params": parameters}), method)
    }

    #[track_caller]
    fn send(&mut self, mut request: Value, method: &str) -> Value {
        self.calls += 1;
        request["id"] = self.calls.into();
        self.socket.send(Message::text(request.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let answer: Value = serde_json::from_str(&text).unwrap();
            if answer["id"] == self.calls {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.told.push(answer);
        }
    }

    /// A cookie of 127.0.0.1 that outlives the session.
    #[track_caller]
    pub fn set_cookie(&mut self, name: &str, value: &str) {
        let expires = 4_000_000_000_u64;
        let cookie =
            json!({"name": name, "value": value, "domain": "127.0.0.1", "path": "/", "expires": expires});
        self.call("Storage.setCookies", json!({"cookies": [cookie]}));
    }

    #[track_caller]
    pub fn cookie(&mut self, name: &str) -> Option<String> {
        self.cookies().remove(name)
    }

    /// The names and values of all cookies.
    #[track_caller]
    pub fn cookies(&mut self) -> BTreeMap<String, String> {
        let cookies = self.call("Storage.getCookies", json!({}));
        let text = |cookie: &Value, field: &str| cookie[field].as_str().unwrap().to_owned();
        let cookies = cookies["cookies"].as_array().unwrap().iter();
        cookies.map(|cookie| (text(cookie, "name"), text(cookie, "value"))).collect()
    }

    /// Opens a page and waits until it has loaded.
    #[track_caller]
    pub fn open(&mut self, url: &str) -> Page<'_> {
        let target = self.call("Target.createTarget", json!({"url": url}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = self.call("Target.attachToTarget", attach)["sessionId"].as_str().unwrap().to_owned();
        let mut page = Page { devtools: self, session };
        // A page that has just been made is an empty one for a moment.
        let loaded = "location.href === 'about:blank' ? 'empty' : document.readyState";
        while page.evaluate(loaded) != "complete" && url != "about:blank" {
            std::thread::sleep(Duration::from_millis(10));
        }
        page
    }

    /// Asks the browser to close, and waits until it hangs up.
    pub fn close(mut self) {
        let request = json!({"id": 0, "method": "Browser.close"});
        self.socket.send(Message::text(request.to_string())).unwrap();
        while self.socket.read().is_ok() {}
    }
}

impl Page<'_> {
    /// From now on its console is listened to.
    #[track_caller]
    pub fn listen(&mut self) {
        for domain in ["Runtime.enable", "Log.enable"] {
            self.devtools.send(json!({"method": domain, "sessionId": self.session}), domain);
        }
    }

    /// The errors and warnings that its console has shown since that was asked before.
    pub fn complaints(&mut self) -> Vec<Value> {
        let is_complaint = |told: &Value| {
            let told_of = &told["params"];
            let levels = [&told_of["entry"]["level"], &told_of["type"]];
            told["method"] == "Runtime.exceptionThrown"
                || levels.iter().any(|level| ["error", "warning", "assert"].iter().any(|bad| *level == bad))
        };
        std::mem::take(&mut self.devtools.told).into_iter().filter(is_complaint).collect()
    }

    /// The value of an expression, awaited if it is a promise.
    #[track_caller]
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let parameters = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let request = json!({"method": "Runtime.evaluate", "params": parameters, "sessionId": self.session});
        let answer = self.devtools.send(request, "Runtime.evaluate");
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }
}
