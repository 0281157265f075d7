//! Loads, asked for with the words of the command line.

use engine::{Engine, failure::Failure};
use store::name::{ChromeMajor, Tenant};

use crate::args::LoadArgs;

pub(super) use engine::loads::NO_MAJOR;

pub(super) fn check(args: &LoadArgs, chrome_major: Option<ChromeMajor>) -> Result<(), Failure> {
    args.options().check(chrome_major)
}

pub(super) fn begins_without_store(
    engine: &Engine,
    tenant: &Tenant,
    args: &LoadArgs,
    failure: &Failure,
) -> bool {
    engine.begins_without_store(&args.options(), tenant, failure)
}
