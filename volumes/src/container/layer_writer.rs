//! `LayerWriter` writes a layer of an image as a tar stream, and says the digest by which the image names it.
//!
//! The same changes give the same bytes: so what two snapshots of a container have alike is stored once.

use std::io::{self, Read, Write};

use sha2::{Digest, Sha256};
use store::archive::{
    header::{self, Header, MemberKind},
    members::END,
    padding, pax,
};

use super::top_layer::hex;

/// The largest number that a header has room for as owner and as size.
const MAX_ID: u64 = 0o7_777_777;
const MAX_SIZE: u64 = 0o77_777_777_777;
/// How much of a file is copied at once.
const COPIED_BYTES: usize = 256 << 10;
const PAX_NAME: &[u8] = b"PaxHeaders/next";
/// Stands before the names of extended attributes.
const XATTR: &[u8] = b"SCHILY.xattr.";

/// A member of a layer, but for its content.
#[derive(Clone, Debug)]
pub(super) struct LayerMember {
    pub header: Header,
    /// The part of the time that is less than a second.
    pub nanos: u32,
    /// Attributes that a layer keeps.
    pub xattrs: Vec<(Vec<u8>, Vec<u8>)>,
}

/// A layer that is being written.
pub(super) struct LayerWriter<W> {
    out: W,
    hasher: Sha256,
    len: u64,
    most: u64,
}

/// A layer that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct WrittenLayer {
    /// The SHA-256, as `sha256:` and digits.
    pub digest: String,
    pub len: u64,
}

impl<W: Write> LayerWriter<W> {
    /// Writes no more than `most` bytes.
    pub fn new(out: W, most: u64) -> Self {
        Self { out, hasher: Sha256::new(), len: 0, most }
    }

    /// Writes a member with its content, which has the length that the header says.
    pub fn member(&mut self, member: &LayerMember, content: &mut dyn Read) -> io::Result<()> {
        let (header, records) = (&member.header, records(member));
        if !records.is_empty() {
            let about =
                Header { mode: 0o644, size: records.len() as u64, ..Header::new(PAX_NAME, MemberKind::Pax) };
            self.write_all(&about.encode())?;
            self.write_all(&records)?;
            self.pad(records.len() as u64)?;
        }
        self.write_all(&header.encode())?;
        if header.kind == MemberKind::File {
            let mut content = io::BufReader::with_capacity(COPIED_BYTES, content.take(header.size));
            let copied = io::copy(&mut content, self)?;
            if copied != header.size {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it was cut while it was read"));
            }
            self.pad(header.size)?;
        }
        Ok(())
    }

    /// Ends the layer.
    pub fn finish(mut self) -> io::Result<WrittenLayer> {
        self.write_all(&END)?;
        self.flush()?;
        let digest: [u8; 32] = self.hasher.finalize().into();
        Ok(WrittenLayer { digest: format!("sha256:{}", hex(&digest)), len: self.len })
    }

    fn pad(&mut self, len: u64) -> io::Result<()> {
        self.write_all(&[0; 512][..padding(len)])
    }
}

impl<W: Write> Write for LayerWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.len += written as u64;
        if self.len > self.most {
            return Err(io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("it has more than {} bytes", self.most),
            ));
        }
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// What the header has no room for.
fn records(member: &LayerMember) -> Vec<u8> {
    let LayerMember { header, nanos, xattrs } = member;
    let mut out = Vec::new();
    let (long_path, long_link) =
        (header::split(&header.path).is_none(), header.link.len() > header::MAX_NAME);
    let plain = |text: &[u8]| std::str::from_utf8(text).is_ok();
    if long_path && !plain(&header.path) || long_link && !plain(&header.link) {
        pax::append(&mut out, b"hdrcharset", b"BINARY");
    }
    if long_path {
        pax::append(&mut out, b"path", &header.path);
    }
    if long_link {
        pax::append(&mut out, b"linkpath", &header.link);
    }
    for (key, value, max) in
        [("size", header.size, MAX_SIZE), ("uid", header.uid, MAX_ID), ("gid", header.gid, MAX_ID)]
    {
        if value > max {
            pax::append(&mut out, key.as_bytes(), value.to_string().as_bytes());
        }
    }
    // Docker takes no time before 1970.
    let fits = u64::try_from(header.mtime).is_ok_and(|seconds| seconds <= MAX_SIZE);
    if header.mtime >= 0 && (*nanos > 0 || !fits) {
        let time = format!("{}.{nanos:09}", header.mtime);
        let time = time.trim_end_matches('0').trim_end_matches('.');
        pax::append(&mut out, b"mtime", time.as_bytes());
    }
    for (name, value) in xattrs {
        pax::append(&mut out, &[XATTR, name].concat(), value);
    }
    out
}

#[cfg(test)]
mod tests {
    use store::archive::reader::{Limits, Reader, What};

    use super::*;

    fn member(path: &str, kind: MemberKind) -> LayerMember {
        LayerMember {
            header: Header { mode: 0o644, ..Header::new(path, kind) },
            nanos: 0,
            xattrs: Vec::new(),
        }
    }

    #[test]
    fn what_was_written_is_read_again_and_has_its_digest() {
        let mut bytes = Vec::new();
        let mut writer = LayerWriter::new(&mut bytes, u64::MAX);
        let long = "x/".repeat(150) + "file";
        let mut file = member(&long, MemberKind::File);
        (file.header.size, file.header.mtime, file.nanos) = (5, 7, 120_000_000);
        file.xattrs = vec![(b"security.capability".to_vec(), vec![0, 1])];
        writer.member(&file, &mut &b"hello"[..]).unwrap();
        let mut link = member("link", MemberKind::Symlink);
        link.header.link = b"y".repeat(200);
        writer.member(&link, &mut io::empty()).unwrap();
        let written = writer.finish().unwrap();
        let digest: [u8; 32] = Sha256::digest(&bytes).into();
        assert_eq!(
            (written.digest, written.len),
            (format!("sha256:{}", super::super::top_layer::hex(&digest)), bytes.len() as u64)
        );
        let mut reader = Reader::new(&bytes[..], Limits::of(u64::MAX));
        let read = reader.next_member().unwrap().unwrap();
        assert_eq!((read.path.to_string(), read.meta.mtime.nanos), (long, 120_000_000));
        assert_eq!(read.meta.xattrs, file.xattrs);
        let mut content = String::new();
        reader.content().read_to_string(&mut content).unwrap();
        assert_eq!(content, "hello");
        let read = reader.next_member().unwrap().unwrap();
        assert_eq!(read.what, What::Symlink { target: b"y".repeat(200) });
        assert!(reader.next_member().unwrap().is_none());
    }

    #[test]
    fn a_file_that_is_cut_and_one_that_is_too_long_are_errors() {
        let mut file = member("file", MemberKind::File);
        file.header.size = 6;
        let mut writer = LayerWriter::new(io::sink(), u64::MAX);
        assert!(writer.member(&file, &mut &b"hello"[..]).is_err());
        let mut writer = LayerWriter::new(io::sink(), 1000);
        file.header.size = 600;
        assert!(writer.member(&file, &mut io::repeat(0)).is_err());
    }
}
