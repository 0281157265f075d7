"""`documents` has the documents of pstore as values with types.

Each has the fields that programs usually need, and in `document` all that pstore told (docs/json.md). A newer pstore only adds fields.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Mapping, Optional, Type, TypeVar

T = TypeVar("T", bound="Document")


@dataclass(frozen=True)
class Document:
    """What pstore told."""

    #: All its fields.
    document: Mapping[str, Any] = field(repr=False, compare=False)

    @classmethod
    def of(cls: Type[T], document: Mapping[str, Any]) -> T:
        """The value for a document."""
        known: Dict[str, Any] = {
            each.name: document.get(each.name) for each in fields(cls) if each.name != "document"
        }
        return cls(document=document, **known)

    def __getitem__(self, name: str) -> Any:
        return self.document[name]


@dataclass(frozen=True)
class Snapshot(Document):
    """A snapshot that was stored, or was there already."""

    outcome: str
    tenant_id: str
    profile_id: str
    chrome_major_version: int
    snapshot_id: str
    record: str
    #: The first digits of its id, which name it.
    sha256_prefix: str
    #: The snapshot that is current now; `None` if this one was held back.
    active_sha256_prefix: Optional[str]
    uncompressed_size_bytes: int
    stored_bytes: int
    warnings: List[str]

    @property
    def is_new(self) -> bool:
        """Whether anything had changed since the snapshot before."""
        return self.outcome == "stored"


@dataclass(frozen=True)
class ListedSnapshot(Document):
    """A snapshot of a list."""

    sha256_prefix: str
    #: `None` for an archive of another program.
    snapshot_id: Optional[str]
    record: Optional[str]
    #: Whether it is the current one.
    latest: bool
    captured_at_ms: int
    chrome_major_version: int
    uncompressed_size_bytes: int
    stored_bytes: int
    reason: Optional[str]
    labels: Mapping[str, str]
    tags: List[str]
    notes: str
    #: Why it was not made current; else `None`.
    held_back: Optional[str]
    damaged: bool


@dataclass(frozen=True)
class Record(Document):
    """The record of one snapshot."""

    tenant_id: str
    profile_id: str
    chrome_major_version: int
    captured_at_ms: int
    uncompressed_size_bytes: int
    mode: str
    notes: Optional[str]


@dataclass(frozen=True)
class Restored(Document):
    """A snapshot that was written to a directory."""

    #: `restored`; of a load the result in one word, and with any but `success` the directory is empty.
    outcome: str
    #: Why the directory is empty; else `None`.
    reason: Optional[str]
    sha256_prefix: Optional[str]
    target: str
    files: Optional[int]
    uncompressed_size_bytes: Optional[int]
    warnings: List[str]


@dataclass(frozen=True)
class Change(Document):
    """One path that differs."""

    #: `added`, `removed`, `content`, `metadata` or `type`.
    change: str
    path: str
    size_before: Optional[int]
    size_after: Optional[int]


@dataclass(frozen=True)
class Diff(Document):
    """The differences of two snapshots."""

    added: int
    removed: int
    changed: int
    metadata_changed: int
    type_changed: int
    unchanged: int
    new_bytes: int
    gone_bytes: int

    @property
    def changes(self) -> List[Change]:
        """Each path that differs; empty if only the totals were asked for."""
        return [Change.of(each) for each in self.document.get("changes") or []]


@dataclass(frozen=True)
class Rollback(Document):
    """A rollback, or the plan of one."""

    #: `planned`, `rolled_back` or `unchanged`.
    outcome: str
    active_sha256_prefix: str
    flipped_from_sha256_prefix: str
    to_sha256_prefix: str


@dataclass(frozen=True)
class Tagged(Document):
    """The tags of a snapshot."""

    #: `tagged`, `untagged` or `unchanged`.
    outcome: str
    sha256_prefix: str
    tags: List[str]


@dataclass(frozen=True)
class LockState(Document):
    """Who holds the lock of a profile."""

    #: `held`, `expired` or `free`.
    state: str
    holder_run_id: Optional[str]
    holder_host: Optional[str]
    expires_at_ms: Optional[int]
    remaining_ms: Optional[int]


@dataclass(frozen=True)
class Unmounted(Document):
    """A mount that has ended."""

    mountpoint: str
    session: str
    #: Whether the session stays, with its changes.
    kept: bool
    discarded: bool

    @property
    def committed(self) -> Optional[Snapshot]:
        """The snapshot, if the changes were committed."""
        commit = self.document.get("committed")
        return None if commit is None else Snapshot.of(commit)


@dataclass(frozen=True)
class Run(Document):
    """A command that ran on a profile, and its capture."""

    #: 128 and the number of the signal if a signal ended the command.
    command_exit_code: int
    #: The result of the load: `success`, or why the command began with an empty profile.
    load: str
    lock_lost: bool
    snapshot_failed: bool
    warnings: List[str]

    @property
    def snapshot(self) -> Optional[Snapshot]:
        """The snapshot of what the command left; `None` if there is none."""
        stored = self.document.get("snapshot")
        return None if stored is None else Snapshot.of(stored)


@dataclass(frozen=True)
class Event(Document):
    """A change of the pointer or the lock of a profile."""

    event_id: str
    #: `flip`, `rollback`, `held_back`, …; a newer pstore may add kinds.
    kind: str
    at_ms: int
    reason: Optional[str]
    from_sha256_prefix: Optional[str]
    to_sha256_prefix: Optional[str]


@dataclass(frozen=True)
class Entry(Document):
    """A path of a snapshot."""

    path: str
    #: `file`, `directory`, `symlink`, `hard_link`, `fifo`, `socket`, `char_device` or `block_device`.
    kind: str
    size_bytes: Optional[int]
    mode: int
    modified_at_ms: int
    target: Optional[str]
