//! `Docker` is a connection to one daemon, in the version of the API that both sides speak.

use std::time::Duration;

use engine::failure::Failure;

use super::problem::failure;

/// Where Docker listens on a host that says nothing else.
const DEFAULT_HOST: &str = "unix:///var/run/docker.sock";
/// How long an answer may take to begin. A commit of a large container answers only when it is done.
const PATIENCE: Duration = Duration::from_secs(600);

/// A connection to a daemon. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Docker {
    pub(crate) api: bollard::Docker,
    /// The address of the daemon, as `DOCKER_HOST` has it.
    pub host: String,
}

impl Docker {
    /// Connects to `host`; without one, to the daemon of this machine. Front ends pass what `DOCKER_HOST` says.
    #[crate::boxed]
    pub async fn connect(host: Option<&str>) -> Result<Self, Failure> {
        let host = host.filter(|host| !host.is_empty()).unwrap_or(DEFAULT_HOST);
        let doing = format!("cannot reach Docker at {host}");
        let api = bollard::Docker::connect_with_host(host).map_err(|error| failure(&doing, &error))?;
        let api = api.with_timeout(PATIENCE);
        let api = api.negotiate_version().await.map_err(|error| failure(&doing, &error))?;
        Ok(Self { api, host: host.to_owned() })
    }

    /// The path of the daemon's socket, if it is on this machine.
    pub fn socket(&self) -> Option<&str> {
        self.host.strip_prefix("unix://")
    }
}

impl Docker {
    /// The version of the daemon, if it tells.
    #[crate::boxed]
    pub async fn version(&self) -> Option<String> {
        self.api.version().await.ok()?.version
    }
}
