//! `failure` says what a daemon's answer means to a person.

use bollard::errors::Error;
use engine::failure::Failure;
use store::ErrorKind;

const UNREACHABLE: &str = "start Docker, or name another daemon with --docker-host or DOCKER_HOST, for example \
                           unix:///var/run/docker.sock; its socket is for root and the group docker";

/// The failure of what was being done, as `cannot pause web`.
pub fn failure(doing: &str, error: &Error) -> Failure {
    match error {
        Error::DockerResponseServerError { status_code, message } => {
            let kind = match status_code {
                400 => ErrorKind::InvalidInput,
                // Daemons call it an error of their own that the beginning of an id is that of several.
                500 if message.starts_with("Multiple IDs found") => ErrorKind::InvalidInput,
                403 => ErrorKind::Denied,
                404 => ErrorKind::NotFound,
                409 => ErrorKind::InUse,
                501 => ErrorKind::NotImplemented,
                _ => ErrorKind::Unavailable,
            };
            Failure::new(kind, format!("{doing}: Docker says: {}", message.trim()))
        }
        Error::RequestTimeoutError => {
            Failure::new(ErrorKind::Unavailable, format!("{doing}: Docker gave no answer in time"))
        }
        Error::DockerStreamError { error } => {
            Failure::new(ErrorKind::Unavailable, format!("{doing}: Docker says: {}", error.trim()))
        }
        Error::UnsupportedURISchemeError { uri } => {
            Failure::usage(format!("{uri:?} is no address of a Docker daemon"))
                .hint("unix:///var/run/docker.sock or tcp://127.0.0.1:2375")
        }
        other => Failure::new(ErrorKind::Unavailable, format!("{doing}: {}", whole(other))).hint(UNREACHABLE),
    }
}

/// An error with its causes: the outermost alone says nothing.
fn whole(error: &dyn std::error::Error) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(next) = cause {
        let told = next.to_string();
        if !text.contains(&told) {
            text.push_str(&format!(": {told}"));
        }
        cause = next.source();
    }
    text
}
