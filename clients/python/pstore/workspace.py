"""`Workspace` takes checkpoints of a directory that an agent works in, says what has changed, and gives files back."""

from __future__ import annotations

import os
from contextlib import contextmanager
from types import TracebackType
from typing import Iterator, List, Optional, Type, Union

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
from .door import Door, Name
from .errors import invalid

PathLike = Union[str, "os.PathLike[str]"]

#: What may lead to a checkpoint. One of `manual` stays until it is deleted; the others go into a ring.
TRIGGERS = ("manual", "run_start", "run_end", "before_action", "after_action")
#: How many paths and events are asked for at a time.
_PAGE = 500


class Workspace:
    """A directory that an agent works in; through a server, one that the server offers, by the name of its profile.

    As a context manager it is started, and stopped at the end. A checkpoint is named by its `checkpoint`, such as `cp-10`, or by its name;
    where a method takes none, the newest is meant.
    """

    def __init__(self, door: Door, place: str, profile: Optional[str] = None) -> None:
        self._door = door
        self._place = place
        self._profile = profile

    @property
    def place(self) -> str:
        """The directory; through a server `TENANT/PROFILE`."""
        return self._place

    def __repr__(self) -> str:
        return f"<pstore.Workspace {self._place}>"

    def start(
        self,
        profile: Optional[str] = None,
        *,
        watch: bool = True,
        auto_max: Optional[int] = None,
        manual_max: Optional[int] = None,
        auto_interval: Optional[int] = None,
    ) -> WorkspaceState:
        """Makes the directory a workspace, takes the first checkpoint, and has a process watch it.

        `profile` is needed at the first start alone. The numbers are fixed then: slots of the ring, slots that stay, and seconds between
        automatic checkpoints.
        """
        name = profile if profile is not None else self._profile
        numbers = {"auto-max": auto_max, "manual-max": manual_max, "auto-interval": auto_interval}
        parsed = None if name is None else Name.parse(name)
        return WorkspaceState.of(self._door.start_workspace(self._place, parsed, watch, numbers))

    def stop(self) -> WorkspaceState:
        """Ends the process that watches, after a last checkpoint. The checkpoints stay, and everything else works on."""
        return WorkspaceState.of(self._door.stop_workspace(self._place))

    def status(self) -> WorkspaceState:
        """Whether it is watched, and its pools."""
        return WorkspaceState.of(self._door.workspace_state(self._place))

    def checkpoint(
        self, name: Optional[str] = None, *, trigger: str = "manual", run_id: str = "", description: str = ""
    ) -> TakenCheckpoint:
        """Takes a checkpoint. It stays until it is deleted; one of another `trigger` goes into the ring, at most one per interval.

        A trigger never fails an agent: if no checkpoint is taken, `outcome` and `warning` say why.
        """
        if trigger not in TRIGGERS:
            raise invalid(f"trigger is {trigger!r}", "it is one of " + ", ".join(TRIGGERS))
        if name is not None and trigger != "manual":
            raise invalid("a checkpoint of the ring has no name", "leave out `name` or `trigger`")
        return TakenCheckpoint.of(self._door.take_checkpoint(self._place, name, trigger, run_id, description))

    @contextmanager
    def run(self, run_id: str, description: str = "") -> Iterator[Workspace]:
        """Surrounds a run of the agent with checkpoints of the triggers `run_start` and `run_end`."""
        self.checkpoint(trigger="run_start", run_id=run_id, description=description)
        try:
            yield self
        finally:
            self.checkpoint(trigger="run_end", run_id=run_id, description=description)

    def checkpoints(self) -> List[Checkpoint]:
        """All checkpoints, the newest first."""
        return [Checkpoint.of(each) for each in self._door.checkpoints(self._place)]

    def changes(self, path: str = "", *, since: Optional[str] = None) -> Changes:
        """What differs between a checkpoint and now: all of it, or one file or folder."""
        page = self._door.workspace_changes(self._place, path, since, None, _PAGE)
        changes = list(page["changes"])
        while page["next_offset"] is not None:
            page = self._door.workspace_changes(self._place, path, since, page["next_offset"], _PAGE)
            changes += page["changes"]
        return Changes.of({**page, "changes": changes})

    def revert(
        self, path: str = "", *, everything: bool = False, to: Optional[str] = None, preview: bool = False
    ) -> Revert:
        """Gives a file or a folder back, or all with `everything`. What is overwritten becomes a checkpoint first: `undo` of the answer.

        Without `to` it is the newest checkpoint that has the path. With `preview` it says what would be done.
        """
        if bool(path) == everything:
            raise invalid("it is not said what to give back", "name a path, or pass everything=True")
        return Revert.of(self._door.revert(self._place, path, to, preview))

    def history(self, path: str) -> PathHistory:
        """How a path was at every checkpoint, the newest first."""
        return PathHistory.of(self._door.path_history(self._place, path))

    def delete(self, checkpoint: str) -> DeletedCheckpoint:
        """Deletes a checkpoint, which frees its slot."""
        return DeletedCheckpoint.of(self._door.delete_checkpoint(self._place, checkpoint))

    def fork(self, target: PathLike, *, profile: Optional[str] = None, at: Optional[str] = None) -> Workspace:
        """Makes a workspace of its own from a checkpoint. `target` is the new directory; through a server, a name for it."""
        parsed = None if profile is None else Name.parse(profile)
        place = self._door.fork_workspace(self._place, os.fspath(target), parsed, at)
        return Workspace(self._door, place)

    def events(self, *, checkpoint: Optional[str] = None, after: int = 0) -> Iterator[FileEvent]:
        """What happened to files, the oldest first: all since the event `after`, or what led to one checkpoint."""
        while True:
            page = self._door.file_events(self._place, checkpoint, after, _PAGE)
            for each in page["events"]:
                yield FileEvent.of(each)
            if page.get("next_after") is None:
                return
            after = page["next_after"]

    def __enter__(self) -> Workspace:
        self.start()
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.stop()
