//! `ImportJob` reads the stream into a tree: content into chunks, the rest into memory.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::{self, Read as _, Write},
    os::unix::{ffi::OsStrExt, fs::OpenOptionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{Form, Inspected, Inspector, carry, tree_builder::TreeBuilder};
use crate::{
    Error, Result,
    archive::{
        hashing_reader::{Arrived, HashingReader},
        problem::Problem,
        reader::{Limits, Reader, What},
    },
    content::ingest::{Cutter, Feed, Ingest},
    error::{IoContext, ReadFault},
    format::{
        manifest::Manifest,
        record::Record,
        tree::{Entry, Extent, TreePath},
    },
    progress::{Progress, Tick},
    tree::walk::Skipped,
};

/// A file whose path is longer is not put aside: below another directory, it could not be.
const MAX_ASIDE_BYTES: usize = 2048;

/// The stream's properties, and the bounds of reading it.
pub(super) struct ImportJob {
    pub name: String,
    pub form: Form,
    pub limits: Limits,
    pub manifest: Option<Manifest>,
    pub exclusions: Vec<String>,
    /// The inspector, and the directory in which files are put aside for it.
    pub judge: Option<(Arc<dyn Inspector>, PathBuf)>,
    pub threads: usize,
    /// Files that the stream does not have, and the snapshot has.
    pub carried: Vec<Entry>,
    /// Where members are put that are too many for memory.
    pub aside: Option<PathBuf>,
}

/// The result of reading a stream.
pub(super) struct Read {
    pub members: TreeBuilder,
    pub arrived: Arrived,
    pub skipped: Skipped,
    pub bytes: u64,
}

type Stream = Box<dyn io::Read + Send>;

impl ImportJob {
    /// Reads all of the archive. If it is not the one that the manifest describes, that is the error,
    /// before all others.
    pub fn read(&self, ingest: &Ingest, stream: Stream, progress: &dyn Progress) -> Result<Read> {
        ingest.stream(self.threads, |feed| {
            let intake = match self.form {
                Form::Archive => HashingReader::new(stream).map_err(|problem| self.error(problem))?,
                Form::Tar => HashingReader::plain(stream),
            };
            let mut reader = Reader::new(intake, self.limits);
            let members = self.members(&mut reader, feed, progress);
            if let Err(Problem::Other(error)) = members {
                return Err(error);
            }
            let most = self.manifest.as_ref().map_or(u64::MAX, |manifest| manifest.archive_size_bytes);
            let arrived = match (members.is_ok(), &self.manifest) {
                // Nobody said what it should be: the rest of it tells nothing.
                (false, None) => None,
                _ => Some(reader.into_inner().finish(most)),
            };
            let arrived = arrived.transpose().map_err(|error| self.error(Problem::Read(error)))?;
            if let Some(arrived) = &arrived {
                self.check(arrived)?;
            }
            let members = members.map_err(|problem| self.error(problem))?;
            let arrived = arrived.ok_or_else(|| self.bad("it was not read to its end".to_owned()))?;
            let skipped = Skipped { sockets: 0, fifos: members.fifos, devices: members.devices };
            let bytes = members.bytes;
            Ok(Read { members, arrived, skipped, bytes })
        })
    }

    /// Has the files looked at that were put aside for it.
    pub fn judge(&self, base: Option<&Record>) -> Result<Inspected> {
        match &self.judge {
            Some((judge, scratch)) => judge.judge(scratch, base),
            None => Ok(Inspected::default()),
        }
    }

    pub fn bad(&self, problem: String) -> Error {
        Error::BadArchive { archive: self.name.clone(), problem }
    }

    fn members(
        &self,
        reader: &mut Reader<HashingReader<Stream>>,
        feed: &mut Feed<'_>,
        progress: &dyn Progress,
    ) -> Result<TreeBuilder, Problem> {
        let mut members = TreeBuilder::new(self.limits, self.aside.clone());
        while let Some(member) = reader.next_member()? {
            if self.is_excluded(&member.path) {
                members.leave_out(member.path, &member.what)?;
                continue;
            }
            let file = match &member.what {
                What::File { size, holes } => Some((member.path.clone(), *size, holes.clone())),
                _ => None,
            };
            // Before its content is read: what is not allowed is not read either.
            members.add(member)?;
            if let Some((path, size, holes)) = file {
                let extents = self.content(reader, feed, &path, (size, &holes))?;
                members.fill(&path, extents);
                progress.tick(Tick { files: 1, ..Tick::default() });
            }
        }
        for entry in &self.carried {
            carry::add(&mut members, entry)?;
        }
        Ok(members)
    }

    fn content(
        &self,
        reader: &mut Reader<HashingReader<Stream>>,
        feed: &mut Feed<'_>,
        path: &TreePath,
        (size, holes): (u64, &[(u64, u64)]),
    ) -> Result<Vec<Extent>, Problem> {
        let mut content = reader.content();
        let most = self.judge.as_ref().map_or(0, |(judge, _)| judge.head_bytes() as u64);
        let mut head = Vec::new();
        content.by_ref().take(most).read_to_end(&mut head).map_err(Problem::Read)?;
        let aside = self.copy_of(path, &head)?;
        let mut tee = Tee { content: head.as_slice().chain(content), aside };
        // An error of the stream passes through two hands that know nothing about it.
        let mut failed = None;
        let extents = feed.file(|cutter| {
            cut(cutter, &mut tee, size, holes).map_err(|fault| match fault {
                ReadFault::Taker(error) => error,
                ReadFault::Source(error) => {
                    failed = Some(error);
                    Error::Interrupted
                }
            })
        });
        match failed {
            Some(error) => Err(Problem::Read(error)),
            None => Ok(extents?),
        }
    }

    /// A copy of the file, if somebody wants to look at it.
    fn copy_of(&self, path: &TreePath, head: &[u8]) -> Result<Option<File>> {
        let Some((judge, scratch)) = &self.judge else { return Ok(None) };
        let shown = path;
        let path = Path::new(OsStr::from_bytes(path.as_bytes()));
        if path.as_os_str().len() > MAX_ASIDE_BYTES || !judge.wants(path, head) {
            return Ok(None);
        }
        let mut parent = scratch.clone();
        for name in path.parent().into_iter().flat_map(Path::components) {
            parent.push(name);
            // One by one: if not even the first is there any more, nobody wants the file.
            match fs::create_dir(&parent) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                    return Err(self.bad(format!("{shown} is below something that is no directory")));
                }
                made => made.at("cannot make", &parent)?,
            }
        }
        let target = scratch.join(path);
        let file = File::options().write(true).create_new(true).mode(0o600).open(&target);
        if file.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
            return Err(self.bad(format!("{shown} is there twice")));
        }
        file.at("cannot write", target).map(Some)
    }

    fn check(&self, arrived: &Arrived) -> Result<()> {
        let Some(manifest) = &self.manifest else { return Ok(()) };
        let (size, sha256) = (manifest.archive_size_bytes, manifest.archive_sha256);
        if arrived.size > size {
            return Err(Error::damaged(
                &self.name,
                format!("it is longer than {size} bytes, as its manifest has it"),
            ));
        }
        if arrived.size != size {
            let reason = format!("it has {} bytes, and {size} in its manifest", arrived.size);
            return Err(Error::damaged(&self.name, reason));
        }
        if let Some(found) = arrived.sha256.filter(|found| *found != sha256) {
            let reason = format!("its SHA-256 is {found}, and {sha256} in its manifest");
            return Err(Error::damaged(&self.name, reason));
        }
        Ok(())
    }

    fn is_excluded(&self, path: &TreePath) -> bool {
        self.exclusions.iter().any(|name| name.as_bytes() == path.as_bytes())
    }

    pub fn error(&self, problem: Problem) -> Error {
        match problem {
            Problem::Bad(problem) => self.bad(problem),
            Problem::TooLarge(bytes) => Error::ProfileTooLarge {
                path: self.name.clone().into(),
                bytes,
                limit: self.limits.bytes,
                largest: Vec::new(),
            },
            Problem::Read(error) if error.get_ref().is_some_and(|inner| inner.is::<Error>()) => {
                let inner = error.into_inner().and_then(|inner| inner.downcast::<Error>().ok());
                inner.map_or(Error::Interrupted, |inner| *inner)
            }
            Problem::Read(error) => self.bad(error.to_string()),
            Problem::Other(error) => error,
        }
    }
}

