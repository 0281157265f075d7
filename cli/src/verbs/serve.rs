//! `serve` turns the arguments of `pstore serve` into a request, and its outcome into text.

use engine::{Engine, failure::Failure};
use server::{ServeRequest, tls::TlsFiles};

use crate::{answer::Answer, args::ServeArgs};

pub(super) async fn run(engine: Engine, args: &ServeArgs) -> Result<Answer, Failure> {
    let request = ServeRequest {
        listen: args.listen.clone(),
        tokens: args.tokens.clone(),
        tls: tls(args),
        rate: args.rate,
        does_jobs: !args.no_jobs,
        drain: args.drain,
    };
    let outcome = server::serve(engine, &request).await?;
    let text = format!("{} is no longer served\n", outcome.listen);
    Ok(Answer { brief: Some(String::new()), ..Answer::of(&outcome, text)? })
}

/// The one is never typed without the other.
fn tls(args: &ServeArgs) -> Option<TlsFiles> {
    let (certificate, key) = args.tls_cert.clone().zip(args.tls_key.clone())?;
    Some(TlsFiles { certificate, key, client_authorities: args.client_ca.clone() })
}
