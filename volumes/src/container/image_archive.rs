//! `ImageArchive` finds what is in the file that `docker save` writes: the image's configuration and its layers.

use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
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

/// Where the content of a layer is, which is a tar stream that is not compressed.
#[derive(Clone, Debug)]
pub(super) enum LayerPlace {
    /// In the archive.
    Within(Place),
    /// In a file beside it, with this length: the daemon keeps the layer compressed.
    Beside(PathBuf, u64),
}

impl LayerPlace {
    /// How long it is.
    pub fn len(&self) -> u64 {
        match self {
            Self::Within(place) => place.len,
            Self::Beside(_, len) => *len,
        }
    }
}

/// An image as `docker save` wrote it.
#[derive(Debug)]
pub(super) struct ImageArchive {
    file: File,
    /// The bytes of the configuration.
    pub config: Vec<u8>,
    /// The layers, the lowest first.
    pub layers: Vec<LayerPlace>,
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
    /// Opens the file at `path`. Layers that the daemon has compressed are written to files in `beside`, none longer than `most`.
    pub fn open(path: &Path, beside_it: &Path, most: u64) -> Result<Self, Failure> {
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
        let mut layers = Vec::new();
        for (number, name) in listed.layers.iter().enumerate() {
            let plain = beside_it.join(format!("layer-{number}.tar"));
            layers.push(layer(&file, find(name)?, &plain, most)?);
        }
        Ok(Self { config, layers, file })
    }

    /// The content of a layer.
    pub fn content(&self, layer: &LayerPlace) -> Result<Box<dyn Read>, Failure> {
        Ok(match layer {
            LayerPlace::Within(place) => Box::new(content(&self.file, *place)?),
            LayerPlace::Beside(path, _) => {
                let file = File::open(path).map_err(|error| Error::io("cannot read", path, error))?;
                Box::new(BufReader::with_capacity(1 << 20, file))
            }
        })
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

/// Layers are stored as tar streams, so that equal parts of them are stored once. One that is compressed is written to the file
/// `plain`.
fn layer(file: &File, place: Place, plain: &Path, most: u64) -> Result<LayerPlace, Failure> {
    let failed = |error| Failure::from(Error::io("cannot read", "a layer of the image", error));
    let mut start = Vec::new();
    content(file, place)?.take(4).read_to_end(&mut start).map_err(failed)?;
    let compressed = content(file, place)?;
    let stream: Box<dyn Read> = match start.as_slice() {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(compressed)),
        [0x28, 0xb5, 0x2f, 0xfd] => {
            Box::new(zstd::stream::read::Decoder::with_buffer(compressed).map_err(failed)?)
        }
        _ => return Ok(LayerPlace::Within(place)),
    };
    let mut out = File::create(plain).map_err(|error| Error::io("cannot write", plain, error))?;
    // What a few bytes expand to has no natural end.
    let len = io::copy(&mut stream.take(most.saturating_add(1)), &mut out).map_err(failed)?;
    if len > most {
        return Err(bad(format!("a layer has more than {most} bytes")));
    }
    Ok(LayerPlace::Beside(plain.to_owned(), len))
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

    /// A `docker save` of one image whose layers the daemon keeps in these forms.
    fn saved(layers: &[Vec<u8>]) -> Vec<u8> {
        use std::io::Write;

        use store::archive::{
            header::{Header, MemberKind},
            members::END,
            padding,
        };
        let names: Vec<String> = (0..layers.len()).map(|number| format!("blobs/sha256/{number}")).collect();
        let manifest =
            serde_json::json!([{ "Config": "config", "RepoTags": null, "Layers": names }]).to_string();
        let mut members = vec![("config", b"{}".to_vec()), ("manifest.json", manifest.into_bytes())];
        members.extend(names.iter().map(String::as_str).zip(layers.iter().cloned()));
        let mut out = Vec::new();
        for (name, content) in members {
            let header = Header { size: content.len() as u64, ..Header::new(name, MemberKind::File) };
            out.write_all(&header.encode()).unwrap();
            out.write_all(&content).unwrap();
            out.resize(out.len() + padding(content.len() as u64), 0);
        }
        out.write_all(&END).unwrap();
        out
    }

    #[test]
    fn a_layer_is_the_same_however_the_daemon_has_compressed_it() {
        use std::io::Write;

        let plain: Vec<u8> = (0..200_000_u32).flat_map(|number| (number % 1000).to_le_bytes()).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let forms = [plain.clone(), gzip.finish().unwrap(), zstd::encode_all(&plain[..], 3).unwrap()];
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.tar");
        std::fs::write(&path, saved(&forms)).unwrap();
        let image = ImageArchive::open(&path, folder.path(), plain.len() as u64).unwrap();
        for layer in &image.layers {
            let mut content = Vec::new();
            image.content(layer).unwrap().read_to_end(&mut content).unwrap();
            assert!(content == plain && layer.len() == plain.len() as u64, "{layer:?}");
        }
        // A few bytes may expand to any number.
        let other = tempfile::tempdir().unwrap();
        let failure = ImageArchive::open(&path, other.path(), 1000).unwrap_err();
        assert!(failure.message.contains("more than 1000 bytes"), "{}", failure.message);
    }

    #[test]
    fn a_link_leads_to_what_lies_beside_it() {
        assert_eq!(beside("abc/layer.tar", "../def/layer.tar"), "def/layer.tar");
        assert_eq!(beside("layer.tar", "./other.tar"), "other.tar");
    }
}
