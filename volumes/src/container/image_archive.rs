//! `ImageArchive` finds what is in the file that `docker save` writes: the image's configuration and its layers.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use engine::failure::Failure;
use serde::Deserialize;
use store::{
    Error, ErrorKind,
    archive::{
        problem::Problem,
        reader::{Limits, Reader, What},
    },
};

/// The configuration of an image, and the list of images, are no longer than this.
const MAX_JSON_BYTES: u64 = 16 << 20;

/// Where a member's content lies in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub offset: u64,
    pub len: u64,
}

/// An image as `docker save` wrote it.
#[derive(Debug)]
pub(super) struct ImageArchive {
    file: File,
    /// The bytes of the configuration.
    pub config: Vec<u8>,
    /// The layers, the lowest first.
    pub layers: Vec<Place>,
}

#[derive(Deserialize)]
struct Listed {
    #[serde(rename = "Config")]
    config: String,
    #[serde(rename = "Layers")]
    layers: Vec<String>,
}

enum Member {
    File(Place),
    Link(Vec<u8>),
}

impl ImageArchive {
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|error| Error::io("cannot read", path, error))?;
        let members = index(&file)?;
        let find = |name: &str| {
            let mut name = name.to_owned();
            // A layer that is there twice is a link to the first.
            for _ in 0..8 {
                match members.get(&name) {
                    Some(Member::File(place)) => return Ok(*place),
                    Some(Member::Link(target)) => name = beside(&name, &String::from_utf8_lossy(target)),
                    None => break,
                }
            }
            Err(bad(format!("it has no {name}")))
        };
        let read = |place: Place| read_all(&file, place);
        let listed: Vec<Listed> = serde_json::from_slice(&read(find("manifest.json")?)?)
            .map_err(|error| bad(format!("its manifest.json cannot be read: {error}")))?;
        let [listed] = listed.as_slice() else {
            return Err(bad(format!("it has {} images", listed.len())));
        };
        let config = read(find(&listed.config)?)?;
        let layers = listed.layers.iter().map(|name| find(name)).collect::<Result<Vec<_>, Failure>>()?;
        for place in &layers {
            require_plain(&file, *place)?;
        }
        Ok(Self { config, layers, file })
    }

    /// The bytes at a place.
    pub fn content(&self, place: Place) -> Result<io::Take<BufReader<File>>, Failure> {
        content(&self.file, place)
    }
}

fn content(file: &File, place: Place) -> Result<io::Take<BufReader<File>>, Failure> {
    let failed = |error| Failure::from(Error::io("cannot read", "the image", error));
    let mut file =
        File::open(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(file))).map_err(failed)?;
    file.seek(SeekFrom::Start(place.offset)).map_err(failed)?;
    Ok(BufReader::with_capacity(1 << 20, file).take(place.len))
}

fn read_all(file: &File, place: Place) -> Result<Vec<u8>, Failure> {
    if place.len > MAX_JSON_BYTES {
        return Err(bad(format!("its description has {} bytes", place.len)));
    }
    let mut bytes = Vec::new();
    let read = content(file, place)?.read_to_end(&mut bytes);
    read.map_err(|error| Error::io("cannot read", "the image", error))?;
    Ok(bytes)
}

/// Layers are stored as tar streams, so that equal parts of them are stored once.
fn require_plain(file: &File, place: Place) -> Result<(), Failure> {
    let mut start = Vec::new();
    let read = content(file, place)?.take(4).read_to_end(&mut start);
    read.map_err(|error| Error::io("cannot read", "the image", error))?;
    let by = match start.as_slice() {
        [0x1f, 0x8b, ..] => "gzip",
        [0x28, 0xb5, 0x2f, 0xfd] => "zstd",
        _ => return Ok(()),
    };
    let message =
        format!("the daemon keeps a layer of the image compressed by {by}, which is not supported yet");
    Err(Failure::new(ErrorKind::NotImplemented, message)
        .hint("use a daemon without the containerd image store: `\"features\": {\"containerd-snapshotter\": false}`"))
}

/// Where each member's content lies.
fn index(file: &File) -> Result<HashMap<String, Member>, Failure> {
    let at = Arc::new(AtomicU64::new(0));
    let whole = Place { offset: 0, len: u64::MAX };
    let mut reader =
        Reader::new(Counted { source: content(file, whole)?, at: Arc::clone(&at) }, Limits::of(u64::MAX));
    let mut members = HashMap::new();
    while let Some(member) = reader.next_member().map_err(problem)? {
        let found = match member.what {
            What::File { size, .. } => Member::File(Place { offset: at.load(Ordering::Relaxed), len: size }),
            What::Symlink { target } => Member::Link(target),
            _ => continue,
        };
        members.insert(member.path.to_string(), found);
    }
    Ok(members)
}

/// The path that a link in the folder of `name` leads to.
fn beside(name: &str, target: &str) -> String {
    let mut parts: Vec<&str> = name.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Counts what was read.
pub(super) struct Counted<R> {
    pub source: R,
    pub at: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.source.read(buffer)?;
        self.at.fetch_add(got as u64, Ordering::Relaxed);
        Ok(got)
    }
}

/// What is wrong with a tar stream of the daemon.
pub(super) fn problem(problem: Problem) -> Failure {
    match problem {
        Problem::Other(error) => error.into(),
        Problem::Read(error) => Error::io("cannot read", "a tar stream of the daemon", error).into(),
        Problem::Bad(told) => bad(told),
        Problem::TooLarge(bytes) => bad(format!("it holds {bytes} bytes")),
    }
}

fn bad(told: String) -> Failure {
    Failure::new(ErrorKind::IntegrityFailed, format!("a tar stream of the daemon cannot be used: {told}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_what_lies_beside_it() {
        assert_eq!(beside("abc/layer.tar", "../def/layer.tar"), "def/layer.tar");
        assert_eq!(beside("layer.tar", "./other.tar"), "other.tar");
    }
}
