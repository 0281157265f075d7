//! `Host` runs the program as its users run it: one process per command.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use store::bucket::S3Config;

/// The program that was built with this test.
///
/// A test runs from `target/<profile>/deps`; the program lies one folder above.
pub fn program() -> PathBuf {
    let test = env::current_exe().unwrap();
    // Tests lie in a folder beside it, other programs do not.
    let folder = test.parent().unwrap();
    let path = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder }.join("pstore");
    assert!(path.exists(), "{} is missing: run `cargo build -p pstore` first", path.display());
    path
}

/// One host: a store that it uses, and a home that no other host shares.
#[derive(Clone, Debug)]
pub struct Host {
    variables: Vec<(String, String)>,
    /// The arguments of `prlimit` for its commands, if they have limits.
    limits: Vec<String>,
}

/// The limits beyond which the kernel ends a command.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Of memory that is its own.
    pub data_bytes: u64,
    /// Of all processors together: so that a busy machine does not matter.
    pub cpu_seconds: u64,
}

impl Host {
    /// With the store in the directory `store`.
    pub fn local(home: &Path, store: &Path) -> Self {
        Self::new(home).with("PSTORE_STORE", &format!("file://{}", store.display()))
    }

    pub fn s3(home: &Path, config: &S3Config) -> Self {
        let keys = config.credentials.as_ref().unwrap();
        Self::new(home)
            .with("PSTORE_STORE", &format!("s3://{}/{}", config.bucket, config.prefix))
            .with("PSTORE_S3_ENDPOINT", config.endpoint.as_ref().unwrap())
            .with("AWS_ACCESS_KEY_ID", &keys.access_key_id)
            .with("AWS_SECRET_ACCESS_KEY", &keys.secret_access_key)
    }

    fn new(home: &Path) -> Self {
        fs::create_dir_all(home).unwrap();
        let cache = home.join("cache");
        Self { variables: Vec::new(), limits: Vec::new() }
            .with("HOME", &home.display().to_string())
            .with("PSTORE_CACHE_DIR", &cache.display().to_string())
    }

    /// The same host with one more variable.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same host, whose commands end when they take more than this.
    pub fn within(self, limits: Limits) -> Self {
        let Limits { data_bytes, cpu_seconds } = limits;
        Self { limits: vec![format!("--data={data_bytes}"), format!("--cpu={cpu_seconds}")], ..self }
    }

    /// Does not wait long for a server that does not answer.
    pub fn impatient(self) -> Self {
        self.with("PSTORE_RETRY_SECONDS", "1")
    }

    /// The same host, where a command that takes more memory than this is refused it, and aborts.
    pub fn within_memory(self, bytes: u64) -> Self {
        Self { limits: vec![format!("--as={bytes}")], ..self }
    }

    /// The same host, where a command may have so many files open.
    pub fn within_files(self, files: u64) -> Self {
        Self { limits: vec![format!("--nofile={files}:{files}")], ..self }
    }

    /// Starts the command. Its output goes to files, so it never waits for a reader.
    pub fn start<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Running {
        self.start_as(&program(), arguments)
    }

