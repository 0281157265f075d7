"""Trees of many small files, made from a seed, as package managers leave them."""

from __future__ import annotations

import random
from pathlib import Path

IN_DIRECTORY = 50
DIRECTORIES_IN_PACKAGE = 5
MEAN_BYTES = 3900
POOL = 1 << 20


def make(root: Path, count: int, seed: int = 5) -> None:
    """`count` files of 4 kB on average, all different, in directories of 50."""
    dice = random.Random(seed)
    pool = dice.randbytes(POOL)
    for number in range(count):
        path = root / place(number)
        if number % IN_DIRECTORY == 0:
            path.parent.mkdir(parents=True)
        size = min(int(dice.expovariate(1 / MEAN_BYTES)), POOL // 2)
        start = dice.randrange(POOL - size)
        path.write_bytes(b"// file %d\n" % number + pool[start:start + size])


def place(number: int) -> Path:
    """Where the file of this number is."""
    directory, file = divmod(number, IN_DIRECTORY)
    package, part = divmod(directory, DIRECTORIES_IN_PACKAGE)
    return Path(f"node_modules/package-{package:05}/part{part}/file{file:02}.js")


def change(root: Path, number: int, line: str) -> None:
    """Adds a line to one file."""
    with open(root / place(number), "a") as file:
        file.write(f"// {line}\n")
