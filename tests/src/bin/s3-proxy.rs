//! A bad network in front of an S3 server, for measurements.
//!
//! `s3-proxy SERVER [delay-ms=N] [bytes-per-second=N] [seed=N] [MISHAP=ONE-IN]…` prints the
//! address where it can be reached, and runs until it is ended. `SERVER` is an address such as
//! `127.0.0.1:8333`; `slow-down=20` answers one of twenty requests with 503.

use std::{env, net::SocketAddr, thread, time::Duration};

use tests::proxy::{Proxy, Weather};

fn main() -> Result<(), String> {
    let mut arguments = env::args().skip(1);
    let server: Option<SocketAddr> = arguments.next().and_then(|server| server.parse().ok());
    let server = server.ok_or("s3-proxy ADDRESS:PORT [NAME=NUMBER]…")?;
    let mut weather = Weather::calm();
    for argument in arguments {
        let (name, number) = argument.split_once('=').ok_or_else(|| format!("{argument}: NAME=NUMBER"))?;
        let number = number.parse().map_err(|error| format!("{argument}: {error}"))?;
        match name {
            "delay-ms" => weather.delay = Duration::from_millis(number),
            "bytes-per-second" => weather.bytes_per_second = number,
            "seed" => weather.seed = number,
            mishap => weather = weather.with(mishap.parse()?, number),
        }
    }
    let proxy =
        Proxy::start(([127, 0, 0, 1], 0).into(), server, weather).map_err(|error| error.to_string())?;
    println!("{}", proxy.address());
    loop {
        thread::park();
    }
}
