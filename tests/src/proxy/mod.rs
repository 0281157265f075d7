//! `FaultyProxy` is a bad network in front of an S3 server: requests and answers pass through it byte by byte,
//! late, slowly, or not at all.
//!
//! Nothing in the head of a message is changed, so the signature that covers its `Host` stays right. What
//! becomes of the n-th request that arrives follows from the seed alone.

mod exchange;
mod fault_plan;
mod message;
mod pace;

pub use fault_plan::{FaultPlan, NetworkFault};

use std::{
    io,
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};

use store::bucket::S3Config;

use exchange::Exchange;
use pace::{Pace, Turns};

/// A proxy that ends with the value. Connections that are open then may end later.
#[derive(Debug)]
pub struct FaultyProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

/// The state that all connections of a proxy share.
#[derive(Debug)]
struct Shared {
    server: SocketAddr,
    plan: Mutex<FaultPlan>,
    pace: Pace,
    turns: Turns,
    requests: AtomicU64,
    faults: AtomicU64,
    bodies: Bodies,
    closing: AtomicBool,
}

/// Requests with a long body.
#[derive(Debug, Default)]
struct Bodies {
    arrived: AtomicU64,
    bytes: AtomicU64,
    vanished: Mutex<u64>,
    more: Condvar,
}

impl FaultyProxy {
    /// In front of the server at `server`, reached at `listen`; port 0 is any that is free.
    pub fn start(listen: SocketAddr, server: SocketAddr, plan: FaultPlan) -> io::Result<Self> {
        let listener = TcpListener::bind(listen)?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            server,
            plan: Mutex::new(plan),
            pace: Pace::default(),
            turns: Turns::default(),
            requests: AtomicU64::new(0),
            faults: AtomicU64::new(0),
            bodies: Bodies::default(),
            closing: AtomicBool::new(false),
        });
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accept(&listener, &accepting));
        Ok(Self { address, shared })
    }

    /// In front of the server of a local bucket.
    pub fn before(config: &S3Config, plan: FaultPlan) -> Self {
        let endpoint = config.endpoint.as_ref().unwrap();
        let server = endpoint.strip_prefix("http://").unwrap().parse().unwrap();
        Self::start(([127, 0, 0, 1], 0).into(), server, plan).unwrap()
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same bucket, reached through the proxy.
    pub fn through(&self, config: &S3Config) -> S3Config {
        S3Config { endpoint: Some(format!("http://{}", self.address)), ..config.clone() }
    }

    /// From the next request on.
    pub fn set(&self, plan: FaultPlan) {
        *self.shared.plan.lock() = plan;
    }

    /// How many requests have arrived.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::Relaxed)
    }

    /// How many of them had a fault. Zero means that a test tested nothing.
    pub fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::Relaxed)
    }
}

impl FaultyProxy {
    /// The bytes of all bodies that were long enough for faults and reached the server.
    pub fn body_bytes(&self) -> u64 {
        self.shared.bodies.bytes.load(Ordering::Relaxed)
    }

    /// How many requests with a body that was long enough for faults have arrived.
    pub fn bodies(&self) -> u64 {
        self.shared.bodies.arrived.load(Ordering::Relaxed)
    }

    /// How many requests have vanished.
    pub fn vanished(&self) -> u64 {
        *self.shared.bodies.vanished.lock()
    }

    /// Waits until so many requests have vanished.
    pub fn wait_for_vanished(&self, count: u64) {
        let mut vanished = self.shared.bodies.vanished.lock();
        self.shared.bodies.more.wait_while(&mut vanished, |vanished| *vanished < count);
    }
}

impl Drop for FaultyProxy {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        // Who waits for a connection sees the flag when one comes.
        TcpStream::connect_timeout(&self.address, Duration::from_secs(1)).ok();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for client in listener.incoming() {
        if shared.closing.load(Ordering::Relaxed) {
            return;
        }
        let Ok(client) = client else { continue };
        let shared = Arc::clone(shared);
        // However a connection ends, it is no concern of the others.
        thread::spawn(move || Exchange::serve(client, &shared));
    }
}

#[cfg(test)]
mod tests;
