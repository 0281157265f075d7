//! `pstore cat`

use std::{
    io::{self, IsTerminal, Write},
    path::PathBuf,
};

use engine::{failure::Failure, text::path};
use serde_json::Value;
use store::{ErrorKind, ops::read::browse};

use super::{Engine, inside};
use crate::{answer::Answer, args::CatArgs};

pub(super) async fn run(engine: Engine, args: &CatArgs) -> Result<Answer, Failure> {
    if engine.observer.owns_stdout() {
        let message = "stdout is the file, and has no room for --json";
        return Err(Failure::usage(message).hint("`pstore ls --json` tells about a file"));
    }
    let (reference, file) = (args.snapshot.reference()?, inside::path(&args.path)?);
    let (tenant, lineage) = engine.lineage_to_judge(&args.snapshot.lineage()).await?;
    let record = engine.snapshot(&tenant, &lineage, reference).await?;
    let shown = PathBuf::from("stdout");
    let written = match io::stdout().is_terminal() {
        true => browse::write(&tenant, &record, &file, (Plain::new(io::stdout()), shown)).await,
        false => browse::write(&tenant, &record, &file, (io::stdout(), shown)).await,
    };
    match written {
        Ok(_) => Ok(Answer::new(Value::Null, String::new())),
        // Whoever reads has seen enough.
        Err(store::Error::Io { source, .. }) if source.kind() == io::ErrorKind::BrokenPipe => {
            Ok(Answer::new(Value::Null, String::new()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Err(inside::elsewhere(&record, error)),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Err(Failure::from(error).hint(format!(
            "`pstore ls {}@{} -l` tells what each name is",
            lineage.name,
            record.sha256_prefix()
        ))),
        Err(error) if error.to_string().contains(NOT_PLAIN) => Err(Failure::usage(NOT_PLAIN).hint(format!(
            "`pstore cat {}@{} {} > FILE` writes it to a file",
            lineage.name,
            record.sha256_prefix(),
            path::shown(file.as_bytes())
        ))),
        Err(error) => Err(error.into()),
    }
}

const NOT_PLAIN: &str = "the file holds bytes that would make a terminal do things";

/// Lets text through and nothing that a terminal obeys.
struct Plain<W> {
    out: W,
    /// The last byte was the first of two that could be a control character.
    is_between: bool,
}

impl<W> Plain<W> {
    fn new(out: W) -> Self {
        Self { out, is_between: false }
    }

    fn is_plain(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| {
            let is_second = std::mem::replace(&mut self.is_between, *byte == 0xc2);
            match byte {
                b'\n' | b'\t' | b'\r' => true,
                0..0x20 | 0x7f => false,
                0x80..0xa0 => !is_second,
                _ => true,
            }
        })
    }
}

impl<W: Write> Write for Plain<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.is_plain(bytes) {
            return Err(io::Error::other(NOT_PLAIN));
        }
        self.out.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_gets_text_and_no_commands() {
        let shown = |parts: &[&[u8]]| {
            let mut out = Plain::new(Vec::new());
            parts.iter().try_for_each(|part| out.write_all(part)).is_ok().then_some(out.out)
        };
        assert_eq!(shown(&["Ünï\t日本\r\n".as_bytes()]), Some("Ünï\t日本\r\n".as_bytes().to_vec()));
        for wrong in [&b"\x1b[31m"[..], b"a\0", b"\x07", "\u{9b}31m".as_bytes(), b"\x7f"] {
            assert_eq!(shown(&[b"text", wrong]), None, "{wrong:?}");
        }
        assert_eq!(shown(&[b"\xc2", b"\x9b"]), None);
    }
}
