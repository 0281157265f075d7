//! Reads the members of a tar archive one after the other, from any stream.
//!
//! POSIX ustar and its extended headers, GNU tar's long names and holes, and
//! the old format of Unix version 7. Every length is bounded before anything is read or kept.

use std::io::{self, Read};

use super::{
    BLOCK_LEN,
    extended::{self, Extended},
    header::{Header, MemberKind},
    holes::Holes,
    padding,
    problem::{Problem, Result},
    read_full,
    sparse::Runs,
};
use crate::format::tree::{MAX_FILE_BYTES, MAX_PATH_BYTES, MODE_BITS, Meta, Time, TreePath};

/// Zeros that may follow the end: tar fills its last record up, whose length can be chosen.
const MAX_TRAILING_BYTES: u64 = 32 << 20;
/// Headers of headers for each entry, as many as any writer needs.
const HEADERS_PER_ENTRY: usize = 4;

/// How much an archive may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// In all files together.
    pub bytes: u64,
    /// The most members.
    pub entries: usize,
    /// Of names and attributes, which are held in memory.
    pub metadata_bytes: usize,
}

impl Limits {
    /// Limits that allow all valid metadata beside so many bytes of files.
    pub fn of(bytes: u64) -> Self {
        Self { bytes, entries: 1 << 20, metadata_bytes: 512 << 20 }
    }
}

/// One member of an archive, its pax records taken into account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Where it goes in the tree.
    pub path: TreePath,
    /// Its owner, mode, time and other attributes.
    pub meta: Meta,
    /// Its kind, with its content or target.
    pub what: What,
}

/// The kind of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Its content follows: see [`Reader::content`].
    File {
        /// How many bytes the file has, holes among them.
        size: u64,
        /// Zeros in it that take no space.
        holes: Holes,
    },
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: Vec<u8>,
    },
    /// Another name of a file that came before.
    HardLink {
        /// The path of that file.
        target: TreePath,
    },
    /// A FIFO.
    Fifo,
    /// A device, which no tree takes in.
    Device,
}

/// A tar stream that is being read.
#[derive(Debug)]
pub struct Reader<R> {
    stream: R,
    limits: Limits,
    /// The unread rest of the member's content; and the padding of its last block.
    runs: Runs,
    padding: u64,
    headers: usize,
    /// Attributes of all members that follow.
    global: Extended,
}

impl<R: Read> Reader<R> {
    /// Begins to read; nothing beyond `limits` is taken in.
    pub fn new(stream: R, limits: Limits) -> Self {
        Self { stream, limits, runs: Runs::default(), padding: 0, headers: 0, global: Extended::default() }
    }

    /// The next member; unread content of the one before is passed over. `None` at the end
    /// of the archive, after which there was nothing.
    pub fn next_member(&mut self) -> Result<Option<Member>> {
        self.skip()?;
        let mut extended = self.global.clone();
        let (mut long_name, mut long_link) = (None, None);
        loop {
            let Some(header) = self.header()? else {
                if extended != self.global || long_name.is_some() || long_link.is_some() {
                    return Err(Problem::bad("it ends after an extended header: it is truncated"));
                }
                return Ok(None);
            };
            match header.kind {
                MemberKind::Pax => extended.read(&self.body(&header)?)?,
                MemberKind::PaxGlobal => {
                    let body = self.body(&header)?;
                    self.global.read_global(&body)?;
                    extended = self.global.clone();
                }
                MemberKind::GnuLongPath => long_name = Some(self.long(&header)?),
                MemberKind::GnuLongLink => long_link = Some(self.long(&header)?),
                // The label of a volume says nothing about files.
                MemberKind::Other(b'V') => {}
                _ => {
                    extended.path = extended.path.or(long_name);
                    extended.link = extended.link.or(long_link);
                    return self.member(header, extended).map(Some);
                }
            }
        }
    }

