//! `file` finds `pstore.toml`, reads it, and checks it to the last key.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read},
    path::{Path, PathBuf},
};

use store::{
    ErrorKind,
    name::{Profile, Tenant},
};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Effective, Layer,
    environment::Environment,
    key::{self, Key, PROGRAM, TENANT},
    kind::Misfit,
    origin::Origin,
};
use crate::failure::Failure;

const NAME: &str = "pstore.toml";
const SYSTEM: &str = "/etc/pstore/pstore.toml";
const VARIABLE: &str = "PSTORE_CONFIG";
const MAX_BYTES: u64 = 1 << 20;
const SHOWN_CHARS: usize = 60;

/// The values of a file, each with its line.
#[derive(Clone, Debug, Default)]
pub(super) struct ConfigFile {
    pub(super) path: PathBuf,
    pub(super) program: Layer,
    pub(super) defaults: Layer,
    pub(super) tenants: BTreeMap<Tenant, Layer>,
    pub(super) profiles: BTreeMap<(Tenant, Profile), Layer>,
}

impl ConfigFile {
    /// The file that is named, else the first of the usual ones that exists.
    pub(super) fn find(flag: Option<&Path>, environment: &Environment) -> Result<Option<Self>, Failure> {
        let flag = flag.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
        if let Some(path) = flag.or_else(|| environment.get(VARIABLE).map(PathBuf::from)) {
            let missing = || {
                Failure::usage(format!("there is no configuration file {}", path.display()))
                    .hint(format!("--config or {VARIABLE} names it"))
            };
            return Self::parse(&path, &read(&path)?.ok_or_else(missing)?).map(Some);
        }
        let own = environment.user_directory("XDG_CONFIG_HOME", ".config");
        let own = own.map(|directory| directory.join("pstore").join(NAME));
        for path in own.into_iter().chain([SYSTEM.into()]) {
            if let Some(text) = read(&path)? {
                return Self::parse(&path, &text).map(Some);
            }
        }
        Ok(None)
    }

    pub(super) fn parse(path: &Path, text: &str) -> Result<Self, Failure> {
        let reader = Reader { path, text };
        let root = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            reader.failure(at, error.message())
        })?;
        let mut file = Self { path: path.to_owned(), ..Self::default() };
        for (name, value) in root.get_ref() {
            match name.get_ref().as_ref() {
                "defaults" => file.defaults = reader.section("defaults", value, &TENANT)?,
                "tenants" => reader.tenants(value, &mut file)?,
                _ => reader.entry("", name, value, &PROGRAM, &mut file.program)?,
            }
        }
        Ok(file)
    }
}

/// The text of a file, if there is one.
fn read(path: &Path) -> Result<Option<String>, Failure> {
    let shown = path.display();
    let failed = |error: io::Error| {
        Failure::new(ErrorKind::Io, format!("cannot read the configuration file {shown}: {error}"))
            .hint("make it readable, or name another with --config; /dev/null is an empty one")
    };
    let file = match fs::File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(Failure::usage(format!("{shown} is longer than 1 MiB, which no configuration file is")));
    }
    let text = String::from_utf8(bytes);
    text.map(Some).map_err(|_| Failure::usage(format!("{shown} is not UTF-8, as TOML has to be")))
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
}

