//! `Docker::exec` runs a program in a container, with a file as its input and its output as it comes.

use std::{
    fs::File,
    path::Path,
    pin::{Pin, pin},
    time::Duration,
};

use bollard::{
    container::LogOutput,
    exec::{CreateExecOptions, StartExecOptions, StartExecResults},
};
use engine::failure::Failure;
use futures::TryStreamExt;
use store::{ErrorKind, error::IoContext};
use tokio::io::{AsyncWrite, AsyncWriteExt};

use super::{connection::Docker, containers::is_name, problem::failure, streams::stream_of};

/// How much of what a program says about a failure is kept.
const MOST_SAID: usize = 64 << 10;
/// How much may be written to a program and read from it before its end is known, in pieces of a connection.
const CAPACITY: usize = 1 << 20;

/// How a program in a container has ended.
#[derive(Clone, Debug)]
pub struct Executed {
    /// Its exit code; 0 is success, 126 and 127 mean that it could not be started.
    pub code: i64,
    /// The beginning of what it has said on its standard error.
    pub said: String,
}

impl Docker {
    /// Runs a program in a container that runs, with these variables beside those of the container, and hands what it prints
    /// to `sink`. A program that takes longer than
    /// `limit` is left behind: it ends when it finds its output closed.
    pub async fn exec(
        &self,
        container: &str,
        (environment, words): (&[&str], &[&str]),
        input: Option<&Path>,
        sink: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
        limit: Duration,
    ) -> Result<Executed, Failure> {
        let program = words.first().copied().unwrap_or_default();
        let doing = format!("cannot run {program} in the container {container}");
        let ended = tokio::time::timeout(
            limit,
            self.exec_to_end(container, (environment, words), input, sink, &doing),
        )
        .await;
        ended.unwrap_or_else(|_| {
            let message = format!("{doing}: it took longer than {} s", limit.as_secs_f64());
            Err(Failure::new(ErrorKind::CommandFailed, message).hint("allow it more with `time_limit`"))
        })
    }

    async fn exec_to_end(
        &self,
        container: &str,
        (environment, words): (&[&str], &[&str]),
        input: Option<&Path>,
        sink: &mut (dyn FnMut(&[u8]) -> Result<(), Failure> + Send),
        doing: &str,
    ) -> Result<Executed, Failure> {
        if !is_name(container) {
            let message = format!("{container:?} is no name or id of a container");
            return Err(Failure::new(ErrorKind::InvalidInput, message)
                .hint("`docker ps --all` lists the names of those there are"));
        }
        let options = CreateExecOptions {
            attach_stdin: Some(input.is_some()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(words.to_vec()),
            env: Some(environment.to_vec()),
            ..Default::default()
        };
        let failed = |error| failure(doing, &error);
        let made = self.api.create_exec(container, options).await.map_err(failed)?;
        let options = StartExecOptions { output_capacity: Some(CAPACITY), ..Default::default() };
        let started = self.api.start_exec(&made.id, Some(options)).await.map_err(failed)?;
        let StartExecResults::Attached { mut output, input: to } = started else {
            return Err(Failure::internal("a program was started without its output"));
        };
        let mut said = Vec::new();
        {
            let reading = async {
                while let Some(piece) = output.try_next().await.map_err(failed)? {
                    match piece {
                        LogOutput::StdErr { message } => {
                            said.extend_from_slice(&message[..message.len().min(MOST_SAID - said.len())]);
                        }
                        LogOutput::StdOut { message } | LogOutput::Console { message } => sink(&message)?,
                        LogOutput::StdIn { .. } => {}
                    }
                }
                Ok::<_, Failure>(())
            };
            // Both at once: neither side may wait for the other. A program that has ended reads no more.
            let (mut reading, mut feeding) = (pin!(reading), pin!(feed(input, to)));
            let mut is_fed = false;
            loop {
                tokio::select! {
                    read = &mut reading => break read?,
                    fed = &mut feeding, if !is_fed => {
                        fed?;
                        is_fed = true;
                    }
                }
            }
        }
        let told = self.api.inspect_exec(&made.id).await.map_err(failed)?;
        let code = told.exit_code.ok_or_else(|| Failure::internal("a program has ended and still runs"))?;
        Ok(Executed { code, said: String::from_utf8_lossy(&said).trim_end().to_owned() })
    }
}

/// Sends a file to the program, and then its end. A program that does not take all of it says by its exit code whether that is
/// a failure.
async fn feed(input: Option<&Path>, mut to: Pin<Box<dyn AsyncWrite + Send>>) -> Result<(), Failure> {
    let Some(path) = input else { return Ok(()) };
    let file = File::open(path).at("cannot read", path)?;
    let mut pieces = pin!(stream_of(move |out| std::io::copy(&mut &file, out).map(drop)));
    while let Some(piece) = pieces.try_next().await.at("cannot read", path)? {
        if let Err(error) = to.write_all(&piece).await {
            tracing::debug!(%error, "a program in a container takes no more input");
            return Ok(());
        }
    }
    let _ = to.shutdown().await;
    Ok(())
}
