"""`Receiver` writes the files of a snapshot to a directory, which appears when it is complete, or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Callable, List, Mapping, Sequence, Tuple

from .door import Watch
from .errors import PstoreError, TargetExists
from .progress import Progress

#: Gives the bytes of the file with this path to the second argument.
Fetch = Callable[[bytes, Callable[[bytes], None]], int]


class Receiver:
    """A directory to be."""

    def __init__(self, target: Path, replace: bool) -> None:
        self._target = Path(os.path.abspath(target))
        self._replace = replace
        if not replace and os.path.lexists(self._target) and not _is_empty_directory(self._target):
            raise TargetExists(
                f"{target} exists", kind="target_exists", exit_code=5, hint="replace=True replaces it"
            )

    def finish_empty(self) -> None:
        """Makes the directory without any file."""
        self._target.parent.mkdir(parents=True, exist_ok=True)
        self._put(tempfile.mkdtemp(prefix=".pstore-", dir=self._target.parent))

    def receive(self, entries: Sequence[Mapping[str, Any]], fetch: Fetch, watch: Watch) -> Tuple[int, int]:
        """Fetches every file; returns their number and their bytes."""
        self._target.parent.mkdir(parents=True, exist_ok=True)
        work = tempfile.mkdtemp(prefix=".pstore-", dir=self._target.parent)
        try:
            done = self._fill(os.fsencode(work), entries, fetch, watch)
            self._put(work)
        except BaseException:
            shutil.rmtree(work, ignore_errors=True)
            raise
        return done

    def _fill(
        self, top: bytes, entries: Sequence[Mapping[str, Any]], fetch: Fetch, watch: Watch
    ) -> Tuple[int, int]:
        total = sum(each["size_bytes"] or 0 for each in entries if each["kind"] == "file")
        number = sum(each["kind"] == "file" for each in entries)
        files = size = 0
        directories: List[Tuple[bytes, Mapping[str, Any]]] = []
        links: List[Tuple[bytes, Mapping[str, Any]]] = []
        for entry in entries:
            path = _bytes(entry, "path")
            place = os.path.join(top, _checked(path))
            kind = entry["kind"]
            if kind == "directory":
                os.makedirs(place, 0o700, exist_ok=True)
                directories.append((place, entry))
            elif kind == "file":
                os.makedirs(os.path.dirname(place), 0o700, exist_ok=True)
                with open(place, "xb", opener=_private) as file:
                    size += fetch(path, lambda piece: _write(file, piece))
                files += 1
                _finish(place, entry)
                if watch.progress is not None:
                    watch.progress(Progress("restoring", files, number, size, total))
            elif kind in ("symlink", "hard_link"):
                links.append((place, entry))
        # Last, so that nothing is written through a link.
        for place, entry in links:
            if entry["kind"] == "hard_link":
                os.link(os.path.join(top, _checked(_bytes(entry, "target"))), place, follow_symlinks=False)
        for place, entry in links:
            if entry["kind"] == "symlink":
                os.symlink(_bytes(entry, "target"), place)
                os.utime(place, ns=_times(entry), follow_symlinks=False)
        for place, entry in reversed(directories):
            _finish(place, entry)
        return files, size

    def _put(self, work: str) -> None:
        """Gives the complete directory its name."""
        _sync(work)
        if not os.path.lexists(self._target):
            os.rename(work, self._target)
        elif self._replace and not _is_empty_directory(self._target):
            old = tempfile.mkdtemp(prefix=".pstore-", dir=self._target.parent)
            replaced = os.path.join(old, "replaced")
            os.rename(self._target, replaced)
            try:
                os.rename(work, self._target)
            except BaseException:
                # Somebody has taken the name meanwhile, or may not be replaced: what was there comes back, if it can.
                try:
                    os.rename(replaced, self._target)
                except OSError as error:
                    raise PstoreError(
                        f"{self._target} could not be replaced, and was not put back: {error}",
                        hint=f"what was there is {replaced}",
                    ) from error
                os.rmdir(old)
                raise
            _sync_directory(self._target.parent)
            shutil.rmtree(old, ignore_errors=True)
        else:
            os.rmdir(self._target)
            os.rename(work, self._target)
        _sync_directory(self._target.parent)


def _sync(top: str) -> None:
    """Makes a tree durable: its files, then the directories that name them."""
    for folder, _, files in os.walk(os.fsencode(top), topdown=False):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                _sync_file(path)
        _sync_directory(folder)


def _sync_file(path: Any) -> None:
    # A file that its owner may not read is synced by whoever may write it.
    for flags in (os.O_RDONLY, os.O_WRONLY):
        try:
            file = os.open(path, flags | os.O_NOFOLLOW)
        except PermissionError:
            continue
        try:
            os.fsync(file)
        finally:
            os.close(file)
        return


def _sync_directory(path: Any) -> None:
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:
        return
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _is_empty_directory(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink() and not any(path.iterdir())


def _bytes(entry: Mapping[str, Any], name: str) -> bytes:
    """A path of an entry, also if it is no text."""
    digits = entry.get(name + "_hex")
    return bytes.fromhex(digits) if digits else str(entry[name]).encode("utf-8", "surrogateescape")


def _checked(path: bytes) -> bytes:
    """A path that stays below the directory it is put in."""
    if not path or path.startswith(b"/") or b"\0" in path or any(part in (b"", b".", b"..") for part in path.split(b"/")):
        raise PstoreError(f"the server sent the path {path!r}", kind="damaged", exit_code=10)
    return path


def _private(path: Any, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(file: Any, piece: bytes) -> None:
    file.write(piece)


def _times(entry: Mapping[str, Any]) -> Tuple[int, int]:
    at = int(entry["modified_at_ms"]) * 1_000_000
    return at, at


def _finish(place: bytes, entry: Mapping[str, Any]) -> None:
    """Gives a file its rights, without those of its author, and its time."""
    os.chmod(place, entry["mode"] & 0o777)
    os.utime(place, ns=_times(entry))
