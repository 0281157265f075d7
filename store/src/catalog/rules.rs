//! `Rules` names the rules that keep pointers and packs safe, and switches one off for the tests of the model.
//!
//! They always hold. Tests switch one off at a time to show that without it a schedule
//! exists in which something is lost; that is how each of them came to be here.

/// The rules that are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// A process that takes the lock writes its nonce into the pointer before it does anything
    /// else, so that a holder it replaced can no longer move it.
    pub claim: bool,
    /// The lock is looked at after the pointer was read and before it is replaced: a
    /// takeover that the look misses comes later, and changes the pointer that was read.
    pub verify_after_read: bool,
    /// Every attempt to take the lock has a nonce of its own: a lost attempt that arrives
    /// late must not look like the one that was given up.
    pub fresh_nonce: bool,
    /// A writer whose answer was lost learns the outcome from the flip ids.
    pub resolve_by_flip_id: bool,
    /// Every flip has an id of its own.
    pub fresh_flip_id: bool,
    /// A pointer remembers the flips before it, for writers whose answer was lost.
    pub remember_flips: bool,
    /// A process that goes on with the flip of another makes it only if it was not made, and
    /// nobody has moved the pointer since.
    pub flip_once: bool,
    /// An event is stored before the write that carries it is overwritten.
    pub settle_events: bool,
    /// A flip looks at the record after it has read the pointer.
    pub record_after_pointer: bool,
    /// A deletion changes the pointer after it has trashed the record.
    pub touch_on_delete: bool,
    /// An operator's move, or taking the lock away, ends the present claim.
    pub drop_lease: bool,
    /// A holder goes on only from its own writes: a machine that was resumed from an image
    /// has a twin with the same claim.
    pub fence_twins: bool,
    /// A holder gives a lock back by replacing the version that it read, not by deleting the present one.
    pub release_by_replacing: bool,
    /// A writer's lease exists before it reads the condemned documents: a collection that it
    /// misses sees the lease.
    pub lease_before_condemned: bool,
    /// A writer refers to no condemned pack, whichever index or snapshot names it.
    pub bar_condemned: bool,
    /// A writer that knows a pack from elsewhere than a snapshot makes sure that the pack is there:
    /// after a while no document names a pack that is gone.
    pub ask_for_packs: bool,
    /// It does so too for the packs of segments that it takes over, unread, from its base.
    pub ask_for_kept: bool,
    /// It does so after it has read the condemned documents: a pack that is there then was not deleted.
    pub ask_after_condemned: bool,
    /// It reads the record of its base after them, too.
    pub base_after_condemned: bool,
    /// It also reads, after them, the record of an earlier state of the same work, to whose chunks it refers.
    pub earlier_after_condemned: bool,
    /// A writer looks at its indexes again once its lease exists: it must not refer to chunks that
    /// a repair, which missed the lease, has taken out of them.
    pub index_after_lease: bool,
    /// A repair takes lost chunks out of the indexes and then revokes the writes that it finds: they
    /// may have read the indexes before.
    pub revoke_after_loss: bool,
    /// A collection lists its blockers once its condemned document is visible.
    pub blockers_after_condemned: bool,
    /// A writer that is taken for dead is revoked, so that it can no longer publish.
    pub revoke_blockers: bool,
    /// A collection marks the roots once more before it deletes condemned packs.
    pub mark_again: bool,
    /// One replacement of the condemned document fixes the packs to delete; a collection that loses it
    /// follows the winner's list.
    pub decide_by_swap: bool,
    /// Packs are gone before the document that bars them says so.
    pub bar_until_swept: bool,
    /// A collection reads pins after records: a pin that it misses was placed on a record that
    /// it has read in the state that was pinned.
    pub pins_after_records: bool,
    /// After a write is revoked, the records that it was to replace are touched: its versions of them
    /// are then out of date.
    pub touch_after_revoking: bool,
    /// A write that moves packs confirms its lease after it has read the record that it replaces:
    /// a revocation that the look misses comes later, and touches that record.
    pub lease_after_record: bool,
    /// A repack that moves snapshots in several writes confirms, each time, the lease under which it copied
    /// the frames: collections do not wait for the copies on account of a later lease.
    pub lease_of_copies: bool,
    /// A record lists the packs that its earlier generations needed, and a collection keeps them for
    /// readers that have pinned one of those generations.
    pub keep_pinned_generations: bool,
    /// A reader that misses a pack reads the record once more, for the present locations of the chunks.
    pub follow_moved: bool,
    /// A deletion looks at pins after it has trashed the record.
    pub pins_after_trash: bool,
    /// A reader looks at the record again after it has pinned it.
    pub look_after_pinning: bool,
    /// No two publications have an archive of the same name: a removal that arrives late can
    /// then only hit an archive that was given up.
    pub fresh_archive_names: bool,
    /// A deletion notes in the record that its archives go, and then removes them: nobody makes the
    /// record live again after that.
    pub removal_in_record: bool,
    /// A publication that is given up is noted in the record before its uploaded part is removed.
    pub abandoned_in_record: bool,
    /// A session has a root on the snapshot it builds on, which outlives its daemon.
    pub root_sessions: bool,
    /// A process that makes a profile's first snapshot current looks for its tombstone after its own lock,
    /// or its own record, is there.
    pub look_for_tombstone: bool,
    /// A tombstone is there before pointers are emptied: a process that finds one empty finds the tombstone.
    pub tombstone_first: bool,
    /// Merged events are stored together before their parts are removed one by one.
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
