//! `Failure` tells a person what happened, and what to do next.

pub mod codes;
pub mod document;

use store::{
    Error, ErrorKind,
    error::{BucketError, Holder},
    id::RecordId,
    name::ChromeMajor,
};

use self::document::ErrorDocument;

/// An error as a person meets it.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The kind, which has a code and a name.
    pub kind: ErrorKind,
    /// The failure, in a sentence.
    pub message: String,
    /// The next step for the user.
    pub hint: Option<String>,
    /// Of a lock that somebody else holds: who, in the contract's words.
    pub holder: Option<Box<Holder>>,
    /// The exit code, if it is not the one of its kind.
    pub exit: Option<u8>,
    /// The session whose changes build on what is not current any more, if that is what is wrong.
    pub diverged: Option<String>,
}

impl Failure {
    /// A failure of this kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None, holder: None, exit: None, diverged: None }
    }

    /// A request that cannot be carried out as it is.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidInput, message)
    }

    /// A defect of pstore.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Internal, message)
    }

    /// The same, with another hint.
    pub fn hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// The exit code of a command that fails so.
    pub fn code(&self) -> u8 {
        self.exit.unwrap_or(codes::code(self.kind))
    }

    /// As every front end returns it.
    pub fn document(&self) -> ErrorDocument {
        ErrorDocument { error: self.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let (kind, hint, message) = (error.kind(), advice(&error), error.to_string());
        let holder = match error {
            Error::LockHeld { holder, .. } | Error::LockLost { holder: Some(holder), .. } => Some(holder),
            _ => None,
        };
        Self { kind, message, hint, holder, exit: None, diverged: None }
    }
}

impl From<BucketError> for Failure {
    fn from(error: BucketError) -> Self {
        Error::from(error).into()
    }
}

/// For a store in a directory.
pub const DIRECTORY: &str =
    "check the directory's owner and mode, and whether its file system is mounted read-only";
const CREDENTIALS: &str = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";

/// How a pointer that is damaged is written anew.
pub fn pointer_repair(name: &str, chrome_major: Option<&str>) -> String {
    let major = chrome_major.map(|major| format!(" --chrome-major {major}")).unwrap_or_default();
    format!(
        "`pstore list {name}{major}` shows the snapshots; \
         `pstore rollback {name}{major} --sha PREFIX --force --confirm` writes a new pointer to one of them"
    )
}

fn is_of_the_pointer(error: &Error) -> bool {
    let (Error::Damaged { object, .. } | Error::Missing { object, .. }) = error else { return false };
    object.ends_with("/latest.json") || object.starts_with("the pointer of ")
}

/// The advice if the damaged `object` is a record: its snapshot can be given up.
pub fn record_remedy(object: &str) -> Option<String> {
    let [tenant, profile, major, name] =
        object.strip_prefix("snapshots/")?.split('/').collect::<Vec<_>>().try_into().ok()?;
    let record: RecordId = name.strip_prefix("snap-")?.strip_suffix(".json")?.parse().ok()?;
    Some(format!(
        "bring the object back from a backup; or give the snapshot up: \
         `pstore delete {tenant}/{profile} --chrome-major {major} --sha {record} --damaged --confirm`"
    ))
}

/// Whose the object is that an error names: the profile, and the Chrome version if that is known.
/// Words that stand for them where it is not.
fn owner(object: &str) -> (String, Option<String>) {
    if let Some([tenant, profile, major, _]) = object.strip_prefix("snapshots/").map(parts) {
        return (format!("{tenant}/{profile}"), Some(major.to_owned()));
    }
    if let Some([tenant, ..]) = object.strip_prefix("content/").map(parts) {
        return (tenant.to_owned(), None);
    }
    match object.strip_prefix("the pointer of ").unwrap_or(object).split_once(" (") {
        Some((name, kind)) => (name.to_owned(), Some(number_of(kind.trim_end_matches(')')))),
        None => ("TENANT/PROFILE".to_owned(), None),
    }
}

/// The number of a lineage that calls itself a `Chrome 131`, or a container.
fn number_of(kind: &str) -> String {
    match kind {
        "workspace" => ChromeMajor::WORKSPACE.to_string(),
        "project" => ChromeMajor::PROJECT.to_string(),
        "container" => ChromeMajor::CONTAINER.to_string(),
        other => other.rsplit(' ').next().unwrap_or(other).to_owned(),
    }
}

/// The words that name a profile to a command, of an error that says whose it is about.
fn named(error: &Error) -> String {
    let lineage = match error {
        Error::LockHeld { lineage, .. }
        | Error::LockLost { lineage, .. }
        | Error::PointerMoved { lineage, .. }
        | Error::PointerNotFlipped { lineage, .. }
        | Error::PointerUnknown { lineage, .. }
        | Error::SnapshotNeeded { lineage, .. } => lineage.as_str(),
        _ => "",
    };
    let (name, major) = owner(lineage);
    match major {
        Some(major) => format!("{name} --chrome-major {major}"),
        None => name,
    }
}

/// The first four names of a key; empty where there are fewer.
fn parts(below: &str) -> [&str; 4] {
    let mut names = below.splitn(4, '/');
    std::array::from_fn(|_| names.next().unwrap_or_default())
}