    /// The same with a copy of the program.
    pub fn start_as<A: AsRef<OsStr>>(
        &self,
        program: &Path,
        arguments: impl IntoIterator<Item = A>,
    ) -> Running {
        let (stdout, stderr) =
            (tempfile::NamedTempFile::new().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let mut command = match self.limits.is_empty() {
            true => Command::new(program),
            false => {
                let mut command = Command::new("prlimit");
                command.args(&self.limits).arg(program);
                command
            }
        };
        self.prepare(&mut command);
        // In front: behind the command of a `run` it would be that command's.
        command.arg("--json").args(arguments);
        command.stdin(Stdio::null()).stdout(stdout.reopen().unwrap()).stderr(stderr.reopen().unwrap());
        Running { child: command.spawn().unwrap(), stdout, stderr }
    }

    /// Has the command run on this host, without the environment of the tests.
    pub fn prepare(&self, command: &mut Command) {
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if ["AWS_", "PSTORE_", "XDG_"].iter().any(|prefix| text.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
    }

    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Ended {
        self.start(arguments).wait()
    }

    /// Runs a command that must succeed, and returns its document.
    #[track_caller]
    pub fn succeed<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Value {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{ended:#?}");
        ended.document
    }

    /// Runs a command that must end with `code`, and returns its document's `error`.
    #[track_caller]
    pub fn fail<A: AsRef<OsStr>>(&self, code: i32, arguments: impl IntoIterator<Item = A>) -> Value {
        let mut ended = self.run(arguments);
        assert_eq!(ended.code, Some(code), "{ended:#?}");
        let error = ended.document["error"].take();
        assert_eq!(error["exit_code"], code, "{error:#}");
        error
    }

    #[track_caller]
    pub fn snapshot(&self, directory: &Path, profile: &str) -> Value {
        self.succeed(snapshot(directory, profile))
    }

    #[track_caller]
    pub fn restore(&self, profile: &str, target: &Path) -> Value {
        self.succeed([OsStr::new("restore"), profile.as_ref(), target.as_os_str()])
    }

    /// Fails, with the fault, unless everything the profile needs is whole.
    #[track_caller]
    pub fn verify(&self, profile: &str, more: &[&str]) {
        let found = self.succeed([&["verify", profile], more].concat());
        assert_eq!((&found["outcome"], &found["damage"]), (&"whole".into(), &Value::Array(Vec::new())));
    }
}

/// The arguments of a snapshot.
pub fn snapshot<'a>(directory: &'a Path, profile: &'a str) -> [&'a OsStr; 5] {
    ["snapshot".as_ref(), directory.as_os_str(), profile.as_ref(), "--chrome-major".as_ref(), "131".as_ref()]
}

/// A command that has not ended yet, as far as is known.
#[derive(Debug)]
pub struct Running {
    child: Child,
    stdout: tempfile::NamedTempFile,
    stderr: tempfile::NamedTempFile,
}

/// How a command ended.
#[derive(Debug)]
pub struct Ended {
    /// `None` if it was killed.
    pub code: Option<i32>,
    /// The document that it printed; `null` if it was killed.
    pub document: Value,
    pub stderr: String,
}

impl Running {
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn runs(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Its output so far.
    pub fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.stderr.path()).unwrap()).into_owned()
    }

    /// Waits until it has said this.
    #[track_caller]
    pub fn await_stderr(&mut self, words: &str) {
        let began = Instant::now();
        loop {
            let said = self.said();
            if said.contains(words) {
                return;
            }
            assert!(self.runs() && began.elapsed() < Duration::from_secs(60), "no {words:?} in {said:?}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it as nothing can be prepared for. It may have ended by itself just before.
    pub fn kill(mut self) -> Ended {
        self.child.kill().unwrap();
        self.wait()
    }

    pub fn wait(mut self) -> Ended {
        let status = self.child.wait().unwrap();
        let stdout = fs::read(self.stdout.path()).unwrap();
        let stderr = String::from_utf8_lossy(&fs::read(self.stderr.path()).unwrap()).into_owned();
        let document = match status.code() {
            // Nothing is told of what was interrupted.
            Some(130) if stdout.is_empty() => Value::Null,
            Some(_) => serde_json::from_slice(&stdout)
                .unwrap_or_else(|error| panic!("no JSON on stdout: {error}\n{stderr}")),
            None => Value::Null,
        };
        assert!(matches!(status.signal(), None | Some(9)), "it crashed: {status}\n{stderr}");
        Ended { code: status.code(), document, stderr }
    }
}

/// The message of an error, as `--json` prints it, has these words.
#[track_caller]
pub fn assert_says(error: &Value, words: &str) {
    assert!(error["message"].as_str().is_some_and(|text| text.contains(words)), "no {words:?} in {error:#}");
}
