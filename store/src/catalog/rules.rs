//! `Rules` names the rules that keep pointers and packs safe, and switches one off for the tests of the model.
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
    /// Who goes on with a flip that somebody else has meant makes it only if it was not made, and
    /// nobody has moved the pointer since.
    pub flip_once: bool,
    /// An event is stored before the write that carries it is overwritten.
    pub settle_events: bool,
    /// A flip looks at the record after it has read the pointer.
    pub record_after_pointer: bool,
    /// A deletion changes the pointer after it has trashed the record.
    pub touch_on_delete: bool,
    /// An operator's move, or taking the lock away, takes the claim from whoever had it.
    pub drop_lease: bool,
    /// A holder goes on only from what it wrote itself: a machine that was resumed from an image
    /// has a twin with the same claim.
    pub fence_twins: bool,
    /// A lock is given back by replacing what was read, not by deleting whatever is there.
    pub release_by_replacing: bool,
    /// A writer's lease exists before it reads what is condemned: a collection that it
    /// misses sees the lease.
    pub lease_before_condemned: bool,
    /// A writer refers to no pack that is condemned, whatever knows it.
    pub bar_condemned: bool,
    /// A writer makes sure that a pack is there which it knows from elsewhere than a snapshot: what
    /// is gone is named nowhere after a while.
    pub ask_for_packs: bool,
    /// It asks so for the packs of segments too that it takes over from the snapshot it builds on, unread.
    pub ask_for_kept: bool,
    /// It asks after it has read what is condemned: what is there then was not deleted before.
    pub ask_after_condemned: bool,
    /// It looks at the snapshot it builds on after that, too.
    pub base_after_condemned: bool,
    /// And so at the snapshot of an earlier state of what it stores, to whose chunks it refers.
    pub earlier_after_condemned: bool,
    /// A writer looks at the indexes it has used once its lease exists: what a repair that missed the
    /// lease had taken out of them is not referred to.
    pub index_after_lease: bool,
    /// A repair revokes the writes that it finds once it has taken what is lost out of the indexes: they
    /// may have looked at them before.
    pub revoke_after_loss: bool,
    /// A collection lists the writers it has to wait for when what it condemned is visible.
    pub blockers_after_condemned: bool,
    /// A writer that is taken for dead is revoked, so that it can no longer publish.
    pub revoke_blockers: bool,
    /// What is condemned is marked once more before it goes.
    pub mark_again: bool,
    /// What goes is fixed by one replacement of the condemned document; who loses it goes by
    /// what the winner has fixed.
    pub decide_by_swap: bool,
    /// Packs are gone before the document that bars them says so.
    pub bar_until_swept: bool,
    /// A collection reads pins after records: a pin that it misses was made on a record that
    /// it has seen as it was pinned.
    pub pins_after_records: bool,
    /// The records that a revoked write was to replace are touched after it was revoked: what
    /// it has read of them is then no longer what is there.
    pub touch_after_revoking: bool,
    /// Who moves packs makes sure of its lease after it has read the record that it replaces:
    /// a revocation that the look misses comes later, and touches that record.
    pub lease_after_record: bool,
    /// Who moves snapshots in several writes makes sure, each time, of the lease under which the
    /// frames were copied too: a later lease is none that the copies wait for.
    pub lease_of_copies: bool,
    /// A record remembers what its earlier generations needed, and a collection keeps that for
    /// whoever has pinned one of them.
    pub keep_pinned_generations: bool,
    /// Who misses a pack asks once more where the snapshot's chunks are.
    pub follow_moved: bool,
    /// A deletion looks at pins after it has trashed the record.
    pub pins_after_trash: bool,
    /// A reader looks at the record again after it has pinned it.
    pub look_after_pinning: bool,
    /// No two publications have an archive of the same name: a removal that arrives late can
    /// then only hit what was given up.
    pub fresh_archive_names: bool,
    /// A deletion says in the record that archives go before they do: nobody makes it live
    /// again after that.
    pub removal_in_record: bool,
    /// A publication that is given up is said to be so in the record before what has arrived of
    /// it is removed.
    pub abandoned_in_record: bool,
    /// A session has a root on the snapshot it builds on, which outlives its daemon.
    pub root_sessions: bool,
    /// Who makes a profile's first snapshot current looks for its tombstone after its own lock, or
    /// its own record, is there.
    pub look_for_tombstone: bool,
    /// A tombstone is there before pointers are emptied: who finds one empty then finds the tombstone.
    pub tombstone_first: bool,
    /// Events that are put together are stored together before they are removed one by one.
    pub merge_before_removing: bool,
}

impl Rules {
    /// Every rule holds, as it must outside of tests.
    pub const ALL: Self = Self {
        claim: true,
        verify_after_read: true,
        fresh_nonce: true,
        resolve_by_flip_id: true,
        fresh_flip_id: true,
        remember_flips: true,
        flip_once: true,
        settle_events: true,
        record_after_pointer: true,
        touch_on_delete: true,
        drop_lease: true,
        fence_twins: true,
        release_by_replacing: true,
        lease_before_condemned: true,
        bar_condemned: true,
        ask_for_packs: true,
        ask_for_kept: true,
        ask_after_condemned: true,
        base_after_condemned: true,
        earlier_after_condemned: true,
        index_after_lease: true,
        revoke_after_loss: true,
        blockers_after_condemned: true,
        revoke_blockers: true,
        mark_again: true,
        decide_by_swap: true,
        bar_until_swept: true,
        pins_after_records: true,
        touch_after_revoking: true,
        lease_after_record: true,
        lease_of_copies: true,
        keep_pinned_generations: true,
        follow_moved: true,
        pins_after_trash: true,
        look_after_pinning: true,
        fresh_archive_names: true,
        removal_in_record: true,
        abandoned_in_record: true,
        root_sessions: true,
        look_for_tombstone: true,
        tombstone_first: true,
        merge_before_removing: true,
    };
}
