"""`Profile` does everything with one profile: capture, load, mount, look, move, lock."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Iterator, List, Optional, Sequence, Union

from .documents import (
    Diff,
    Document,
    Entry,
    Event,
    ListedSnapshot,
    LockState,
    Record,
    Restored,
    Rollback,
    Run,
    Snapshot,
    Tagged,
)
from .door import Capture, Door, Name, Watch
from .errors import invalid
from .lock import Lock
from .mount import ON_ERROR, Mount
from .progress import Cancellation, OnProgress

PathLike = Union[str, "os.PathLike[str]"]


class Profile:
    """One profile of a tenant.

    `at` of a method names a snapshot as after the `@` on a command line: first digits of its id, a tag, `latest~1` or a time
    (docs/names.md). Without it, the current one is meant.
    """

    def __init__(self, door: Door, name: Union[str, Name], chrome_major: Optional[int] = None) -> None:
        self._door = door
        self._name = name if isinstance(name, Name) else Name.parse(name, chrome_major)

    @property
    def name(self) -> str:
        """`TENANT/PROFILE`."""
        return str(self._name)

    @property
    def chrome_major(self) -> Optional[int]:
        """The major version of Chrome; `None` for the newest that has snapshots."""
        return self._name.chrome_major

    def __repr__(self) -> str:
        return f"<pstore.Profile {self._name}>"

    def snapshot(
        self,
        directory: PathLike,
        *,
        capture: Capture = Capture(),
        lock_token: Optional[str] = None,
        wait: int = 0,
        progress: Optional[OnProgress] = None,
        cancel: Optional[Cancellation] = None,
    ) -> Snapshot:
        """Stores a directory as the next snapshot. `wait` waits so many seconds for another holder of the lock."""
        watch = Watch(progress, cancel)
        return Snapshot.of(self._door.snapshot(self._name, Path(directory), capture, lock_token, wait, watch))

    def restore(
        self,
        target: PathLike,
        *,
        at: Optional[str] = None,
        replace: bool = False,
        load: bool = False,
        progress: Optional[OnProgress] = None,
        cancel: Optional[Cancellation] = None,
    ) -> Restored:
        """Writes a snapshot to a directory, every byte verified. `replace` replaces what is there.

        With `load`, it is loaded for the Chrome of this profile (`chrome_major`): if it does not fit, the directory is empty, and
        `outcome` says why.
        """
        if load and self._name.chrome_major is None:
            raise invalid("load needs the version of Chrome", "name it: pstore.profile(NAME, chrome_major=131)")
        watch = Watch(progress, cancel)
        return Restored.of(self._door.restore(self._name, at, Path(target), replace, load, watch))

    def mount(
        self,
        path: Optional[PathLike] = None,
        *,
        at: Optional[str] = None,
        read_only: bool = False,
        wait: int = 0,
        on_error: str = "set_aside",
        capture: Capture = Capture(),
        options: Sequence[str] = (),
        progress: Optional[OnProgress] = None,
        cancel: Optional[Cancellation] = None,
    ) -> Mount:
        """Locks and mounts the profile, on a new directory unless `path` names one.

        As a context manager the mount is committed at the end; `on_error` says what becomes of changes when the block ends with an
        exception (see `Mount`). `options` are more options of `pstore mount`.
        """
        mode = "read_only" if read_only else "locked"
        return self._mount(path, at, mode, wait, on_error, capture, options, Watch(progress, cancel))

    def fork(
        self,
        path: Optional[PathLike] = None,
        *,
        at: Optional[str] = None,
        capture: Capture = Capture(),
        options: Sequence[str] = (),
        progress: Optional[OnProgress] = None,
        cancel: Optional[Cancellation] = None,
    ) -> Mount:
        """Mounts it without the lock, for a try. Its changes are dropped at the end, unless `Mount.commit(to=…)` stored them elsewhere."""
        return self._mount(path, at, "fork", 0, "discard", capture, options, Watch(progress, cancel))

    def _mount(
        self,
        path: Optional[PathLike],
        at: Optional[str],
        mode: str,
        wait: int,
        on_error: str,
        capture: Capture,
        options: Sequence[str],
        watch: Watch,
    ) -> Mount:
        if on_error not in ON_ERROR:
            raise invalid(f"on_error is {on_error!r}", "it is one of " + ", ".join(ON_ERROR))
        point = None if path is None else Path(path)
        document = self._door.mount(self._name, at, point, mode, wait, options, watch)
        mount = Mount(self._door, self._name, document, on_error, capture)
        if watch.cancel is not None and watch.cancel.is_cancelled:
            # It was ready before it could be ended; nobody will use it.
            mount.unmount("keep" if mode == "locked" else "discard")
            watch.check()
        return mount

    def run(
        self,
        command: Sequence[PathLike],
        *,
        capture: Capture = Capture(reason="run_end"),
        wait: int = 0,
        options: Sequence[str] = (),
        output: Optional[IO[bytes]] = None,
        cancel: Optional[Cancellation] = None,
    ) -> Run:
        """Locks, mounts, runs a command, captures, unlocks. `{profile}` in an argument is the path of the profile.

        What the command prints goes to `output`, a file; without it, to the log of this package.
        """
        words = [os.fspath(word) for word in command]
        return Run.of(self._door.run(self._name, words, capture, wait, options, output, Watch(None, cancel)))

    def list(self) -> List[ListedSnapshot]:
        """Its snapshots, the oldest first."""
        return [ListedSnapshot.of(each) for each in self._door.list(self._name)]

    def current(self) -> Optional[ListedSnapshot]:
        """The snapshot that is current; `None` if there is none."""
        return next((each for each in reversed(self.list()) if each.latest), None)

    def show(self, at: Optional[str] = None) -> Record:
        """The record of a snapshot."""
        return Record.of(self._door.show(self._name, at))

    def history(self, at: Optional[str] = None) -> List[Document]:
        """The snapshots that led to one, the newest first."""
        return [Document.of(each) for each in self._door.history(self._name, at)["snapshots"]]

    def diff(self, before: str, after: str = "latest", *, totals_only: bool = False) -> Diff:
        """What changed between two snapshots."""
        return Diff.of(self._door.diff(self._name, before, after, totals_only))

    def rollback(self, to: str, *, reason: str = "", confirm: bool = True, force: bool = False) -> Rollback:
        """Makes another snapshot current. Without `confirm` it only says what would change."""
        return Rollback.of(self._door.rollback(self._name, to, reason, confirm, force))

    def tag(self, tag: str, *, at: Optional[str] = None) -> Tagged:
        """Gives a snapshot a name, so that it is kept."""
        return Tagged.of(self._door.tag(self._name, at, tag, True))

    def untag(self, tag: str, *, at: Optional[str] = None) -> Tagged:
        """Takes the name away."""
        return Tagged.of(self._door.tag(self._name, tag if at is None else at, tag, False))

    def delete(self, at: str, *, reason: str = "", tagged: bool = False) -> Document:
        """Deletes a snapshot that is not the current one."""
        return Document.of(self._door.delete(self._name, at, reason, tagged))

    def entries(self, path: str = "", *, at: Optional[str] = None, recursive: bool = False) -> List[Entry]:
        """The paths of a snapshot, in a directory or below it."""
        return [Entry.of(each) for each in self._door.entries(self._name, at, path, recursive)]

    def read(self, path: str, *, at: Optional[str] = None) -> bytes:
        """One file of a snapshot, every byte verified."""
        return self._door.read(self._name, at, path)

    def lock(
        self,
        *,
        run_id: Optional[str] = None,
        ttl: Optional[int] = None,
        wait: int = 0,
        cancel: Optional[Cancellation] = None,
    ) -> Lock:
        """Takes the lock, and renews it until it is given back. `ttl` is its life in seconds without a renewal."""
        watch = Watch(None, cancel)
        lock = Lock(self._door, self._name, self._door.acquire(self._name, run_id, ttl, wait, watch))
        if cancel is not None and cancel.is_cancelled:
            lock.release()
            cancel.check()
        return lock

    def lock_state(self) -> LockState:
        """Who holds the lock."""
        return LockState.of(self._door.lock_state(self._name))

    def events(
        self, *, after: Optional[str] = None, follow: bool = False, cancel: Optional[Cancellation] = None
    ) -> Iterator[Event]:
        """What happened to its pointer and lock, the oldest first; those after the event `after`. With `follow` it waits for more."""
        for each in self._door.events(self._name, after, follow, Watch(None, cancel)):
            yield Event.of(each)
