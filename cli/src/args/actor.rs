//! `ActorArgs` defines the options that say who acts.

use clap::Args;
use engine::names::ActorName;

use super::value::actor;

/// The actor, which pstore writes into locks and events.
#[derive(Clone, Debug, Args)]
pub(crate) struct ActorArgs {
    /// The name of this run [default: a random one]
    #[arg(long, value_name = "ID", value_parser = actor, env = "PSTORE_RUN_ID", hide_env_values = true)]
    pub(crate) run_id: Option<String>,
    /// The host that acts [default: this host's name]
    #[arg(long, value_name = "NAME", value_parser = actor)]
    pub(crate) host: Option<String>,
    /// The number or name of this run on its host
    #[arg(long, value_name = "ID", value_parser = actor, default_value = "", hide_default_value = true)]
    pub(crate) host_run_id: String,
}

impl ActorArgs {
    pub(crate) fn name(&self) -> ActorName {
        ActorName {
            run_id: self.run_id.clone(),
            host: self.host.clone(),
            host_run_id: self.host_run_id.clone(),
        }
    }
}
