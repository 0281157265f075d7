"""Directory trees: their size, what two of them share, bringing one over another."""

from __future__ import annotations

import filecmp
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = 4096


def files(root: Path) -> Iterator[Path]:
    """Regular files below `root`, as paths relative to it, sorted."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield path.relative_to(root)


def size(root: Path) -> tuple[int, int]:
    """(files, bytes) below `root`."""
    sizes = [(root / path).lstat().st_size for path in files(root)]
    return len(sizes), sum(sizes)


def blocks(root: Path) -> dict[bytes, int]:
    """Distinct 4 KiB blocks below `root` and the bytes each stands for."""
    found: dict[bytes, int] = {}
    for path in files(root):
        with open(root / path, "rb") as file:
            while block := file.read(BLOCK):
                found[hashlib.blake2b(block, digest_size=16).digest()] = len(block)
    return found


@dataclass
class Change:
    identical_share: float
    """Of the newer tree's bytes, those in files identical to the older tree's."""
    new_block_share: float
    """Of the newer tree's bytes, those in 4 KiB blocks the older tree has nowhere."""


def change(older: Path, newer: Path) -> Change:
    identical = total = fresh = 0
    known = blocks(older)
    for path in files(newer):
        data = (newer / path).read_bytes()
        total += len(data)
        before = older / path
        if before.is_file() and before.stat().st_size == len(data) and before.read_bytes() == data:
            identical += len(data)
            continue
        for start in range(0, len(data), BLOCK):
            block = data[start:start + BLOCK]
            digest = hashlib.blake2b(block, digest_size=16).digest()
            if digest not in known:
                known[digest] = len(block)
                fresh += len(block)
    return Change(identical / total, fresh / total)


def solid_bytes(root: Path) -> int:
    """The size of the whole tree as one `tar | zstd -3` stream."""
    tar = subprocess.Popen(["tar", "-C", str(root), "-cf", "-", "."], stdout=subprocess.PIPE)
    zstd = subprocess.Popen(["zstd", "-3", "-c", "-q"], stdin=tar.stdout, stdout=subprocess.PIPE)
    assert tar.stdout and zstd.stdout
    tar.stdout.close()
    count = 0
    while data := zstd.stdout.read(1 << 20):
        count += len(data)
    if tar.wait() or zstd.wait():
        raise RuntimeError("tar | zstd failed")
    return count


def copy(source: Path, target: Path) -> None:
    """A fresh copy: new inodes and ctimes, the same mtimes."""
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


def remove(root: Path) -> None:
    shutil.rmtree(root, ignore_errors=True)


# Names a running browser, so pstore leaves it out on purpose.
NEVER_STORED = {Path("DevToolsActivePort")}


def differences(left: Path, right: Path) -> list[Path]:
    """Paths that are not the same in both: kind, link target, mode, mtime to the second, bytes."""
    names = {path.relative_to(root) for root in (left, right) for path in root.rglob("*")}
    names -= NEVER_STORED
    return sorted(name for name in names if not _same(left / name, right / name))


def _same(left: Path, right: Path) -> bool:
    if not (os.path.lexists(left) and os.path.lexists(right)) or _kind(left) != _kind(right):
        return False
    if left.is_symlink():
        return os.readlink(left) == os.readlink(right)
    one, other = left.stat(), right.stat()
    if one.st_mode != other.st_mode:
        return False
    # A directory's mtime moves when the browser writes into it; nothing depends on it.
    if left.is_dir():
        return True
    return int(one.st_mtime) == int(other.st_mtime) and filecmp.cmp(left, right, shallow=False)


def advance(working: Path, newer: Path) -> None:
    """Makes `working` equal to `newer` as the browser would have.

    Files with equal bytes keep inode, mtime and ctime. Changed files are rewritten in place,
    gone ones removed.
    """
    wanted = {path.relative_to(newer): path for path in sorted(newer.rglob("*"))}
    for path in sorted(working.rglob("*"), reverse=True):
        relative = path.relative_to(working)
        replacement = wanted.get(relative)
        if replacement is not None and _kind(replacement) == _kind(path):
            continue
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    for relative, path in wanted.items():
        target = working / relative
        if path.is_symlink():
            if not target.is_symlink() or os.readlink(target) != os.readlink(path):
                target.unlink(missing_ok=True)
                target.symlink_to(os.readlink(path))
        elif path.is_dir():
            target.mkdir(exist_ok=True)
        elif path.is_file() and not (target.exists() and filecmp.cmp(path, target, shallow=False)):
            with open(path, "rb") as source, open(target, "wb") as sink:
                shutil.copyfileobj(source, sink, 1 << 20)
            shutil.copystat(path, target)


def _kind(path: Path) -> str:
    if path.is_symlink():
        return "link"
    return "directory" if path.is_dir() else "file"
