"""`archive` makes a tar stream in zstd of a directory (docs/archives.md), with the standard library alone.

Its zstd frame has blocks that are not compressed: what the store keeps is compressed there.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tarfile
from pathlib import Path
from typing import IO, Any, Callable, cast

_MAGIC = b"\x28\xb5\x2f\xfd"
#: Neither a length nor a checksum; a window of 128 KiB.
_HEADER = b"\x00" + bytes([7 << 3])
_BLOCK_BYTES = 128 << 10
#: Links of a browser that runs.
_SINGLETONS = ("SingletonLock", "SingletonCookie", "SingletonSocket")


class ZstdWriter:
    """A file for bytes, which writes them as one zstd frame and knows the digest of what it wrote."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting = bytearray()
        self._digest = hashlib.sha256()
        self.size = 0
        self._put(_MAGIC + _HEADER)

    def write(self, data: bytes) -> int:
        self._waiting += data
        while len(self._waiting) > _BLOCK_BYTES:
            self._block(bytes(self._waiting[:_BLOCK_BYTES]), False)
            del self._waiting[:_BLOCK_BYTES]
        return len(data)

    def finish(self) -> str:
        """Ends the frame, and returns the SHA-256 of all that was written."""
        self._block(bytes(self._waiting), True)
        self._waiting.clear()
        return self._digest.hexdigest()

    def _block(self, data: bytes, is_last: bool) -> None:
        self._put((len(data) << 3 | int(is_last)).to_bytes(3, "little") + data)

    def _put(self, data: bytes) -> None:
        self._digest.update(data)
        self._file.write(data)
        self.size += len(data)


def write(directory: Path, writer: ZstdWriter, told: Callable[[int, int], None]) -> None:
    """Writes the archive of a directory. `told` hears how many files and bytes are done."""
    files = done = 0

    def chosen(info: tarfile.TarInfo) -> "tarfile.TarInfo | None":
        nonlocal files, done
        if not (info.isfile() or info.isdir() or info.issym() or info.islnk()):
            return None
        if os.path.basename(info.name) in _SINGLETONS:
            return None
        path = directory / info.name
        if not info.issym():
            for name in os.listxattr(path):
                if name.startswith("user."):
                    escaped = name.replace("%", "%25").replace("=", "%3D")
                    value = os.getxattr(path, name)
                    text = value.decode("utf-8", "surrogateescape")
                    info.pax_headers = {**info.pax_headers, "SCHILY.xattr." + escaped: text}
        info.uname = info.gname = ""
        if info.isfile():
            files += 1
            done += info.size
            told(files, done)
        return info

    mode = directory.lstat().st_mode
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(str(directory))
    with tarfile.open(
        fileobj=cast(Any, writer),
        mode="w|",
        format=tarfile.PAX_FORMAT,
        encoding="utf-8",
        errors="surrogateescape",
    ) as archive:
        archive.add(str(directory), arcname=".", filter=chosen)
