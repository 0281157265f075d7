"""`wheel` makes a wheel with the program and the Python client: `pip install` of it gives `pstore` and `import pstore`."""

from __future__ import annotations

import base64
import hashlib
import time
import zipfile
from pathlib import Path
from typing import List, Tuple

from .facts import ROOT, Facts, Refused
from .licences import third_party

CLIENT = ROOT / "clients" / "python"


def make(facts: Facts, directory: Path) -> Path:
    """The path of the wheel."""
    info = f"pstore-{facts.version}.dist-info"
    tags = _tags(facts)
    files: List[Tuple[str, bytes, int]] = []
    for path in sorted(CLIENT.glob("pstore/*.py")) + [CLIENT / "pstore" / "py.typed"]:
        files.append((f"pstore/{path.name}", path.read_bytes(), 0o644))
    versioned = dict((name, data) for name, data, _ in files)["pstore/version.py"].decode()
    if f'VERSION = "{facts.version}"' not in versioned:
        raise Refused(f"clients/python/pstore/version.py is not of version {facts.version}")
    files.append((f"pstore-{facts.version}.data/scripts/pstore", facts.data, 0o755))
    files.append((f"{info}/METADATA", _metadata(facts).encode(), 0o644))
    wheel = "Wheel-Version: 1.0\nGenerator: pstore\nRoot-Is-Purelib: false\n" + "".join(f"Tag: py3-none-{tag}\n" for tag in tags)
    files.append((f"{info}/WHEEL", wheel.encode(), 0o644))
    for name in ("LICENSE-APACHE", "LICENSE-MIT"):
        files.append((f"{info}/licenses/{name}", (ROOT / name).read_bytes(), 0o644))
    files.append((f"{info}/licenses/THIRD-PARTY", third_party(facts), 0o644))
    record = "".join(f"{name},sha256={_digest(data)},{len(data)}\n" for name, data, _ in files) + f"{info}/RECORD,,\n"
    files.append((f"{info}/RECORD", record.encode(), 0o644))
    target = directory / f"pstore-{facts.version}-py3-none-{'.'.join(tags)}.whl"
    when = time.gmtime(facts.time)[:6]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name, data, mode in files:
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100000 | mode) << 16
            archive.writestr(entry, data)
    return target


def _tags(facts: Facts) -> List[str]:
    """The platforms that it runs on: of a static program all, else those with its glibc or a newer one."""
    if facts.glibc is None:
        return [f"manylinux_2_17_{facts.machine}", f"manylinux2014_{facts.machine}", f"musllinux_1_1_{facts.machine}"]
    major, minor = max(facts.glibc, (2, 17))
    tags = [f"manylinux_{major}_{minor}_{facts.machine}"]
    return tags + ([f"manylinux2014_{facts.machine}"] if (major, minor) == (2, 17) else [])


def _metadata(facts: Facts) -> str:
    head = {
        "Metadata-Version": "2.1",
        "Name": "pstore",
        "Version": facts.version,
        "Summary": "Deduplicated, verified snapshots of browser profiles: the program and its Python client",
        "License": "MIT OR Apache-2.0",
        "Requires-Python": ">=3.9",
        "Description-Content-Type": "text/markdown",
    }
    return "".join(f"{name}: {value}\n" for name, value in head.items()) + "\n" + (CLIENT / "README.md").read_text()


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
