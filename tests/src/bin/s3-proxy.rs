//! `s3-proxy` is a faulty network in front of an S3 server, for measurements.
//!
//! `s3-proxy SERVER [delay-ms=N] [bytes-per-second=N] [seed=N] [FAULT=ONE-IN]…` prints the
//! address where it can be reached, and runs until it is ended. `SERVER` is an address such as
//! `127.0.0.1:8333`; `slow-down=20` answers one of twenty requests with 503.

use std::{env, net::SocketAddr, thread, time::Duration};

use tests::proxy::{FaultPlan, FaultyProxy};

fn main() -> Result<(), String> {
    let mut arguments = env::args().skip(1);
    let server: Option<SocketAddr> = arguments.next().and_then(|server| server.parse().ok());
    let server = server.ok_or("s3-proxy ADDRESS:PORT [NAME=NUMBER]…")?;
    let mut plan = FaultPlan::none();
    for argument in arguments {
        let (name, number) = argument.split_once('=').ok_or_else(|| format!("{argument}: NAME=NUMBER"))?;
        let number = number.parse().map_err(|error| format!("{argument}: {error}"))?;
        match name {
            "delay-ms" => plan.delay = Duration::from_millis(number),
            "bytes-per-second" => plan.bytes_per_second = number,
            "seed" => plan.seed = number,
            fault => plan = plan.with(fault.parse()?, number),
        }
    }
    let proxy =
        FaultyProxy::start(([127, 0, 0, 1], 0).into(), server, plan).map_err(|error| error.to_string())?;
    println!("{}", proxy.address());
    loop {
        thread::park();
    }
}
