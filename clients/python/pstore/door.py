"""`door` says what a way to pstore offers: the program on this host, or a server.

Profiles, mounts and locks are the same through each. A door takes and gives plain documents.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Iterator, List, Mapping, Optional, Sequence, Union

from .errors import invalid
from .progress import Cancellation, OnProgress

#: A document as pstore prints it.
Json = Mapping[str, Any]


def is_name(text: str) -> bool:
    """Whether a tenant or a profile may be called so."""
    return re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}", text) is not None


@dataclass(frozen=True)
class Name:
    """A profile, perhaps of one major version of Chrome."""

    tenant: str
    profile: str
    chrome_major: Optional[int] = None

    @classmethod
    def parse(cls, text: str, chrome_major: Optional[int] = None) -> Name:
        """Takes `acme/alice` apart."""
        tenant, slash, profile = text.partition("/")
        if not slash or not is_name(tenant) or not is_name(profile):
            raise invalid(f"{text!r} is not the name of a profile", "write it as TENANT/PROFILE: acme/alice")
        return cls(tenant, profile, chrome_major)

    def __str__(self) -> str:
        return f"{self.tenant}/{self.profile}"

    def at(self, reference: Optional[str]) -> str:
        """The name of one of its snapshots."""
        return str(self) if reference is None else f"{self}@{reference}"


@dataclass(frozen=True)
class Capture:
    """How changes become a snapshot."""

    #: `cold` ends the browser first; `hot` captures a mount while it runs.
    mode: str = "cold"
    #: Whether a browser that runs is ended; otherwise pstore refuses.
    stop_browser: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)
    #: Retention rules go by it: `manual`, `autosave`, `run_end`, `commit`, …
    reason: Optional[str] = None
    notes: str = ""
    #: Make it current however many cookies are gone, …
    allow_shrink: bool = False
    #: … even if a database is damaged, …
    allow_damaged: bool = False
    #: … or an expected login is missing.
    allow_logged_out: bool = False


@dataclass(frozen=True)
class Watch:
    """Who wants to know how far work is, and may end it."""

    progress: Optional[OnProgress] = None
    cancel: Optional[Cancellation] = None

    def check(self) -> None:
        """Raises `Cancelled` if somebody has cancelled."""
        if self.cancel is not None:
            self.cancel.check()


class Door(ABC):
    """A way to pstore."""

    @abstractmethod
    def snapshot(
        self, name: Name, directory: Path, capture: Capture, lock_token: Optional[str], wait: int, watch: Watch
    ) -> Json:
        """Stores a directory as the next snapshot."""

    @abstractmethod
    def restore(
        self, name: Name, reference: Optional[str], target: Path, replace: bool, load_for_chrome: bool, watch: Watch
    ) -> Json:
        """Writes a snapshot to a directory."""

    @abstractmethod
    def mount(
        self,
        name: Name,
        reference: Optional[str],
        mountpoint: Optional[Path],
        mode: str,
        wait: int,
        options: Sequence[str],
        watch: Watch,
    ) -> Json:
        """Mounts a snapshot; the document has `mountpoint`, `session` and what `commit` and `unmount` need."""

    @abstractmethod
    def commit(self, mount: Json, other: Optional[Name], force: bool, capture: Capture, watch: Watch) -> Json:
        """Stores the changes of a mount."""

    @abstractmethod
    def unmount(self, mount: Json, changes: Optional[str], capture: Capture, watch: Watch) -> Json:
        """Ends a mount."""

    @abstractmethod
    def set_aside(self, mount: Json) -> Json:
        """Ends a mount and moves its changes, if there are any, out of the way of later mounts."""

    @abstractmethod
    def mounts(self) -> List[Json]:
        """Each mount."""

    @abstractmethod
    def run(
        self,
        name: Name,
        command: Sequence[str],
        capture: Capture,
        wait: int,
        options: Sequence[str],
        output: Optional[IO[bytes]],
        watch: Watch,
    ) -> Json:
        """Runs a command on a profile."""

    @abstractmethod
    def list(self, name: Name) -> List[Json]:
        """Each snapshot, the oldest first."""

    @abstractmethod
    def profiles(self, tenant: str) -> List[str]:
        """The names of the tenant's profiles."""

    @abstractmethod
    def show(self, name: Name, reference: Optional[str]) -> Json:
        """The record of a snapshot."""

    @abstractmethod
    def history(self, name: Name, reference: Optional[str]) -> Json:
        """The snapshots that led to one."""

    @abstractmethod
    def diff(self, name: Name, before: str, after: str, totals_only: bool) -> Json:
        """The differences of two snapshots."""

    @abstractmethod
    def rollback(self, name: Name, reference: str, reason: str, confirm: bool, force: bool) -> Json:
        """Makes another snapshot current."""

    @abstractmethod
    def tag(self, name: Name, reference: Optional[str], tag: str, is_added: bool) -> Json:
        """Adds a tag, or removes one."""

    @abstractmethod
    def delete(self, name: Name, reference: str, reason: str, tagged: bool) -> Json:
        """Deletes a snapshot."""

    @abstractmethod
    def entries(self, name: Name, reference: Optional[str], path: str, recursive: bool) -> List[Json]:
        """The paths of a snapshot."""

    @abstractmethod
    def read(self, name: Name, reference: Optional[str], path: str) -> bytes:
        """One file of a snapshot."""

    @abstractmethod
    def acquire(self, name: Name, run_id: Optional[str], ttl: Optional[int], wait: int, watch: Watch) -> Json:
        """Takes the lock."""

    @abstractmethod
    def renew(self, name: Name, token: str) -> Json:
        """Renews the lock."""

    @abstractmethod
    def release(self, name: Name, token: str) -> Json:
        """Gives the lock back."""

    @abstractmethod
    def lock_state(self, name: Name) -> Json:
        """Who holds the lock."""

    @abstractmethod
    def events(self, name: Name, after: Optional[str], follow: bool, watch: Watch) -> Iterator[Json]:
        """The events of a profile, the oldest first; with `follow` without an end."""

    # Workspaces. `place` is a directory; of a server, the name of the workspace's profile.

    @abstractmethod
    def start_workspace(
        self, place: str, profile: Optional[Name], watch: bool, numbers: Mapping[str, Optional[int]]
    ) -> Json:
        """Makes a directory a workspace."""

    @abstractmethod
    def stop_workspace(self, place: str) -> Json:
        """Ends the process that watches it."""

    @abstractmethod
    def workspace_state(self, place: str) -> Json:
        """Whether it is watched, and its pools."""

    @abstractmethod
    def take_checkpoint(self, place: str, name: Optional[str], trigger: str, run_id: str, description: str) -> Json:
        """Takes a checkpoint."""

    @abstractmethod
    def checkpoints(self, place: str) -> List[Json]:
        """Each checkpoint, the newest first."""

    @abstractmethod
    def workspace_changes(
        self, place: str, path: str, since: Optional[str], page: Union[int, str, None], limit: int
    ) -> Json:
        """The paths that differ, from where a page begins; `next_offset` says where the next one does."""

    @abstractmethod
    def revert(self, place: str, path: str, to: Optional[str], preview: bool) -> Json:
        """Gives a path back; all, if it is empty."""

    @abstractmethod
    def path_history(self, place: str, path: str) -> Json:
        """How a path was."""

    @abstractmethod
    def delete_checkpoint(self, place: str, checkpoint: str) -> Json:
        """Deletes a checkpoint."""

    @abstractmethod
    def fork_workspace(self, place: str, target: str, profile: Optional[Name], at: Optional[str]) -> str:
        """Makes a workspace of its own, and returns its place."""

    @abstractmethod
    def file_events(self, place: str, checkpoint: Optional[str], after: int, limit: int) -> Json:
        """What happened to files; `next_after` says where the next page begins."""
