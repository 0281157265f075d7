//! Who this command acts for.

use store::{catalog::clock, format::event::Actor};

use crate::args::ActorArgs;

/// As the arguments say; what they do not say is made up so that it can be found again.
pub(crate) fn actor(args: &ActorArgs) -> Actor {
    let run_id = args.run_id.clone().filter(|id| !id.is_empty());
    Actor {
        run_id: run_id.unwrap_or_else(|| format!("pstore-{}", clock::new_record_id())),
        host: args.host.clone().unwrap_or_else(host_name),
        host_run_id: args.host_run_id.clone(),
        ..Actor::default()
    }
}

pub(crate) fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
