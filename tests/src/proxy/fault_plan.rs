//! `FaultPlan` decides the faults of the network.

use std::{str::FromStr, time::Duration};

/// The fault of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkFault {
    /// The connection breaks before the server has seen anything of it.
    ResetBefore,
    /// The connection breaks when the server has seen half of it.
    ResetWithin,
    /// The server has carried out the request; the connection breaks instead of the answer.
    ResetAfter,
    /// The connection breaks, and the request reaches the server later all the same.
    Late,
    /// The answer ends in the middle of its body.
    Truncated,
    /// 500, and the server was not asked.
    InternalError,
    /// 503, and the server was not asked.
    SlowDown,
    /// It is delivered twice, and the second answer comes back: of a write with a
    /// condition, a refusal because of itself.
    Twice,
    /// A bit of its body is another when it reaches the server.
    Flipped,
    /// Its answer waits until that of a request on another connection has gone out.
    Overtaken,
}

impl NetworkFault {
    pub const ALL: [(&'static str, Self); 10] = [
        ("reset-before", Self::ResetBefore),
        ("reset-within", Self::ResetWithin),
        ("reset-after", Self::ResetAfter),
        ("late", Self::Late),
        ("truncated", Self::Truncated),
        ("internal-error", Self::InternalError),
        ("slow-down", Self::SlowDown),
        ("twice", Self::Twice),
        ("flipped", Self::Flipped),
        ("overtaken", Self::Overtaken),
    ];
}

impl FromStr for NetworkFault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let known = Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, fault)| *fault);
        known.ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|(name, _)| *name).collect();
            format!("no fault is called {name:?}; there are {}", names.join(", "))
        })
    }
}

/// How the network is.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// From a request to its answer, beside the server's own time.
    pub delay: Duration,
    /// Of all connections together, in each direction; zero: no limit.
    pub bytes_per_second: u64,
    /// The possible faults, and one in how many requests has each.
    pub faults: Vec<(NetworkFault, u64)>,
    /// Nothing goes wrong with requests whose body is shorter.
    pub least_body_bytes: usize,
    /// So many requests with a body that long arrive; the later ones vanish, and nobody answers them.
    pub most_bodies: Option<u64>,
    pub seed: u64,
}

impl FaultPlan {
    /// Nothing goes wrong, and nothing takes time.
    pub fn none() -> Self {
        Self::default()
    }

    /// This goes wrong with one of `one_in` requests.
    pub fn with(mut self, fault: NetworkFault, one_in: u64) -> Self {
        self.faults.push((fault, one_in));
        self
    }

    /// The fate of the n-th request: the first fault it draws.
    pub(super) fn fault(&self, request: u64) -> Option<NetworkFault> {
        let draw = |place: usize, one_in: u64| {
            mixed(self.seed ^ mixed(request ^ mixed(place as u64))).is_multiple_of(one_in.max(1))
        };
        let mut faults = self.faults.iter().enumerate();
        faults.find(|(place, (_, one_in))| draw(*place, *one_in)).map(|(_, (fault, _))| *fault)
    }
}

/// Every bit of the answer depends on every bit of the number.
fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
