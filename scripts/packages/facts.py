"""`Facts` knows what packages say of a program: its version, its machine, what it needs of a host, and when it was made."""

from __future__ import annotations

import os
import re
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import List, Optional, Tuple

ROOT = Path(__file__).resolve().parents[2]
#: Zip files begin their time here.
FIRST_TIME = 315532800
_MACHINES = {62: ("x86_64", "amd64"), 183: ("aarch64", "arm64")}
_INTERPRETER = 3


class Refused(Exception):
    """What cannot be packed, and why."""


@dataclass(frozen=True)
class Facts:
    """What packages say of a program."""

    program: Path
    version: str
    #: `x86_64`, and as Debian and Docker say it: `amd64`.
    machine: str
    debian_machine: str
    #: The least glibc that it needs; `None` if it is static.
    glibc: Optional[Tuple[int, int]]
    #: Seconds since 1970 for every file.
    time: int

    @classmethod
    def of(cls, program: Path) -> Facts:
        try:
            data = program.read_bytes()
        except OSError as error:
            raise Refused(f"cannot read {program}: {error.strerror}; build it first: cargo build --release -p pstore") from error
        if data[:6] != b"\x7fELF\x02\x01":
            raise Refused(f"{program} is no program for 64-bit Linux")
        machine, debian = _MACHINES.get(struct.unpack_from("<H", data, 18)[0], ("", ""))
        if not machine:
            raise Refused(f"{program} is for a machine that no package is made for")
        said = subprocess.run([program, "-V"], capture_output=True, text=True)
        words = said.stdout.split()
        if said.returncode != 0 or len(words) != 2 or words[0] != "pstore":
            raise Refused(f"{program} is no pstore: `-V` says {said.stdout or said.stderr!r}")
        if words[1] != workspace_version():
            raise Refused(f"{program} is pstore {words[1]}, and these sources are {workspace_version()}: build it anew")
        return cls(program, words[1], machine, debian, _glibc(data), _time())

    def libraries(self) -> List[Path]:
        """The shared libraries that it needs, with the loader; none if it is static."""
        if self.glibc is None:
            return []
        told = subprocess.run(["ldd", self.program], capture_output=True, text=True, check=True).stdout
        return sorted(Path(path) for path in re.findall(r"(/[^ ]+) \(0x", told))

    @property
    def data(self) -> bytes:
        """The program itself."""
        return self.program.read_bytes()


def workspace_version() -> str:
    """The version in Cargo.toml."""
    found = re.search(r'^version = "([0-9.]+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found.group(1)


def _glibc(data: bytes) -> Optional[Tuple[int, int]]:
    offset, size, number = (struct.unpack_from(form, data, at)[0] for form, at in (("<Q", 32), ("<H", 54), ("<H", 56)))
    kinds = {struct.unpack_from("<I", data, offset + at * size)[0] for at in range(number)}
    if _INTERPRETER not in kinds:
        return None
    versions = [(int(major), int(minor)) for major, minor in re.findall(rb"GLIBC_(\d+)\.(\d+)(?:\.\d+)?\0", data)]
    return max(versions, default=(2, 17))


def _time() -> int:
    told = os.environ.get("SOURCE_DATE_EPOCH")
    if told is None:
        asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
        told = asked.stdout.strip() if asked.returncode == 0 and asked.stdout.strip() else str(FIRST_TIME)
    return max(int(told), FIRST_TIME)
