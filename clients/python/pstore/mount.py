"""`Mount` is a profile as a directory, until it is committed or given up."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType
from typing import Optional, Type, Union

from .documents import Snapshot, Unmounted
from .door import Capture, Door, Json, Name, Watch
from .errors import InUse, PstoreError, invalid
from .progress import Cancellation, OnProgress

LOG = logging.getLogger("pstore")

#: What becomes of changes when the block of a `with` ends with an exception.
ON_ERROR = ("set_aside", "discard", "keep", "commit")


class Mount:
    """A mounted profile.

    As a context manager it commits the changes at the end and unmounts. If the block ends with an exception, the changes do not become
    current; `on_error` says what becomes of them:

    - `set_aside`: they stay on the host, out of the way. The next mount starts with the current snapshot. `pstore sessions` lists
      them, and `pstore sessions rescue` stores them.
    - `discard`: they are gone.
    - `keep`: they stay, and the next mount on that host continues with them.
    - `commit`: they become the next snapshot all the same.
    """

    def __init__(self, door: Door, name: Name, document: Json, on_error: str, capture: Capture) -> None:
        self._door = door
        self._name = name
        self._on_error = on_error
        self._capture = capture
        #: All that pstore told of the mount (docs/json.md).
        self.document = document
        #: Where the profile is.
        self.path: str = document["mountpoint"]
        #: The session, which keeps the changes until they are committed.
        self.session: str = document["session"]
        #: `locked`, `fork` or `read_only`.
        self.mode: str = document["mode"]
        #: Whether the mount continues an interrupted session.
        self.resumed: bool = bool(document.get("resumed"))
        #: The snapshot below; `None` if the mount began empty.
        self.sha256_prefix: Optional[str] = document.get("sha256_prefix")
        #: The last commit; `None` before the first, or if nothing had changed at the end.
        self.snapshot: Optional[Snapshot] = None
        #: Whether it was unmounted.
        self.has_ended = False

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __truediv__(self, name: str) -> Path:
        return Path(self.path) / name

    def __repr__(self) -> str:
        return f"<pstore.Mount of {self._name} on {self.path}>"

    def commit(
        self,
        *,
        to: Union[str, None] = None,
        force: bool = False,
        capture: Optional[Capture] = None,
        progress: Optional[OnProgress] = None,
        cancel: Optional[Cancellation] = None,
    ) -> Snapshot:
        """Stores the changes as the next snapshot; the mount stays. `to` stores them as a snapshot of another profile: a fork needs it."""
        other = None if to is None else Name.parse(to)
        watch = Watch(progress, cancel)
        done = self._door.commit(self.document, other, force, capture or self._capture, watch)
        self.snapshot = Snapshot.of(done)
        return self.snapshot

    def unmount(
        self,
        changes: Optional[str] = None,
        *,
        capture: Optional[Capture] = None,
        progress: Optional[OnProgress] = None,
        cancel: Optional[Cancellation] = None,
    ) -> Unmounted:
        """Ends the mount. With changes it raises `UncommittedChanges`, unless `changes` is `commit`, `discard` or `keep`."""
        if changes not in (None, "commit", "discard", "keep"):
            raise invalid(f"changes is {changes!r}", "it is commit, discard or keep")
        watch = Watch(progress, cancel)
        try:
            ended = Unmounted.of(self._door.unmount(self.document, changes, capture or self._capture, watch))
        except InUse as error:
            # The commit may have been made all the same.
            committed = error.document.get("committed")
            if committed is not None:
                self.snapshot = Snapshot.of(committed)
            raise
        self.has_ended = True
        if ended.committed is not None:
            self.snapshot = ended.committed
        return ended

    def set_aside(self) -> None:
        """Ends the mount and moves its changes, if there are any, out of the way of later mounts."""
        self._door.set_aside(self.document)
        self.has_ended = True

    def __enter__(self) -> Mount:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        if self.has_ended:
            return
        if error is not None:
            self._give_up(error)
        elif self.mode == "locked":
            self._finish()
        else:
            # What was to be stored of a fork was committed to another profile by now.
            self.unmount("discard")

    def _finish(self) -> None:
        try:
            self.unmount("commit")
        except PstoreError as error:
            if isinstance(error, InUse) and error.document.get("committed") is not None:
                raise
            # Held back, or the lock is lost: the changes stay in the session, as after `pstore run`.
            self._quietly(lambda: self.unmount("keep"))
            raise

    def _give_up(self, error: BaseException) -> None:
        """Ends the mount while an exception is on its way, which must not be lost behind another."""
        changes = "discard" if self.mode != "locked" else self._on_error
        if changes == "set_aside":
            self._quietly(self.set_aside)
        else:
            self._quietly(lambda: self.unmount(changes))

    @staticmethod
    def _quietly(action: object) -> None:
        try:
            assert callable(action)
            action()
        except PstoreError as error:
            LOG.warning("the mount stays: %s", error)
