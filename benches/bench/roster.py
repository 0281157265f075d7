"""All programs that can take part, by name."""

from __future__ import annotations

from .borg import Borg
from .bupstash import Bupstash
from .casync import Casync
from .cp import Cp
from .peer import Peer
from .pstore import Pstore
from .restic import Restic
from .rustic import Rustic
from .squashfs import Squashfs
from .tar import Tar

ROSTER: dict[str, type[Peer]] = {
    kind.name: kind for kind in (Pstore, Restic, Rustic, Borg, Bupstash, Casync, Squashfs, Tar, Cp)}


def named(text: str) -> list[str]:
    """The names in a comma-separated list; fails on one that is unknown."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    unknown = [name for name in names if name not in ROSTER]
    if unknown:
        raise ValueError(f"no such program: {', '.join(unknown)} (known: {', '.join(ROSTER)})")
    return names
