//! The rules that keep the pointer safe, each by name.
//!
//! They always hold. Tests switch one off at a time to show that without it a schedule
//! exists in which something is lost; that is how each of them came to be here.

/// Which rules are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// Whoever takes the lock writes its nonce into the pointer before it does anything
    /// else, so that a holder it replaced can no longer move it.
    pub claim: bool,
    /// The lock is looked at after the pointer was read and before it is replaced: a
    /// takeover that the look misses comes later, and changes what was read.
    pub verify_after_read: bool,
    /// Every attempt to take the lock has a nonce of its own: a lost attempt that arrives
    /// late must not look like the one that was given up.
    pub fresh_nonce: bool,
    /// What became of a write whose answer was lost is read off the flip ids.
    pub resolve_by_flip_id: bool,
    /// Every flip has an id of its own.
    pub fresh_flip_id: bool,
    /// A pointer remembers the flips before it, for writers whose answer was lost.
    pub remember_flips: bool,
    /// An event is stored before the write that carries it is overwritten.
    pub settle_events: bool,
    /// A flip looks at the record after it has read the pointer.
    pub record_after_pointer: bool,
    /// A deletion changes the pointer after it has trashed the record.
    pub touch_on_delete: bool,
    /// An operator's move, or taking the lock away, takes the claim from whoever had it.
    pub drop_lease: bool,
    /// A lock is given back by replacing what was read, not by deleting whatever is there.
    pub release_by_replacing: bool,
}

impl Rules {
    pub const ALL: Self = Self {
        claim: true,
        verify_after_read: true,
        fresh_nonce: true,
        resolve_by_flip_id: true,
        fresh_flip_id: true,
        remember_flips: true,
        settle_events: true,
        record_after_pointer: true,
        touch_on_delete: true,
        drop_lease: true,
        release_by_replacing: true,
    };
}
