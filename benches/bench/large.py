"""One large file, read in order or in small pieces anywhere in it."""

from __future__ import annotations

import os
import random
from pathlib import Path

from . import reading
from .tree import NEVER_STORED, files

MOST_BYTES = 300_000_000
PIECE_BYTES = 4096
PIECES = 2000


class Large:
    """A file of a profile's own bytes, its files one after another, in a directory of its own."""

    name = Path("large")

    def __init__(self, profile: Path, directory: Path) -> None:
        self.directory = directory
        directory.mkdir()
        self.bytes = 0
        with open(directory / self.name, "wb") as output:
            for path in files(profile):
                if path not in NEVER_STORED:
                    self.bytes += output.write((profile / path).read_bytes()[:MOST_BYTES - self.bytes])
        throws = random.Random(1)
        self.offsets = [throws.randrange(self.bytes // PIECE_BYTES) * PIECE_BYTES for _ in range(PIECES)]
        """Always the same ones."""

    def in_order(self, root: Path) -> int:
        return reading.read(root / self.name)

    def anywhere(self, root: Path) -> int:
        file = os.open(root / self.name, os.O_RDONLY)
        try:
            return sum(len(os.pread(file, PIECE_BYTES, offset)) for offset in self.offsets)
        finally:
            os.close(file)