/// Cuts a file that has these holes; those beyond its end are not about it.
fn cut(
    cutter: &mut Cutter<'_>,
    file: &mut impl io::Read,
    size: u64,
    holes: &[(u64, u64)],
) -> Result<(), ReadFault> {
    let mut at = 0;
    for (offset, len) in holes.iter().copied().filter(|(offset, len)| offset + len <= size) {
        cutter.read_from(file, offset - at)?;
        skip_zeros(file, len)?;
        cutter.hole(len)?;
        at = offset + len;
    }
    cutter.read_from(file, size - at).map(drop)
}

/// Skips a hole of the archive. It is a hole only if it holds nothing but zeros.
fn skip_zeros(file: &mut impl io::Read, len: u64) -> io::Result<()> {
    let mut left = file.take(len);
    let mut buffer = [0; 16 << 10];
    loop {
        match left.read(&mut buffer)? {
            0 => return Ok(()),
            got if buffer[..got].iter().all(|byte| *byte == 0) => {}
            _ => return Err(io::Error::other("something is in what it says is a hole")),
        }
    }
}

/// Reads on, and writes the same bytes to a file beside.
struct Tee<R> {
    content: R,
    aside: Option<File>,
}

impl<R: io::Read> io::Read for Tee<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.content.read(buffer)?;
        if let Some(file) = &mut self.aside {
            let written = file.write_all(&buffer[..got]);
            written.map_err(|error| io::Error::other(Error::io("cannot write", "a database", error)))?;
        }
        Ok(got)
    }
}
