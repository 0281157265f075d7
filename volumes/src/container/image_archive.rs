//! `ImageArchive` finds what is in the file that `docker save` writes: the image's configuration and its layers. Layers that
//! the daemon keeps compressed are unpacked: equal parts of them are stored once only as the tar streams that they are.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use engine::failure::Failure;
use flate2::bufread::MultiGzDecoder;
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
    pub layers: Vec<Layer>,
}

/// Where the tar stream of a layer is.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    /// In the file that the daemon has sent.
    Sent(Place),
    /// In a file of its own, which has so many bytes: the daemon keeps it compressed.
    Unpacked(PathBuf, u64),
}

impl Layer {
    /// The bytes of the tar stream.
    pub fn len(&self) -> u64 {
        match self {
            Self::Sent(place) => place.len,
            Self::Unpacked(_, len) => *len,
        }
    }
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
    /// Reads what is in the file. Layers are unpacked beside it, to no more than `most` bytes together.
    pub fn open(path: &Path, most: u64) -> Result<Self, Failure> {
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
        let (mut layers, mut room) = (Vec::new(), most);
        for (number, name) in listed.layers.iter().enumerate() {
            let place = find(name)?;
            let Some(packed) = Compression::of(&file, place)? else {
                layers.push(Layer::Sent(place));
                continue;
            };
            let to = path.with_file_name(format!("unpacked-layer-{number}.tar"));
            let len = unpack(packed.reader(content(&file, place)?)?, &to, room)?;
            room -= len;
            layers.push(Layer::Unpacked(to, len));
        }
        Ok(Self { config, layers, file })
    }

    /// The tar stream of a layer.
    pub fn content(&self, layer: &Layer) -> Result<Box<dyn Read>, Failure> {
        match layer {
            Layer::Sent(place) => Ok(Box::new(content(&self.file, *place)?)),
            Layer::Unpacked(path, _) => {
                let file = File::open(path).map_err(|error| Error::io("cannot read", path, error))?;
                Ok(Box::new(BufReader::with_capacity(1 << 20, file)))
            }
        }
    }
}

/// How a daemon keeps a layer small.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Gzip,
    Zstd,
}

impl Compression {
    /// By its first bytes, which no tar stream has.
    fn of(file: &File, place: Place) -> Result<Option<Self>, Failure> {
        let mut start = Vec::new();
        let read = content(file, place)?.take(4).read_to_end(&mut start);
        read.map_err(|error| Error::io("cannot read", "the image", error))?;
        Ok(match start.as_slice() {
            [0x1f, 0x8b, ..] => Some(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd] => Some(Self::Zstd),
            _ => None,
        })
    }

    fn reader<'a>(self, packed: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>, Failure> {
        Ok(match self {
            Self::Gzip => Box::new(MultiGzDecoder::new(packed)),
            Self::Zstd => {
                let reader = zstd::Decoder::with_buffer(packed);
                Box::new(reader.map_err(|error| Error::io("cannot read", "the image", error))?)
            }
        })
    }
}

/// Writes what is unpacked to the file `to`, and says how many bytes that are. Fails if they are more than `most`.
fn unpack(mut unpacked: impl Read, to: &Path, most: u64) -> Result<u64, Failure> {
    let write_failed = |error| Failure::from(Error::io("cannot write", to, error));
    let mut file = File::create(to).map_err(write_failed)?;
    let mut buffer = vec![0; 256 << 10];
    let mut len = 0;
    loop {
        let read = unpacked.read(&mut buffer);
        let got =
            read.map_err(|error| bad(format!("a layer that is compressed cannot be unpacked: {error}")))?;
        if got == 0 {
            return Ok(len);
        }
        len += got as u64;
        if len > most {
            let message =
                format!("the layers of the image have more than {most} bytes when they are unpacked");
            return Err(Failure::new(ErrorKind::ProfileTooLarge, message)
                .hint("`max_profile_bytes` of the tenant says how many it may have"));
        }
        file.write_all(&buffer[..got]).map_err(write_failed)?;
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

    /// A file of the daemon with one layer, packed so, and the place of that.
    fn packed(by: Compression, layer: &[u8]) -> (tempfile::TempDir, File, Place) {
        let folder = tempfile::tempdir().unwrap();
        let bytes = match by {
            Compression::Gzip => {
                let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                out.write_all(layer).unwrap();
                out.finish().unwrap()
            }
            Compression::Zstd => zstd::encode_all(layer, 1).unwrap(),
        };
        let path = folder.path().join("image.tar");
        std::fs::write(&path, [b"before".as_slice(), &bytes, b"after"].concat()).unwrap();
        let file = File::open(path).unwrap();
        (folder, file, Place { offset: 6, len: bytes.len() as u64 })
    }

    #[test]
    fn a_compressed_layer_is_unpacked_to_the_bytes_that_it_has_and_no_more_than_allowed() {
        let layer: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
        for by in [Compression::Gzip, Compression::Zstd] {
            let (folder, file, place) = packed(by, &layer);
            assert_eq!(Compression::of(&file, place).unwrap(), Some(by));
            let to = folder.path().join("unpacked.tar");
            let reader = || by.reader(content(&file, place).unwrap()).unwrap();
            assert_eq!(unpack(reader(), &to, layer.len() as u64).unwrap(), layer.len() as u64);
            assert!(std::fs::read(&to).unwrap() == layer);
            let refused = unpack(reader(), &to, layer.len() as u64 - 1).unwrap_err();
            assert_eq!(refused.kind, ErrorKind::ProfileTooLarge);
            let cut = Place { len: place.len - 9, ..place };
            unpack(by.reader(content(&file, cut).unwrap()).unwrap(), &to, u64::MAX).unwrap_err();
        }
        let plain = Place { offset: 0, len: 6 };
        assert_eq!(Compression::of(&packed(Compression::Gzip, b"").1, plain).unwrap(), None);
    }

    #[test]
    fn a_link_leads_to_what_lies_beside_it() {
        assert_eq!(beside("abc/layer.tar", "../def/layer.tar"), "def/layer.tar");
        assert_eq!(beside("layer.tar", "./other.tar"), "other.tar");
    }
}
