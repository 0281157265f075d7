"""`pstore` keeps browser profiles as deduplicated, verified snapshots, so that an agent's next run starts where the last one ended.

    import pstore

    with pstore.profile("acme/alice", chrome_major=156).mount() as udd:
        browser = playwright.chromium.launch_persistent_context(udd.path)

It reaches pstore through the program on this host (`Host`), or through a server (`Server`); profiles are the same through both.
`pstore.aio` has the same for asyncio.
"""

from __future__ import annotations

import os
from typing import List, Optional, Union

from .checkpoints import (
    Changes,
    Checkpoint,
    DeletedCheckpoint,
    FileEvent,
    PathHistory,
    PathVersion,
    Revert,
    RevertedPath,
    TakenCheckpoint,
    WorkspaceChange,
    WorkspaceState,
)
from .documents import (
    Change,
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
from .errors import (
    Cancelled,
    Damaged,
    Denied,
    HeldBack,
    InUse,
    InvalidInput,
    LockHeld,
    LockLost,
    NotFound,
    PointerMoved,
    ProgramMissing,
    PstoreError,
    TargetExists,
    Unavailable,
    UncommittedChanges,
)
from .host import Host
from .lock import Lock
from .mount import Mount
from .profile_handle import Profile
from .progress import Cancellation, OnProgress, Progress
from .server import Server
from .version import VERSION as __version__
from .workspace import Workspace

__all__ = [
    "Cancellation",
    "Cancelled",
    "Capture",
    "Change",
    "Changes",
    "Checkpoint",
    "Damaged",
    "DeletedCheckpoint",
    "Denied",
    "Diff",
    "Document",
    "Door",
    "Entry",
    "Event",
    "FileEvent",
    "HeldBack",
    "Host",
    "InUse",
    "InvalidInput",
    "ListedSnapshot",
    "Lock",
    "LockHeld",
    "LockLost",
    "LockState",
    "Mount",
    "NotFound",
    "OnProgress",
    "PathHistory",
    "PathVersion",
    "PointerMoved",
    "Profile",
    "ProgramMissing",
    "Progress",
    "PstoreError",
    "Record",
    "Restored",
    "Revert",
    "RevertedPath",
    "Rollback",
    "Run",
    "Server",
    "Snapshot",
    "Tagged",
    "TakenCheckpoint",
    "TargetExists",
    "Unavailable",
    "UncommittedChanges",
    "Unmounted",
    "Workspace",
    "WorkspaceChange",
    "WorkspaceState",
    "__version__",
    "connect",
    "profile",
    "profiles",
    "workspace",
]


def connect() -> Door:
    """The server that `PSTORE_SERVER` names, with the token in `PSTORE_SERVER_TOKEN`; without it, the program on this host."""
    url = os.environ.get("PSTORE_SERVER")
    if url:
        return Server(url, token=os.environ.get("PSTORE_SERVER_TOKEN"))
    return Host()


def profile(name: str, *, chrome_major: Optional[int] = None, through: Optional[Door] = None) -> Profile:
    """A profile: `pstore.profile("acme/alice")`.

    `through` is a `Host` or a `Server`; without it, the one of `connect()`. A profile without a snapshot needs `chrome_major`, the major
    version of the Chrome that will use it.
    """
    return Profile(connect() if through is None else through, name, chrome_major)


def profiles(tenant: str, *, through: Optional[Door] = None) -> List[str]:
    """The names of a tenant's profiles."""
    return (connect() if through is None else through).profiles(tenant)


def workspace(
    place: "Union[str, os.PathLike[str]]", profile: Optional[str] = None, *, through: Optional[Door] = None
) -> Workspace:
    """A directory that an agent works in: `pstore.workspace("./project", "acme/agent-7")`. `profile` is needed at its first start alone.

    Through a server it is one that the server offers, by the name of its profile: `pstore.workspace("acme/agent-7", through=server)`.
    """
    return Workspace(connect() if through is None else through, os.fspath(place), profile)