impl Reader<'_> {
    fn tenants(&self, value: &Spanned<DeValue<'_>>, file: &mut ConfigFile) -> Result<(), Failure> {
        for (name, value) in self.table("tenants", value)? {
            let text = name.get_ref().as_ref();
            let tenant: Tenant =
                text.parse().map_err(|error| self.failure(name.span().start, &format!("{error}")))?;
            let mut layer = Layer::new();
            for (key, value) in self.table(&format!("tenants.{text}"), value)? {
                match key.get_ref().as_ref() {
                    "profiles" => self.profiles(&tenant, value, file)?,
                    _ => self.entry("", key, value, &TENANT, &mut layer)?,
                }
            }
            file.tenants.insert(tenant, layer);
        }
        Ok(())
    }

    fn profiles(
        &self,
        tenant: &Tenant,
        value: &Spanned<DeValue<'_>>,
        file: &mut ConfigFile,
    ) -> Result<(), Failure> {
        let above = format!("tenants.{tenant}.profiles");
        for (name, value) in self.table(&above, value)? {
            let text = name.get_ref().as_ref();
            let profile: Profile =
                text.parse().map_err(|error| self.failure(name.span().start, &format!("{error}")))?;
            let section = self.section(&format!("{above}.{text}"), value, &key::PROFILE)?;
            file.profiles.insert((tenant.clone(), profile), section);
        }
        Ok(())
    }

    fn section(
        &self,
        name: &str,
        value: &Spanned<DeValue<'_>>,
        keys: &[&'static Key],
    ) -> Result<Layer, Failure> {
        let mut layer = Layer::new();
        for (key, value) in self.table(name, value)? {
            self.entry("", key, value, keys, &mut layer)?;
        }
        Ok(layer)
    }

    fn entry(
        &self,
        above: &str,
        name: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        keys: &[&'static Key],
        layer: &mut Layer,
    ) -> Result<(), Failure> {
        let full = format!("{above}{}", name.get_ref());
        let below = format!("{full}.");
        if let Some(key) = keys.iter().find(|key| key.name == full) {
            let at = value.span();
            let found = key.kind.of_toml(value.get_ref()).map_err(|misfit| {
                let shown = self.text.get(at.clone()).unwrap_or_default();
                self.misfit(at.start, &full, shown, misfit)
            })?;
            let origin = Origin::File { path: self.path.to_owned(), line: self.line(name.span().start) };
            layer.insert(key.name, Effective { value: Some(found), origin });
            return Ok(());
        }
        if !keys.iter().any(|key| key.name.starts_with(&below)) {
            return Err(self.unknown(name.span().start, above, name.get_ref(), keys));
        }
        for (name, value) in self.table(&full, value)? {
            self.entry(&below, name, value, keys, layer)?;
        }
        Ok(())
    }

    fn table<'v, 'i>(&self, name: &str, value: &'v Spanned<DeValue<'i>>) -> Result<&'v DeTable<'i>, Failure> {
        value.get_ref().as_table().ok_or_else(|| {
            self.failure(
                value.span().start,
                &format!("{name} is no table; write [{name}] on a line of its own"),
            )
        })
    }

    fn misfit(&self, at: usize, name: &str, shown: &str, misfit: Misfit) -> Failure {
        let mut value: String = shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        if let Some((end, _)) = value.char_indices().nth(SHOWN_CHARS) {
            value.truncate(end);
            value.push('…');
        }
        match misfit {
            Misfit::Takes(what) => self.failure(at, &format!("{name} is {value}; it takes {what}")),
            Misfit::Says(what) => self.failure(at, &format!("{name}: {what}")),
        }
    }

    /// A key nobody knows: what was meant is likely near, or at home elsewhere.
    fn unknown(&self, at: usize, above: &str, name: &str, keys: &[&'static Key]) -> Failure {
        let full = format!("{above}{name}");
        let failure = self.failure(at, &format!("there is no setting {full:?}"));
        let elsewhere = |keys: &[&'static Key]| keys.iter().any(|key| key.name == full);
        if elsewhere(&TENANT) {
            return failure.hint(format!("{full} belongs below [defaults] or [tenants.NAME]"));
        }
        if elsewhere(&PROGRAM) {
            return failure.hint(format!("{full} belongs at the top of the file, before all [tables]"));
        }
        let mut known: Vec<&str> = keys.iter().map(|key| key.name).collect();
        // A table's own name may be what was mistyped.
        known.extend(keys.iter().filter_map(|key| Some(key.name.split_once('.')?.0)));
        if above.is_empty() && keys.len() == PROGRAM.len() {
            known.extend(["defaults", "tenants"]);
        }
        match nearest(&full, &known) {
            Some(name) => failure.hint(format!("did you mean {name}?")),
            None => failure.hint("`pstore config show` lists the settings there are"),
        }
    }

    fn failure(&self, at: usize, message: &str) -> Failure {
        let message = message.trim_end();
        Failure::usage(format!("{}:{}: {message}", self.path.display(), self.line(at)))
    }

    fn line(&self, at: usize) -> usize {
        self.text.bytes().take(at).filter(|b| *b == b'\n').count() + 1
    }
}

/// The name a typist most likely meant.
fn nearest<'a>(typed: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |name: &&'a str| {
        let last = name.rsplit('.').next().unwrap_or(name);
        strsim::damerau_levenshtein(typed, name).min(strsim::damerau_levenshtein(typed, last))
    };
    let name = known.iter().copied().min_by_key(distance)?;
    (distance(&name) <= 1 + typed.chars().count() / 4).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{key, kind::Value};

    fn parse(text: &str) -> Result<ConfigFile, Failure> {
        ConfigFile::parse(Path::new("/x/pstore.toml"), text)
    }

    #[test]
    fn values_are_found_with_their_lines() {
        let file = parse(
            "store = \"file:///s\"\n\n[s3]\nregion = \"eu\"\n[defaults]\nmodes = [\"cold\"]\n\
             [defaults.retention]\nkeep = \"one\"\nmax_bytes = \"1GiB\"\n[tenants.acme]\narchive_level = 0x13\n",
        )
        .unwrap();
        let at = |layer: &Layer, key: &Key| {
            let Effective { value, origin } = layer.get(key.name).cloned().unwrap();
            let Origin::File { line, .. } = origin else { panic!("{origin}") };
            (value.unwrap(), line)
        };
        assert_eq!(at(&file.program, &key::STORE), (Value::Text("file:///s".to_owned()), 1));
        assert_eq!(at(&file.program, &key::S3_REGION), (Value::Text("eu".to_owned()), 4));
        assert_eq!(at(&file.defaults, &key::KEEP), (Value::Text("one".to_owned()), 8));
        assert_eq!(at(&file.defaults, &key::MAX_BYTES), (Value::Number(1 << 30), 9));
        let acme = &file.tenants[&"acme".parse().unwrap()];
        assert_eq!(at(acme, &key::ARCHIVE_LEVEL), (Value::Number(19), 11));
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line_and_what_would_be_right() {
        for (text, message, hint) in [
            ("a = 1\na = 2", ":2: duplicate key", ""),
            ("stor = \"x\"", ":1: there is no setting \"stor\"", "did you mean store?"),
            ("[default]\nx = 1", ":1: there is no setting \"default\"", "did you mean defaults?"),
            ("[s3]\nendpiont = 1", ":2: there is no setting \"s3.endpiont\"", "did you mean s3.endpoint?"),
            ("endpoint = 1", ":1: there is no setting \"endpoint\"", "did you mean s3.endpoint?"),
            ("lock_ttl_seconds = 9", "\"lock_ttl_seconds\"", "below [defaults] or [tenants.NAME]"),
            ("[defaults]\n\nlock_ttl_second = 9", ":3: ", "did you mean lock_ttl_seconds?"),
            ("[tenants.a]\nretension.keep = 9", ":2: ", "did you mean retention?"),
            ("[tenants.a]\nstore = \"file:///\"", ":2: ", "at the top of the file"),
            ("frobnicate = 9", ":1: ", "`pstore config show` lists"),
            ("[defaults]\narchive = \"never\"", "archive is \"never\"; it takes on-demand or always", ""),
            ("[defaults]\narchive_level = -1", "archive_level is -1; it takes", ""),
            ("[defaults]\nmodes = \"cold\"", "modes is \"cold\"; it takes a list of cold and hot", ""),
            ("[defaults]\nlock_ttl_seconds = \"5\"", "a whole number of seconds from 5 to 86400", ""),
            ("[s3]\npath_style = 1", ":2: s3.path_style is 1; it takes true or false", ""),
            ("s3 = 7", ":1: s3 is no table", ""),
            ("tenants = 7", ":1: tenants is no table", ""),
            ("cache_dir = \"here\"", ":1: cache_dir is \"here\"; it takes an absolute path", ""),
            ("store = \"/srv\"", ":1: store: \"/srv\" names no store", ""),
            ("[tenants.\".x\"]", ":1: invalid tenant name \".x\": it starts with a dot", ""),
        ] {
            let failure = parse(text).unwrap_err();
            let said = failure.hint.unwrap_or_default();
            assert!(failure.message.starts_with("/x/pstore.toml:"), "{}", failure.message);
            assert!(failure.message.contains(message), "{text}: {}", failure.message);
            assert!(said.contains(hint), "{text}: {said}");
        }
    }
}
