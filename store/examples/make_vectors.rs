//! Writes `format-spec/vectors` anew: `cargo run -p pstore-store --example make_vectors`.
//!
//! A change of these files is a change of the format. `README.md` there is left alone.

#[path = "../tests/vectors/mod.rs"]
mod vectors;

use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../format-spec/vectors");
    for old in ["frames", "records", "segments", "steps", "store", "refuse", "tar"] {
        match fs::remove_dir_all(root.join(old)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    for (path, bytes) in vectors::all() {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap_or(&root))?;
        fs::write(path, bytes)?;
    }
    Ok(())
}
