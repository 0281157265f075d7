//! `token` turns the arguments of `pstore token new` into a request; its entry goes to stdout, its secret to stderr.

use std::io::{self, Write};

use engine::failure::Failure;
use server::tokens::{IssueRequest, IssuedToken};

use crate::{
    answer::Answer,
    args::{TokenArgs, TokenNewArgs, TokenVerb},
    console::Console,
};

pub(super) fn run(console: Console, args: &TokenArgs) -> Result<Answer, Failure> {
    let TokenVerb::New(args) = &args.verb;
    let issued = IssuedToken::issue(&request(args))?;
    // In a document it has a field.
    if !console.json {
        let secret = match console.quiet {
            true => issued.secret.clone(),
            false => format!("the secret of {}, told this once: {}", issued.name, issued.secret),
        };
        let _ = writeln!(io::stderr(), "{secret}");
    }
    Answer::of(&issued, issued.entry.clone())
}

fn request(args: &TokenNewArgs) -> IssueRequest {
    IssueRequest {
        name: args.name.clone(),
        tenants: args.tenants.clone(),
        role: args.role.into(),
        lifetime: args.expires,
    }
}