/// The advice for an object that is damaged or gone.
fn repair(error: &Error) -> Option<String> {
    let (Error::Damaged { object, .. } | Error::Missing { object, .. }) = error else { return None };
    let (name, major) = owner(object);
    let flag = major.as_ref().map(|major| format!(" --chrome-major {major}")).unwrap_or_default();
    Some(if object.ends_with("/lock.json") {
        format!("`pstore force-unlock {name}{flag} --reason WHY --confirm` puts a free lock in its place")
    } else if is_of_the_pointer(error) {
        pointer_repair(&name, major.as_deref())
    } else if let Some(remedy) = record_remedy(object) {
        remedy
    } else {
        format!("`pstore verify {name}{flag}` reads every byte and shows how much is affected")
    })
}

/// How what was deleted can begin anew.
fn deleted(error: &Error) -> Option<String> {
    let Error::Deleted { what, .. } = error else { return None };
    let name = what.strip_prefix("tenant ").unwrap_or(what);
    let tenant = name.split('/').next().unwrap_or_default();
    Some(format!(
        "to begin it anew: `pstore delete {name} --tombstone --confirm`, once `pstore gc {tenant}` has removed what is left of it"
    ))
}

fn is_of_a_full_disk(error: &Error) -> bool {
    matches!(error, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::StorageFull)
}

/// The advice for any verb. A verb that knows better replaces it.
fn advice(error: &Error) -> Option<String> {
    let named = || named(error);
    if error.kind() == ErrorKind::Damaged
        && let Some(repair) = repair(error)
    {
        return Some(repair);
    }
    let text = match error.kind() {
        ErrorKind::TargetExists => "use --force to replace it",
        ErrorKind::Unavailable if error.to_string().contains("no credentials") => CREDENTIALS,
        ErrorKind::Unavailable => "check --store, --endpoint and the network; `pstore doctor` looks closer",
        ErrorKind::Denied => match error {
            Error::Bucket(BucketError::Denied { reason, .. }) if reason.contains("no credentials") => {
                CREDENTIALS
            }
            // A file's name, not that of an object on a server.
            Error::Bucket(BucketError::Denied { key, .. }) if key.starts_with('/') => DIRECTORY,
            _ => "check the credentials and what they may do; `pstore doctor` looks closer",
        },
        ErrorKind::StoreRefused if matches!(error, Error::Bucket(BucketError::Rejected { .. })) => {
            "check --store, --endpoint and --region; a bucket must exist before it is used"
        }
        ErrorKind::StoreRefused => "`pstore doctor` says what the store lacks",
        ErrorKind::Damaged => {
            "`pstore verify TENANT/PROFILE` reads every byte and shows how much is affected"
        }
        ErrorKind::UnsupportedFormat => "use a pstore at least as new as the one that wrote it",
        ErrorKind::Ambiguous => "give more digits",
        ErrorKind::PointerNotFlipped => {
            "run the same `pstore snapshot` again: nothing is stored twice, and the pointer is moved"
        }
        ErrorKind::PointerUnknown => {
            return Some(format!(
                "`pstore list {}` shows where the pointer is; running the same command again is safe",
                named()
            ));
        }
        ErrorKind::WriteRevoked => "run the same command again",
        ErrorKind::SourceChanged => "stop the browser that uses the directory, then run it again",
        ErrorKind::LockHeld => {
            return Some(format!(
                "`pstore lock show {0}` tells more; `pstore force-unlock {0} --reason WHY --confirm` takes it away \
                 from a holder that is gone",
                named()
            ));
        }
        ErrorKind::LockLost => return Some(format!("`pstore log {}` tells who took it", named())),
        ErrorKind::PointerMoved => {
            return Some(format!("`pstore log {}` tells who moved it, and why", named()));
        }
        ErrorKind::SnapshotNeeded => {
            return Some(format!(
                "`pstore rollback {} --sha OTHER --confirm` makes another snapshot the current one; unmount what is mounted",
                named()
            ));
        }
        ErrorKind::Deleted => return deleted(error),
        ErrorKind::HeldBack => "look at it, then move the pointer with `pstore rollback`",
        ErrorKind::ProfileTooLarge => "remove what is not needed, or raise max_profile_bytes of the tenant",
        ErrorKind::QuotaExceeded => "`pstore delete` what is not needed, then `pstore gc`",
        ErrorKind::InUse => "end it and run this again",
        ErrorKind::CommandFailed => "mend the command, and run this again",
        ErrorKind::IntegrityFailed => "another snapshot can be chosen with --sha; `pstore list` shows them",
        ErrorKind::VersionMismatch => "use the Chrome it was captured with, or another snapshot",
        ErrorKind::Conflict => "run the same command again",
        ErrorKind::Uncommitted => {
            "--commit stores them, --discard drops them, --keep leaves them for the next mount"
        }
        ErrorKind::SessionUnreadable => {
            "`pstore sessions` lists it; `pstore sessions set-aside` keeps it out of the way"
        }
        ErrorKind::SessionBehind => {
            "make room where the session lies; the next commit, or the next mount, does the rest and stores nothing twice"
        }
        ErrorKind::TenantsFailed => "each of them has a warning above, with the command that looks at it",
        ErrorKind::Internal => "this is a defect of pstore; -vv shows more",
        ErrorKind::Io if is_of_a_full_disk(error) => "make room on that disk, and run the same command again",
        ErrorKind::InvalidInput
        | ErrorKind::Repaired
        | ErrorKind::NotFound
        | ErrorKind::Io
        | ErrorKind::NotImplemented
        | ErrorKind::Interrupted => return None,
    };
    Some(text.to_owned())
}
