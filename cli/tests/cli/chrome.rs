//! `chrome` writes files as Chrome leaves them, as far as tests need them.

use std::{fs, path::Path, process::Command};

const COOKIES: &str = "
import sqlite3, sys
d = sqlite3.connect(sys.argv[1])
d.executescript(sys.argv[2])
d.commit()";

/// A LevelDB with one log, in which each key has the value `hush`.
const LEVELDB: &str = "
import os, struct, sys
folder, keys = sys.argv[1], [key.encode().replace(b'%00', b'\\0') for key in sys.argv[2:]]
def crc(data):
    c = 0xffffffff
    for byte in data:
        c ^= byte
        for _ in range(8):
            c = c >> 1 ^ (0x82f63b78 if c & 1 else 0)
    return c ^ 0xffffffff
def log(record):
    c = crc(b'\\1' + record)
    masked = ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
    return struct.pack('<IHB', masked, len(record), 1) + record
def write(name, data):
    with open(os.path.join(folder, name), 'wb') as file:
        file.write(data)
os.makedirs(folder, exist_ok=True)
comparator = b'leveldb.BytewiseComparator'
edit = bytes([1, len(comparator)]) + comparator + bytes([2, 3, 9, 0, 3, 4, 4, 0])
changes = b''.join(bytes([1, len(key)]) + key + bytes([4]) + b'hush' for key in keys)
write('CURRENT', b'MANIFEST-000001\\n')
write('MANIFEST-000001', log(edit))
write('000003.log', log(struct.pack('<QI', 1, len(keys)) + changes))";

fn python(script: &str, arguments: &[&str]) {
    let made = Command::new("python3").args(["-c", script]).args(arguments).status();
    assert!(made.unwrap().success());
}

/// A database of these cookies: host, name, value, encrypted value, path and when they lapse, as Chrome
/// counts.
pub fn cookies(path: &Path, rows: &str) {
    let table = "CREATE TABLE cookies (host_key TEXT, name TEXT, value TEXT, encrypted_value BLOB, path TEXT, expires_utc INTEGER);";
    let _ = fs::remove_file(path);
    let rows = match rows {
        "" => String::new(),
        rows => format!("INSERT INTO cookies VALUES {rows};"),
    };
    python(COOKIES, &[path.to_str().unwrap(), &format!("{table} {rows}")]);
}

/// The Local Storage of a profile, with these keys.
pub fn local_storage(profile: &Path, keys: &[&str]) {
    let folder = profile.join("Local Storage/leveldb");
    // No argument holds a zero byte.
    let keys: Vec<String> = keys.iter().map(|key| key.replace('\0', "%00")).collect();
    let keys = keys.iter().map(String::as_str);
    python(LEVELDB, &[folder.to_str().unwrap()].into_iter().chain(keys).collect::<Vec<_>>());
}
