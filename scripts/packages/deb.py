"""`deb` makes a Debian package: the program, manual pages, completions, systemd units, a user, and a configuration with comments."""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Dict

from .facts import ROOT, Facts
from .licences import third_party

#: Where the units of deploy/systemd expect the program, and where the package has it.
_BUILT_BY_HAND, _PACKAGED = "/usr/local/bin/pstore", "/usr/bin/pstore"
_COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/pstore",
    "zsh": "usr/share/zsh/vendor-completions/_pstore",
    "fish": "usr/share/fish/vendor_completions.d/pstore.fish",
}
_SCRIPTS = ("postinst", "prerm", "postrm")


def make(facts: Facts, directory: Path) -> Path:
    """The path of the package."""
    target = directory / f"pstore_{facts.version}_{facts.debian_machine}.deb"
    with tempfile.TemporaryDirectory(prefix="pstore-deb-") as folder:
        root = Path(folder) / "root"
        _fill(facts, root)
        _describe(facts, root)
        for path in [*root.rglob("*"), root]:
            os.utime(path, (facts.time, facts.time), follow_symlinks=False)
        environment = {**os.environ, "SOURCE_DATE_EPOCH": str(facts.time)}
        line = ["dpkg-deb", "--root-owner-group", "-Zgzip", "-z6", "--build", str(root), str(target)]
        subprocess.run(line, env=environment, check=True, stdout=subprocess.DEVNULL)
    return target


def _fill(facts: Facts, root: Path) -> None:
    """Puts every file in its place."""
    program = root / "usr/bin/pstore"
    program.parent.mkdir(parents=True)
    shutil.copyfile(facts.program, program)
    program.chmod(0o755)
    pages = Path(tempfile.mkdtemp(prefix="pstore-man-", dir=root.parent))
    _told(facts, "man", str(pages))
    for page in sorted(pages.iterdir()):
        _put(root / "usr/share/man/man1" / f"{page.name}.gz", gzip.compress(page.read_bytes(), 9, mtime=0))
    for shell, place in _COMPLETIONS.items():
        _put(root / place, _told(facts, "completions", shell))
    units = root / "usr/lib/systemd/system"
    for unit in sorted((ROOT / "deploy/systemd").glob("pstore-*")):
        _put(units / unit.name, _unit(unit))
    debian = ROOT / "deploy/debian"
    _put(root / "usr/lib/sysusers.d/pstore.conf", (debian / "sysusers.conf").read_bytes())
    _put(root / "etc/pstore/pstore.toml", (debian / "pstore.toml").read_bytes())
    _put(root / "etc/pstore/serve.env", (debian / "serve.env").read_bytes(), 0o600)
    doc = root / "usr/share/doc/pstore"
    _put(doc / "changelog.gz", gzip.compress((ROOT / "CHANGELOG.md").read_bytes(), 9, mtime=0))
    _put(doc / "examples/mounts.conf", _unit(ROOT / "deploy/systemd/mounts.conf"))
    _put(doc / "third-party.gz", gzip.compress(third_party(facts), 9, mtime=0))
    licences = "".join(f"{(ROOT / name).read_text()}\n" for name in ("LICENSE-MIT", "LICENSE-APACHE"))
    _put(doc / "copyright", f"pstore is under the MIT licence or the Apache licence, at your choice.\n\n{licences}".encode())


def _unit(path: Path) -> bytes:
    """A file of systemd that starts the program of the package."""
    return path.read_text().replace(_BUILT_BY_HAND, _PACKAGED).encode()


def _describe(facts: Facts, root: Path) -> None:
    """Writes what dpkg has to know."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    size = sum(path.stat().st_size + 1023 >> 10 for path in files)
    fields: Dict[str, str] = {
        "Package": "pstore",
        "Version": facts.version,
        "Architecture": facts.debian_machine,
        "Maintainer": "The pstore authors <pstore@example.invalid>",
        "Installed-Size": str(size),
        "Section": "utils",
        "Priority": "optional",
        "Recommends": "fuse3, ca-certificates",
        "Description": "deduplicated, verified snapshots of browser profiles\n"
        " pstore keeps browser profiles as snapshots in S3 or a directory, so that an\n"
        " agent's next run starts where the last one ended, on any host.",
    }
    if facts.glibc is not None:
        major, minor = facts.glibc
        fields["Depends"] = f"libc6 (>= {major}.{minor})" + (", libgcc-s1" if b"libgcc_s.so.1\0" in facts.data else "")
    control = root / "DEBIAN"
    _put(control / "control", "".join(f"{name}: {value}\n" for name, value in fields.items()).encode())
    _put(control / "conffiles", b"/etc/pstore/pstore.toml\n/etc/pstore/serve.env\n")
    sums = "".join(f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n" for path in files)
    _put(control / "md5sums", sums.encode())
    for name in _SCRIPTS:
        _put(control / name, (ROOT / "deploy/debian" / name).read_bytes(), 0o755)


def _told(facts: Facts, *words: str) -> bytes:
    return subprocess.run([facts.program, *words], check=True, capture_output=True).stdout


def _put(path: Path, data: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(mode)
