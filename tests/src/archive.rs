//! `archive` runs programs that read archives, as their users would.

use std::{
    collections::BTreeMap,
    fs,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use sha2::Digest;
use store::id::Sha256;

use crate::{
    server,
    tree::{Seen, look_at},
};

pub fn sha256(bytes: &[u8]) -> Sha256 {
    Sha256::from_bytes(sha2::Sha256::digest(bytes).into())
}

/// Everything in an archive, by zstd's own program.
pub fn tar_of(archive: &Path) -> Vec<u8> {
    let ran = Command::new("zstd").arg("-dc").arg(archive).stderr(Stdio::inherit()).output().unwrap();
    assert!(ran.status.success());
    ran.stdout
}

/// The bytes that a decoder gets if it stops after the first frame.
pub fn first_frame(archive: &[u8]) -> Vec<u8> {
    let mut first = Vec::new();
    zstd::Decoder::with_buffer(archive).unwrap().single_frame().read_to_end(&mut first).unwrap();
    first
}

/// A tree as an archive keeps it: holes are zeros there, and special files are missing.
pub fn archived(source: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut seen = look_at(source);
    seen.values_mut().filter(|entry| entry.kind == "file").for_each(|entry| {
        entry.data = if entry.size > 0 { vec![(0, entry.size)] } else { vec![] };
    });
    seen
}

/// Python's ways to decode zstd, and whether they read on after the first frame.
pub const DECODERS: [(&str, bool); 9] = [
    ("zstandard.open(path, 'rb').read()", true),
    ("zstandard.ZstdDecompressor().stream_reader(file).read()", true),
    ("b''.join(iter(lambda s=zstandard.ZstdDecompressor().stream_reader(file): s.read(1000), b''))", true),
    ("copied(zstandard.ZstdDecompressor().copy_stream)", true),
    ("zstandard.ZstdDecompressor().decompress(file.read())", false),
    ("zstandard.ZstdDecompressor().decompressobj().decompress(file.read())", false),
    ("b''.join(zstandard.ZstdDecompressor().read_to_iter(file))", false),
    ("pyzstd.decompress(file.read())", true),
    ("pyzstd.ZstdFile(path).read()", true),
];

/// The SHA-256 of a decoder's output.
pub fn decoded(decoder: &str, archive: &Path) -> String {
    let script = format!(
        "import hashlib, io, sys, pyzstd, zstandard\n\
         path = sys.argv[1]\n\
         file = open(path, 'rb')\n\
         def copied(copy):\n\
         \x20   out = io.BytesIO()\n\
         \x20   copy(file, out)\n\
         \x20   return out.getvalue()\n\
         print(hashlib.sha256({decoder}).hexdigest())\n"
    );
    let ran = Command::new(server::program("python")).args(["-c", &script]).arg(archive).output().unwrap();
    assert!(ran.status.success(), "{decoder}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap().trim().to_owned()
}

/// A program or library that reads tar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    GnuTar,
    BsdTar,
    /// `tarfile` of the standard library.
    Python,
    /// The `tar` crate.
    Rust,
}

impl Reader {
    pub const ALL: [Self; 4] = [Self::GnuTar, Self::BsdTar, Self::Python, Self::Rust];

    /// Unpacks into a new directory, owners and all.
    pub fn unpack(self, archive: &Path, into: &Path) {
        fs::create_dir(into).unwrap();
        match self {
            Self::GnuTar => run(Command::new("tar")
                // It finds a time before 1970 worth a remark, and that a name is no text.
                .args([
                    "--warning=no-timestamp",
                    "--warning=no-unknown-keyword",
                    "--zstd",
                    "--xattrs",
                    "--xattrs-include=user.*",
                    "--numeric-owner",
                    "-xpf",
                ])
                .arg(archive)
                .arg("-C")
                .arg(into)),
            Self::BsdTar => run(Command::new("bsdtar")
                .args(["--numeric-owner", "--xattrs", "-xpf"])
                .arg(archive)
                .arg("-C")
                .arg(into)),
            Self::Python => {
                let script = "import sys, tarfile, zstandard\n\
                              stream = zstandard.ZstdDecompressor().stream_reader(\n\
                              \x20   open(sys.argv[1], 'rb'), read_across_frames=True)\n\
                              with tarfile.open(fileobj=stream, mode='r|') as tar:\n\
                              \x20   tar.extractall(sys.argv[2], numeric_owner=True)\n";
                run(Command::new(server::program("python")).args(["-c", script]).arg(archive).arg(into));
            }
            Self::Rust => {
                let decoder = zstd::Decoder::new(fs::File::open(archive).unwrap()).unwrap();
                let mut tar = tar::Archive::new(decoder);
                tar.set_preserve_permissions(true);
                tar.set_preserve_ownerships(true);
                tar.set_preserve_mtime(true);
                tar.unpack(into).unwrap();
            }
        }
    }

    /// Takes away the attributes that this reader does not restore.
    pub fn forget(self, seen: &mut BTreeMap<PathBuf, Seen>) {
        for (path, entry) in seen {
            if matches!(self, Self::Python | Self::Rust) {
                entry.mtime.1 = 0;
                entry.xattrs.clear();
            }
            let forgets_time = match self {
                Self::GnuTar => false,
                // It takes the part of a second off the wrong side of 1970.
                Self::BsdTar => path.as_os_str().is_empty() || entry.mtime.0 < 0,
                Self::Python => entry.kind == "symlink",
                // What is before 1970 becomes its first second.
                Self::Rust => entry.kind != "file" || entry.mtime.0 <= 1,
            };
            if forgets_time {
                entry.mtime = (0, 0);
            }
        }
    }
}

#[track_caller]
fn run(command: &mut Command) {
    let ran = command.output().unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && stderr.is_empty(), "{command:?}: {}\n{stdout}{stderr}", ran.status);
}
