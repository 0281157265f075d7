"""`aio` has profiles, mounts, locks and workspaces for asyncio. Nothing here blocks the event loop.

A task that is cancelled ends the work that it waits for, and waits until that has ended: no mount, lock or program is left behind.
"""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from types import TracebackType
from typing import (
    IO,
    AsyncIterator,
    List,
    Optional,
    Sequence,
    Type,
    Union,
)

from .checkpoints import (
    Changes,
    Checkpoint,
    DeletedCheckpoint,
    FileEvent,
    PathHistory,
    Revert,
    TakenCheckpoint,
    WorkspaceState,
)
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
    Unmounted,
)
from .door import Capture, Door
from .lock import Lock as BlockingLock
from .mount import Mount as BlockingMount
from .profile_handle import Profile as BlockingProfile
from .progress import Cancellation, OnProgress
from .tasks import Managed, Pending, call, in_loop
from .workspace import Workspace as BlockingWorkspace

__all__ = ["Lock", "Mount", "Profile", "Workspace", "profile", "workspace"]

PathLike = Union[str, "os.PathLike[str]"]


class Mount(Managed):
    """A mounted profile; see `pstore.Mount`."""

    def __init__(self, mount: BlockingMount) -> None:
        self._mount = mount

    @property
    def path(self) -> str:
        """Where the profile is."""
        return self._mount.path

    @property
    def session(self) -> str:
        """The session, which keeps the changes until they are committed."""
        return self._mount.session

    @property
    def snapshot(self) -> Optional[Snapshot]:
        """The last commit."""
        return self._mount.snapshot

    @property
    def sha256_prefix(self) -> Optional[str]:
        """The snapshot below; `None` if the mount began empty."""
        return self._mount.sha256_prefix

    def __fspath__(self) -> str:
        return self.path

    def __str__(self) -> str:
        return self.path

    def __truediv__(self, name: str) -> Path:
        return Path(self.path) / name

    async def commit(
        self,
        *,
        to: Optional[str] = None,
        force: bool = False,
        capture: Optional[Capture] = None,
        progress: Optional[OnProgress] = None,
    ) -> Snapshot:
        """Stores the changes as the next snapshot; the mount stays."""
        tell = in_loop(progress)
        return await call(
            lambda cancel: self._mount.commit(to=to, force=force, capture=capture, progress=tell, cancel=cancel)
        )

    async def unmount(
        self,
        changes: Optional[str] = None,
        *,
        capture: Optional[Capture] = None,
        progress: Optional[OnProgress] = None,
    ) -> Unmounted:
        """Ends the mount."""
        tell = in_loop(progress)
        return await call(
            lambda cancel: self._mount.unmount(changes, capture=capture, progress=tell, cancel=cancel)
        )

    async def set_aside(self) -> None:
        """Ends the mount and moves its changes out of the way of later mounts."""
        await call(lambda _: self._mount.set_aside())

    async def _end(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await call(lambda _: self._mount.__exit__(kind, error, trace))


def _unused(mount: Mount) -> None:
    """Ends a mount that was ready before its task could be ended."""
    blocking = mount._mount
    blocking.unmount("keep" if blocking.mode == "locked" else "discard")


class Lock(Managed):
    """The lock of a profile; see `pstore.Lock`."""

    def __init__(self, lock: BlockingLock) -> None:
        self._lock = lock

    @property
    def token(self) -> str:
        """Proves that a process acts for the holder."""
        return self._lock.token

    @property
    def is_held(self) -> bool:
        """Whether it is held, as far as is known."""
        return self._lock.is_held

    def check(self) -> None:
        """Raises `LockLost` if the lock is not held any more."""
        self._lock.check()

    async def release(self) -> None:
        """Gives it back."""
        await call(lambda _: self._lock.release())

    async def _end(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await call(lambda _: self._lock.__exit__(kind, error, trace))


class Profile:
    """One profile of a tenant; see `pstore.Profile`."""

    def __init__(self, profile: BlockingProfile) -> None:
        self._profile = profile

    @property
    def name(self) -> str:
        """`TENANT/PROFILE`."""
        return self._profile.name

    async def snapshot(
        self,
        directory: PathLike,
        *,
        capture: Capture = Capture(),
        lock_token: Optional[str] = None,
        wait: int = 0,
        progress: Optional[OnProgress] = None,
    ) -> Snapshot:
        """Stores a directory as the next snapshot."""
        tell = in_loop(progress)
        return await call(
            lambda cancel: self._profile.snapshot(
                directory, capture=capture, lock_token=lock_token, wait=wait, progress=tell, cancel=cancel
            )
        )

    async def restore(
        self,
        target: PathLike,
        *,
        at: Optional[str] = None,
        replace: bool = False,
        load: bool = False,
        progress: Optional[OnProgress] = None,
    ) -> Restored:
        """Writes a snapshot to a directory."""
        tell = in_loop(progress)
        return await call(
            lambda cancel: self._profile.restore(
                target, at=at, replace=replace, load=load, progress=tell, cancel=cancel
            )
        )

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
    ) -> Pending[Mount]:
        """Locks and mounts the profile: `async with profile.mount() as udd`, or `udd = await profile.mount()`."""

        async def begin() -> Mount:
            tell = in_loop(progress)
            return await call(
                lambda cancel: Mount(
                    self._profile.mount(
                        path,
                        at=at,
                        read_only=read_only,
                        wait=wait,
                        on_error=on_error,
                        capture=capture,
                        options=options,
                        progress=tell,
                        cancel=cancel,
                    )
                ),
                give_back=_unused,
            )

        return Pending(begin)

    def fork(
        self,
        path: Optional[PathLike] = None,
        *,
        at: Optional[str] = None,
        capture: Capture = Capture(),
        options: Sequence[str] = (),
        progress: Optional[OnProgress] = None,
    ) -> Pending[Mount]:
        """Mounts it without the lock, for a try."""

        async def begin() -> Mount:
            tell = in_loop(progress)
            return await call(
                lambda cancel: Mount(
                    self._profile.fork(
                        path, at=at, capture=capture, options=options, progress=tell, cancel=cancel
                    )
                ),
                give_back=_unused,
            )

        return Pending(begin)

    async def run(
        self,
        command: Sequence[PathLike],
        *,
        capture: Capture = Capture(reason="run_end"),
        wait: int = 0,
        options: Sequence[str] = (),
        output: Optional[IO[bytes]] = None,
    ) -> Run:
        """Locks, mounts, runs a command, captures, unlocks."""
        return await call(
            lambda cancel: self._profile.run(
                command, capture=capture, wait=wait, options=options, output=output, cancel=cancel
            )
        )

    async def list(self) -> List[ListedSnapshot]:
        """Its snapshots, the oldest first."""
        return await call(lambda _: self._profile.list())

    async def current(self) -> Optional[ListedSnapshot]:
        """The snapshot that is current; `None` if there is none."""
        return await call(lambda _: self._profile.current())

    async def show(self, at: Optional[str] = None) -> Record:
        """The record of a snapshot."""
        return await call(lambda _: self._profile.show(at))

    async def history(self, at: Optional[str] = None) -> List[Document]:
        """The snapshots that led to one, the newest first."""
        return await call(lambda _: self._profile.history(at))

    async def diff(self, before: str, after: str = "latest", *, totals_only: bool = False) -> Diff:
        """What changed between two snapshots."""
        return await call(lambda _: self._profile.diff(before, after, totals_only=totals_only))

    async def rollback(self, to: str, *, reason: str = "", confirm: bool = True, force: bool = False) -> Rollback:
        """Makes another snapshot current."""
        return await call(lambda _: self._profile.rollback(to, reason=reason, confirm=confirm, force=force))

    async def tag(self, tag: str, *, at: Optional[str] = None) -> Tagged:
        """Gives a snapshot a name, so that it is kept."""
        return await call(lambda _: self._profile.tag(tag, at=at))

    async def untag(self, tag: str, *, at: Optional[str] = None) -> Tagged:
        """Takes the name away."""
        return await call(lambda _: self._profile.untag(tag, at=at))

    async def delete(self, at: str, *, reason: str = "", tagged: bool = False) -> Document:
        """Deletes a snapshot that is not the current one."""
        return await call(lambda _: self._profile.delete(at, reason=reason, tagged=tagged))

    async def entries(self, path: str = "", *, at: Optional[str] = None, recursive: bool = False) -> List[Entry]:
        """The paths of a snapshot."""
        return await call(lambda _: self._profile.entries(path, at=at, recursive=recursive))

    async def read(self, path: str, *, at: Optional[str] = None) -> bytes:
        """One file of a snapshot, every byte verified."""
        return await call(lambda _: self._profile.read(path, at=at))

    def lock(self, *, run_id: Optional[str] = None, ttl: Optional[int] = None, wait: int = 0) -> Pending[Lock]:
        """Takes the lock, and renews it until it is given back."""

        async def begin() -> Lock:
            return await call(
                lambda cancel: Lock(self._profile.lock(run_id=run_id, ttl=ttl, wait=wait, cancel=cancel)),
                give_back=lambda lock: lock._lock.release(),
            )

        return Pending(begin)

    async def lock_state(self) -> LockState:
        """Who holds the lock."""
        return await call(lambda _: self._profile.lock_state())

    async def events(self, *, after: Optional[str] = None, follow: bool = False) -> AsyncIterator[Event]:
        """What happened to its pointer and lock, the oldest first."""
        cancel = Cancellation()
        events = self._profile.events(after=after, follow=follow, cancel=cancel)
        while True:
            event = await call(lambda _: next(events, None), cancel)
            if event is None:
                return
            yield event


class Workspace:
    """A directory that an agent works in; see `pstore.Workspace`."""

    def __init__(self, workspace: BlockingWorkspace) -> None:
        self._workspace = workspace

    @property
    def place(self) -> str:
        """The directory; through a server `TENANT/PROFILE`."""
        return self._workspace.place

    async def start(
        self,
        profile: Optional[str] = None,
        *,
        watch: bool = True,
        auto_max: Optional[int] = None,
        manual_max: Optional[int] = None,
        auto_interval: Optional[int] = None,
    ) -> WorkspaceState:
        """Makes the directory a workspace, and has a process watch it."""
        return await call(
            lambda _: self._workspace.start(
                profile, watch=watch, auto_max=auto_max, manual_max=manual_max, auto_interval=auto_interval
            )
        )

    async def stop(self) -> WorkspaceState:
        """Ends the process that watches."""
        return await call(lambda _: self._workspace.stop())

    async def status(self) -> WorkspaceState:
        """Whether it is watched, and its pools."""
        return await call(lambda _: self._workspace.status())

    async def checkpoint(
        self, name: Optional[str] = None, *, trigger: str = "manual", run_id: str = "", description: str = ""
    ) -> TakenCheckpoint:
        """Takes a checkpoint."""
        return await call(
            lambda _: self._workspace.checkpoint(name, trigger=trigger, run_id=run_id, description=description)
        )

    @asynccontextmanager
    async def run(self, run_id: str, description: str = "") -> AsyncIterator[Workspace]:
        """Surrounds a run of the agent with checkpoints of the triggers `run_start` and `run_end`."""
        await self.checkpoint(trigger="run_start", run_id=run_id, description=description)
        try:
            yield self
        finally:
            await self.checkpoint(trigger="run_end", run_id=run_id, description=description)

    async def checkpoints(self) -> List[Checkpoint]:
        """All checkpoints, the newest first."""
        return await call(lambda _: self._workspace.checkpoints())

    async def changes(self, path: str = "", *, since: Optional[str] = None) -> Changes:
        """What differs between a checkpoint and now."""
        return await call(lambda _: self._workspace.changes(path, since=since))

    async def revert(
        self, path: str = "", *, everything: bool = False, to: Optional[str] = None, preview: bool = False
    ) -> Revert:
        """Gives a file, a folder or everything back."""
        return await call(lambda _: self._workspace.revert(path, everything=everything, to=to, preview=preview))

    async def history(self, path: str) -> PathHistory:
        """How a path was at every checkpoint, the newest first."""
        return await call(lambda _: self._workspace.history(path))

    async def delete(self, checkpoint: str) -> DeletedCheckpoint:
        """Deletes a checkpoint."""
        return await call(lambda _: self._workspace.delete(checkpoint))

    async def fork(self, target: PathLike, *, profile: Optional[str] = None, at: Optional[str] = None) -> Workspace:
        """Makes a workspace of its own from a checkpoint."""
        return Workspace(await call(lambda _: self._workspace.fork(target, profile=profile, at=at)))

    async def events(self, *, checkpoint: Optional[str] = None, after: int = 0) -> AsyncIterator[FileEvent]:
        """What happened to files, the oldest first."""
        events = self._workspace.events(checkpoint=checkpoint, after=after)
        while True:
            event = await call(lambda _: next(events, None))
            if event is None:
                return
            yield event

    async def __aenter__(self) -> Workspace:
        await call(lambda _: self._workspace.start(), give_back=lambda _: self._workspace.stop())
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.stop()


def profile(name: str, *, chrome_major: Optional[int] = None, through: Optional[Door] = None) -> Profile:
    """A profile: `pstore.aio.profile("acme/alice")`."""
    from . import profile as open_profile

    return Profile(open_profile(name, chrome_major=chrome_major, through=through))


def workspace(place: PathLike, profile: Optional[str] = None, *, through: Optional[Door] = None) -> Workspace:
    """A directory that an agent works in: `pstore.aio.workspace("./project", "acme/agent-7")`."""
    from . import workspace as open_workspace

    return Workspace(open_workspace(place, profile, through=through))
