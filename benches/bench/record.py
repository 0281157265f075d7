"""What was measured: a sample for every run, and what went wrong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from .measure import Cost


@dataclass(frozen=True)
class Sample:
    row: str
    peer: str
    generation: int
    cost: Cost
    made_bytes: int = 0
    """What the run added to the store, or the size of the archive it wrote."""
    stored_bytes: int = 0
    objects: int = 0


@dataclass
class Record:
    samples: list[Sample] = field(default_factory=list)
    differences: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    """Paths in which a restored tree was not the source, per program."""
    failures: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    """Row to program to what it said, where it should have been able to."""
    part_bytes: int = 0
    part_files: int = 0
    """What the part of the tree was that was read through the mounts."""
