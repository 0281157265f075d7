//! `Tarball` writes archives, valid and invalid, as other programs might.

use std::io::Write;

use serde_json::{Value, json};
use store::archive::{
    BLOCK_LEN,
    header::{Header, MemberKind},
    padding, pax,
};

/// A tar archive, member by member.
#[derive(Clone, Debug, Default)]
pub struct Tarball(pub Vec<u8>);

impl Tarball {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn file(self, path: &str, content: &[u8]) -> Self {
        let header =
            Header { mode: 0o644, size: content.len() as u64, ..Header::new(path, MemberKind::File) };
        self.member(&header, content)
    }

    pub fn directory(self, path: &str) -> Self {
        self.member(&Header { mode: 0o755, ..Header::new(path, MemberKind::Directory) }, b"")
    }

    pub fn link(self, kind: MemberKind, path: &str, target: &str) -> Self {
        self.member(&Header { link: target.into(), ..Header::new(path, kind) }, b"")
    }

    pub fn special(self, kind: MemberKind, path: &str) -> Self {
        self.member(&Header::new(path, kind), b"")
    }

    /// Records about the next member.
    pub fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let mut body = Vec::new();
        records.iter().for_each(|(key, value)| pax::append(&mut body, key.as_bytes(), value));
        let header = Header { size: body.len() as u64, ..Header::new("pax", MemberKind::Pax) };
        self.member(&header, &body)
    }

    /// A file with holes in GNU's own format: of its `size` bytes only these parts are there.
    pub fn sparse(mut self, path: &str, size: u64, parts: &[(u64, u64)], content: &[u8]) -> Self {
        let len = content.len() as u64;
        let header = Header { mode: 0o644, size: len, ..Header::new(path, MemberKind::GnuSparse) };
        let mut blocks = vec![header.encode()];
        blocks[0][257..265].copy_from_slice(b"ustar  \0");
        put(&mut blocks[0][483..495], size);
        let (mut at, mut end) = (386, 482);
        for (offset, len) in parts {
            let last = blocks.len() - 1;
            if at == end {
                blocks[last][end] = 1;
                blocks.push([0; BLOCK_LEN]);
                (at, end) = (0, 504);
            }
            let block = blocks.last_mut().unwrap();
            put(&mut block[at..at + 12], *offset);
            put(&mut block[at + 12..at + 24], *len);
            at += 24;
        }
        blocks[0][148..156].fill(b' ');
        let sum: u32 = blocks[0].iter().copied().map(u32::from).sum();
        blocks[0][148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend(blocks.concat());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len() + padding(content.len() as u64), 0);
        self
    }

    /// Adds a member. Its header's claims need not be true.
    pub fn member(mut self, header: &Header, content: &[u8]) -> Self {
        self.0.extend_from_slice(&header.encode());
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len() + padding(content.len() as u64), 0);
        self
    }

    /// With the end mark.
    pub fn end(mut self) -> Self {
        self.0.resize(self.0.len() + 2 * BLOCK_LEN, 0);
        self
    }

    pub fn zstd(&self) -> Vec<u8> {
        zstd::encode_all(self.0.as_slice(), 1).unwrap()
    }
}

/// Octal digits and a NUL.
fn put(field: &mut [u8], number: u64) {
    field.copy_from_slice(format!("{number:011o}\0").as_bytes());
}

/// An archive of zeros and files without end, compressed as it is made.
pub fn compressed(write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Vec<u8> {
    let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
    write(&mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// The manifest that the contract wants beside an archive.
pub fn manifest(archive: &[u8], profile: &str) -> Value {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(archive);
    let sha256: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "version": 1,
        "schema": "computer-plane.profile-snapshot",
        "tenant_id": "acme",
        "profile_id": profile,
        "chrome_major_version": 131,
        "archive_sha256": sha256,
        "archive_size_bytes": archive.len(),
        "uncompressed_size_bytes": 4096,
        "captured_at_ms": 1_733_456_512_000_u64,
        "captured_by": { "host": "e2b", "host_run_id": "fc-01", "writer_version": "snapshotter-0.1.0" },
        "captured_in": { "host_region": "us-east-1" },
        "mode": "cold",
        "chrome_uptime_seconds_at_capture": 7,
        "predecessor_sha256": "",
        "notes": "from elsewhere",
    })
}