    /// The unread content of the member that was read last.
    pub fn content(&mut self) -> Content<'_, R> {
        Content(self)
    }

    /// The stream, read as far as the members were.
    pub fn into_inner(self) -> R {
        self.stream
    }

    fn member(&mut self, mut header: Header, mut extended: Extended) -> Result<Member> {
        let stored = extended.size.unwrap_or(header.size);
        let sparse = self.sparse(&mut header, &mut extended, stored)?;
        let name = extended.path.unwrap_or(header.path);
        let path = self::path(&name)?;
        let shown = || name[..name.len().min(256)].escape_ascii().to_string();
        let link = extended.link.unwrap_or(header.link);
        let what = match header.kind {
            MemberKind::File if sparse.is_some() || !name.ends_with(b"/") => {
                let (size, holes) = sparse.unwrap_or_else(|| {
                    self.expect(stored);
                    (stored, extended.holes)
                });
                What::File { size, holes }
            }
            // A name alone may say that it is a directory, also where another header has it.
            MemberKind::File | MemberKind::Directory => What::Directory,
            MemberKind::HardLink => What::HardLink { target: self::path(&link)? },
            MemberKind::Symlink => What::Symlink { target: link },
            MemberKind::CharDevice | MemberKind::BlockDevice => What::Device,
            MemberKind::Fifo => What::Fifo,
            kind => {
                return Err(Problem::bad(format!("{} is of a kind that is not known: {kind:?}", shown())));
            }
        };
        match what {
            What::File { size, .. } if size > MAX_FILE_BYTES => return Err(Problem::TooLarge(size)),
            // Writers differ in whether that would be followed by content.
            What::HardLink { .. } | What::Symlink { .. } if stored > 0 => {
                return Err(Problem::bad(format!("{} is a link with content of its own", shown())));
            }
            _ => {}
        }
        let id = |id: u64| u32::try_from(id).map_err(|_| Problem::bad(format!("{}: owner {id}", shown())));
        let xattrs = extended.xattrs.into_iter().collect();
        let meta = Meta {
            mode: header.mode & MODE_BITS,
            uid: id(extended.uid.unwrap_or(header.uid))?,
            gid: id(extended.gid.unwrap_or(header.gid))?,
            mtime: extended.mtime.unwrap_or(Time { seconds: header.mtime, nanos: 0 }),
            xattrs: if matches!(what, What::File { .. } | What::Directory) { xattrs } else { Vec::new() },
            extensions: Vec::new(),
        };
        Ok(Member { path, meta, what })
    }

    /// The length and holes of a file whose holes are not in the stream: the other parts of it
    /// are expected there. It is a file like others then.
    fn sparse(
        &mut self,
        header: &mut Header,
        extended: &mut Extended,
        stored: u64,
    ) -> Result<Option<(u64, Holes)>> {
        let (size, parts) = match (header.kind, header.sparse.take(), extended.sparse.take()) {
            (MemberKind::GnuSparse, Some(head), None) => {
                header.kind = MemberKind::File;
                let told = head.read_on(&mut self.stream)?;
                self.expect(stored);
                told
            }
            (MemberKind::File, None, Some(told)) => {
                extended.path = told.name.clone().or(extended.path.take());
                self.expect(stored);
                told.read_on(&mut self.content())?
            }
            (_, None, None) => return Ok(None),
            _ => {
                return Err(Problem::bad("it says of something that it is a sparse file, and another thing"));
            }
        };
        let (runs, holes) = Runs::sparse(size, &parts, self.runs.stored())?;
        self.runs = runs;
        Ok(Some((size, holes)))
    }

    fn header(&mut self) -> Result<Option<Header>> {
        let mut block = [0; BLOCK_LEN];
        match read_full(&mut self.stream, &mut block).map_err(Problem::Read)? {
            BLOCK_LEN => {}
            _ => return Err(Problem::bad("it ends without an end mark: it is truncated")),
        }
        let Some(header) = Header::decode(&block)? else {
            self.end()?;
            return Ok(None);
        };
        self.headers += 1;
        if self.headers > self.limits.entries.saturating_mul(HEADERS_PER_ENTRY) {
            return Err(Problem::bad(format!("it holds more than {} headers", self.headers - 1)));
        }
        Ok(Some(header))
    }

    /// After the first block of zeros there is nothing but more of them.
    fn end(&mut self) -> Result<()> {
        let mut buffer = vec![0; 64 << 10];
        let mut total = 0;
        loop {
            let got = read_full(&mut self.stream, &mut buffer).map_err(Problem::Read)?;
            if buffer[..got].iter().any(|byte| *byte != 0) {
                return Err(Problem::bad("something follows its end"));
            }
            total += got as u64;
            if total > MAX_TRAILING_BYTES {
                return Err(Problem::bad(format!("more than {MAX_TRAILING_BYTES} zeros follow its end")));
            }
            if got < buffer.len() {
                return Ok(());
            }
        }
    }

    /// A name of GNU tar's, which ends in a NUL.
    fn long(&mut self, header: &Header) -> Result<Vec<u8>> {
        let mut body = self.body(header)?;
        if body.len() > MAX_PATH_BYTES + 2 {
            return Err(Problem::bad("it has a name that is longer than 32 KiB"));
        }
        if let Some(end) = body.iter().position(|byte| *byte == 0) {
            body.truncate(end);
        }
        Ok(body)
    }

    /// The content of a header that is about another one.
    fn body(&mut self, header: &Header) -> Result<Vec<u8>> {
        if header.size > extended::MAX_BYTES {
            return Err(Problem::bad(format!("it has an extended header of {} bytes", header.size)));
        }
        self.expect(header.size);
        let mut body = Vec::new();
        self.content().read_to_end(&mut body).map_err(Problem::Read)?;
        self.skip()?;
        Ok(body)
    }

    fn expect(&mut self, size: u64) {
        self.runs = Runs::whole(size);
        self.padding = padding(size) as u64;
    }

    fn skip(&mut self) -> Result<()> {
        let skip = std::mem::take(&mut self.runs).stored() + std::mem::take(&mut self.padding);
        let skipped = io::copy(&mut (&mut self.stream).take(skip), &mut io::sink()).map_err(Problem::Read)?;
        if skipped < skip {
            return Err(Problem::Read(truncated()));
        }
        Ok(())
    }
}

