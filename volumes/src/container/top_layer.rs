//! `TopLayer` is the layer of a container's own changes, without the files that are not stored.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufWriter, Read, Write},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use engine::failure::Failure;
use sha2::{Digest, Sha256};
use store::{
    Error,
    archive::{
        BLOCK_LEN, padding,
        reader::{Limits, Reader, What},
    },
};

use super::image_archive::{Counted, ImageArchive, Layer, problem};

/// Directories whose content is not stored, without the slash. The kernel's own are in no layer anyway.
pub(super) const EXCLUDED: [&str; 4] = ["tmp", "proc", "sys", "dev"];

/// Copies a layer of an image to the file `to`, but for what is in [`EXCLUDED`]. The directories themselves stay,
/// and so does a file that has another name elsewhere. Says the digest of the copy; `None` if nothing was left out,
/// and then there is no copy.
pub(super) fn without_excluded(
    image: &ImageArchive,
    layer: &Layer,
    to: &Path,
) -> Result<Option<String>, Failure> {
    let spans = spans(image.content(layer)?)?;
    let kept: HashSet<&[u8]> =
        spans.iter().filter(|span| !span.is_excluded).filter_map(|span| span.link.as_deref()).collect();
    let stays = |span: &Span| !span.is_excluded || kept.contains(span.path.as_slice());
    if spans.iter().all(stays) {
        return Ok(None);
    }
    let write_failed = |error| Failure::from(Error::io("cannot write", to, error));
    let mut source = image.content(layer)?;
    let target = BufWriter::new(File::create_new(to).map_err(write_failed)?);
    let mut out = Hashing { out: target, hasher: Sha256::new() };
    for span in &spans {
        let mut bytes = (&mut source).take(span.len);
        let copied = match stays(span) {
            true => io::copy(&mut bytes, &mut out),
            false => io::copy(&mut bytes, &mut io::sink()),
        };
        copied.map_err(write_failed)?;
    }
    out.write_all(&[0; 2 * BLOCK_LEN]).and_then(|()| out.flush()).map_err(write_failed)?;
    let digest: [u8; 32] = out.hasher.finalize().into();
    Ok(Some(hex(&digest)))
}

/// One member, with all headers that belong to it.
struct Span {
    path: Vec<u8>,
    /// The path of the file that it is another name of.
    link: Option<Vec<u8>>,
    len: u64,
    is_excluded: bool,
}

fn spans(layer: impl Read) -> Result<Vec<Span>, Failure> {
    let at = Arc::new(AtomicU64::new(0));
    let source = Counted { source: layer, at: Arc::clone(&at) };
    let mut reader = Reader::new(source, Limits::of(u64::MAX));
    let (mut spans, mut begin) = (Vec::new(), 0);
    while let Some(member) = reader.next_member().map_err(problem)? {
        let now = at.load(Ordering::Relaxed);
        let size = match member.what {
            What::File { size, .. } => size,
            _ => 0,
        };
        let end = now + size + padding(size) as u64;
        let link = match member.what {
            What::HardLink { target } => Some(target.as_bytes().to_vec()),
            _ => None,
        };
        let path = member.path.as_bytes().to_vec();
        spans.push(Span { is_excluded: is_excluded(&path), path, link, len: end - begin });
        begin = end;
    }
    Ok(spans)
}

/// Whether it is below one of the directories.
fn is_excluded(path: &[u8]) -> bool {
    EXCLUDED.iter().any(|folder| {
        path.strip_prefix(folder.as_bytes()).is_some_and(|rest| rest.len() > 1 && rest.starts_with(b"/"))
    })
}

struct Hashing<W> {
    out: W,
    hasher: Sha256,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let len = self.out.write(bytes)?;
        self.hasher.update(&bytes[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_below_the_directories_is_excluded() {
        for (path, expected) in [
            ("tmp", false),
            ("tmp/", false),
            ("tmp/a", true),
            ("tmpx/a", false),
            ("var/tmp/a", false),
            ("dev/sda", true),
        ] {
            assert_eq!(is_excluded(path.as_bytes()), expected, "{path}");
        }
    }
}
