"""`checkpoints` has what pstore tells of workspaces as values with types (docs/workspaces.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from .documents import Document


@dataclass(frozen=True)
class WorkspaceState(Document):
    """A workspace, and its pools."""

    directory: str
    tenant_id: str
    profile_id: str
    #: `watched` or `stopped`.
    state: str
    watcher_pid: Optional[int]
    auto_used: int
    auto_max: int
    auto_interval: int
    manual_used: int
    manual_max: int
    #: Automatic checkpoints that failed, and why the last one did.
    failed_checkpoints: int
    last_failure: Optional[str]


@dataclass(frozen=True)
class Checkpoint(Document):
    """A checkpoint of a workspace."""

    #: What to call it: `cp-10`.
    checkpoint: str
    #: The name that it was given; it can be used instead.
    name: Optional[str]
    #: `manual` ones stay until they are deleted; `auto` ones make room for newer ones.
    origin: str
    timestamp: str
    trigger: str
    description: str
    #: Of `manual` ones the digest of the tree: equal digests mean equal trees.
    hash: Optional[str]
    files_count: int
    bytes: int
    #: What was wrong when it was taken, if something was.
    warning: Optional[str]


@dataclass(frozen=True)
class TakenCheckpoint(Document):
    """A checkpoint that was taken, or why there is none."""

    #: `created`, `unchanged`, `too_soon`, `handed_over`, `switched_off` or `failed`.
    outcome: str
    read_files: int
    stored_bytes: int
    elapsed_ms: int
    #: What is wrong, though the agent may go on.
    warning: Optional[str]

    @property
    def checkpoint(self) -> Optional[Checkpoint]:
        """The checkpoint; `None` if none was taken, or the watcher takes it."""
        return _checkpoint(self, "checkpoint")


@dataclass(frozen=True)
class WorkspaceChange(Document):
    """A path that differs between a checkpoint and now."""

    #: `created`, `modified`, `deleted` or `metadata`.
    change: str
    path: str
    size_before: Optional[int]
    size_after: Optional[int]


@dataclass(frozen=True)
class Changes(Document):
    """What differs between a checkpoint and now."""

    @property
    def since(self) -> Checkpoint:
        """The checkpoint."""
        return Checkpoint.of(self.document["since"])

    @property
    def changes(self) -> List[WorkspaceChange]:
        """Each path."""
        return [WorkspaceChange.of(each) for each in self.document["changes"]]

    @property
    def created(self) -> int:
        """How many paths are new."""
        return self._total("created")

    @property
    def modified(self) -> int:
        """How many have another content."""
        return self._total("modified")

    @property
    def deleted(self) -> int:
        """How many are gone."""
        return self._total("deleted")

    def _total(self, name: str) -> int:
        return int(self.document["totals"][name])


@dataclass(frozen=True)
class RevertedPath(Document):
    """A path that a revert changes."""

    #: `restored` or `removed`.
    action: str
    path: str


@dataclass(frozen=True)
class Revert(Document):
    """A revert, or the preview of one."""

    #: `False` for a preview.
    reverted: bool
    #: How many paths are as the checkpoint has them again.
    restored: int
    #: How many were removed, for the checkpoint does not have them.
    removed: int

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint that the files are from."""
        return Checkpoint.of(self.document["checkpoint"])

    @property
    def undo(self) -> Optional[Checkpoint]:
        """The checkpoint of how it was before: revert to it to undo this."""
        return _checkpoint(self, "before")

    @property
    def paths(self) -> List[RevertedPath]:
        """Each path; a server tells the first 500."""
        return [RevertedPath.of(each) for each in self.document["paths"]]


@dataclass(frozen=True)
class PathVersion(Document):
    """How a path was at a checkpoint, or is now."""

    #: `created`, `modified`, `unchanged`, `deleted` or `absent`.
    state: str
    size: Optional[int]

    @property
    def checkpoint(self) -> Optional[Checkpoint]:
        """The checkpoint; `None` for now."""
        return _checkpoint(self, "checkpoint")


@dataclass(frozen=True)
class PathHistory(Document):
    """How a path was, the newest first; a server tells only of checkpoints that have another version than the one before."""

    path: str

    @property
    def versions(self) -> List[PathVersion]:
        """Now, and each checkpoint."""
        return [PathVersion.of(each) for each in self.document["versions"]]


@dataclass(frozen=True)
class DeletedCheckpoint(Document):
    """A checkpoint that was deleted."""

    #: Whether its snapshot went, too; it stays while others need it. A server does not tell.
    snapshot_deleted: Optional[bool]

    @property
    def deleted(self) -> Checkpoint:
        """The checkpoint."""
        return Checkpoint.of(self.document["deleted"])


@dataclass(frozen=True)
class FileEvent(Document):
    """What happened to a file."""

    id: int
    #: `created`, `modified`, `deleted` or `restored`.
    action: str
    path: str
    size: Optional[int]
    timestamp: str


def _checkpoint(value: Document, name: str) -> Optional[Checkpoint]:
    told = value.document.get(name)
    return None if told is None else Checkpoint.of(told)