/// The content of one member.
#[derive(Debug)]
pub struct Content<'a, R>(&'a mut Reader<R>);

impl<R: Read> Read for Content<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Reader { stream, runs, .. } = &mut *self.0;
        let Some(run) = runs.next().filter(|_| !buffer.is_empty()) else { return Ok(0) };
        let most = |len: u64| usize::try_from(len).unwrap_or(usize::MAX).min(buffer.len());
        if run.zeros > 0 {
            let most = most(run.zeros);
            buffer[..most].fill(0);
            run.zeros -= most as u64;
            return Ok(most);
        }
        let most = most(run.data);
        let got = stream.read(&mut buffer[..most])?;
        if got == 0 {
            return Err(truncated());
        }
        run.data -= got as u64;
        Ok(got)
    }
}

fn truncated() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "it ends in the middle of a file: it is truncated")
}

/// The path of a member as archives write them: `./a`, `a/`, `a//b`.
fn path(name: &[u8]) -> Result<TreePath> {
    let shown = || name[..name.len().min(256)].escape_ascii().to_string();
    if name.is_empty() {
        return Err(Problem::bad("it has a member without a name"));
    }
    if name.starts_with(b"/") {
        return Err(Problem::bad(format!("the path {} is absolute", shown())));
    }
    let parts = name.split(|byte| *byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    let parts: Vec<&[u8]> = parts.collect();
    if parts.contains(&&b".."[..]) {
        return Err(Problem::bad(format!("the path {} leads elsewhere", shown())));
    }
    TreePath::new(parts.join(&b'/')).map_err(|error| Problem::bad(format!("{}: {error}", shown())))
}
