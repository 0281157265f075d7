//! `serve` turns the arguments of `pstore serve` into a request, and its outcome into text.

use std::{ffi::OsString, sync::Arc};

use engine::{
    Engine,
    failure::Failure,
    interrupt::Interrupt,
    verbs::mount::{MountMode, MountRequest},
};
use server::{
    ServeRequest,
    mounts::{Launcher, MountsAt},
    tls::TlsFiles,
};

use crate::{
    answer::Answer,
    args::{Global, ServeArgs},
    daemon,
};

pub(super) async fn run(engine: Engine, global: &Global, args: &ServeArgs) -> Result<Answer, Failure> {
    let request = ServeRequest {
        listen: args.listen.clone(),
        tokens: args.tokens.clone(),
        login_key: args.login_key.clone(),
        tls: tls(args),
        rate: args.rate,
        does_jobs: !args.no_jobs,
        mounts: args.mounts.clone().map(|directory| MountsAt {
            directory,
            for_others: args.mounts_for_others,
            launcher: launcher(global),
        }),
        workspaces: args.workspaces.clone(),
        containers: args.containers.clone(),
        projects: args.projects.clone(),
        socket_users: args.socket_users.clone(),
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

/// Starts a process for each mount, as `pstore mount` does: it outlives the server.
fn launcher(global: &Global) -> Launcher {
    let global = global.clone();
    Launcher(Arc::new(move |request| {
        let words = words(&global, request);
        // A mount that has begun is brought to its end, though its caller goes away.
        Box::pin(async move { daemon::launch(words, &Interrupt::new(), "the mount was ready").await })
    }))
}

/// The words of a command that mounts what is requested, on the same store.
fn words(global: &Global, request: &MountRequest) -> Vec<OsString> {
    let mut words: Vec<OsString> = Vec::new();
    let mut say = |flag: &str, value: Option<OsString>| {
        words.extend(value.into_iter().map(|value| {
            // In one word: a value may begin with a dash.
            let mut word = OsString::from(format!("{flag}="));
            word.push(value);
            word
        }));
    };
    say("--store", global.store.clone().map(Into::into));
    say("--endpoint", global.endpoint.clone().map(Into::into));
    say("--region", global.region.clone().map(Into::into));
    say("--cache-dir", global.cache_dir.clone().map(Into::into));
    say("--config", global.config.clone().map(Into::into));
    say("--chrome-major", request.chrome_major.map(|major| major.to_string().into()));
    say("--owner", request.owner.map(|owner| format!("{}:{}", owner.uid, owner.gid).into()));
    say("--run-id", request.actor.run_id.clone().map(Into::into));
    say("--host", request.actor.host.clone().map(Into::into));
    say("--host-run-id", Some(request.actor.host_run_id.clone().into()));
    say("--autosave", request.autosave.map(|every| format!("{}s", every.as_secs()).into()));
    say("--from", request.from_wip.then(|| "wip".into()));
    say("--wait", Some(request.wait.as_secs().to_string().into()));
    let switches = [
        ("--no-cache", global.no_cache),
        ("--allow-other", request.allow_other),
        ("--writeback", request.writeback),
        ("--read-only", request.mode == MountMode::ReadOnly),
        ("--fork", request.mode == MountMode::Fork),
    ];
    words.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(word, _)| word.into()));
    words.insert(0, "mount".into());
    let source = match request.source.typed() {
        Some(reference) => format!("{}@{reference}", request.source.profile),
        None => request.source.profile.to_string(),
    };
    words.extend([OsString::from("--json"), source.into(), request.mountpoint.clone().into()]);
    words
}

#[cfg(test)]
mod tests {
    use std::{path::PathBuf, time::Duration};

    use engine::{names::ActorName, verbs::mount::MountOwner};

    use super::*;
    use crate::args::{self, Verb};

    #[test]
    fn the_words_of_a_mount_are_read_as_the_request_was() {
        let request = MountRequest {
            chrome_major: Some("131".parse().unwrap()),
            mode: MountMode::Fork,
            allow_other: true,
            actor: ActorName {
                run_id: Some("token run-1".to_owned()),
                host: None,
                host_run_id: "request -7".to_owned(),
            },
            wait: Duration::from_secs(9),
            autosave: Some(Duration::from_secs(60)),
            from_wip: true,
            owner: Some(MountOwner { uid: 1000, gid: 1001 }),
            writeback: true,
            ..MountRequest::new("acme/alice@latest~1".parse().unwrap(), PathBuf::from("/srv/mounts/1"))
        };
        let global = Global { store: Some("file:///s".to_owned()), no_cache: true, ..Global::default() };
        let words = words(&global, &request);
        let read = args::parse_words([OsString::from("pstore")].into_iter().chain(words)).unwrap();
        assert_eq!((read.global.store.as_deref(), read.global.no_cache), (Some("file:///s"), true));
        let Verb::Mount(args) = read.verb else { panic!("{:?}", read.verb) };
        assert_eq!(format!("{:?}", args.request()), format!("{request:?}"));
    }
}
