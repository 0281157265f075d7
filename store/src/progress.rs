//! `Progress` is the trait through which an operation tells how far it is. The operation does not know who watches:
//! a bar, lines for a program, or nobody.

/// The work done since the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tick {
    /// Files that are done.
    pub files: u64,
    /// Of the source or target, including what needed no reading.
    pub bytes: u64,
    /// Bytes that had not been stored before.
    pub new_bytes: u64,
    /// Bytes sent to or fetched from the store.
    pub transferred_bytes: u64,
}

/// Watches one operation. Called from many threads, often; must be quick.
pub trait Progress: Send + Sync {
    /// A stage begins; its total is known.
    fn begin(&self, stage: &'static str, files: u64, bytes: u64);
    /// So much more is done.
    fn tick(&self, tick: Tick);
}

/// Watches nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Progress for Silent {
    fn begin(&self, _stage: &'static str, _files: u64, _bytes: u64) {}
    fn tick(&self, _tick: Tick) {}
}
