"""`image` makes a container image from nothing but the program and its licences: a tar file for `docker load` and `podman load`.

A dynamic program has its shared libraries with it. There is no shell in it, and no root user.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from pathlib import Path
from typing import List, Tuple

from .facts import Facts
from .licences import third_party

#: Nobody's number, as other images without a distribution have it.
_USER = 65532


def make(facts: Facts, directory: Path) -> Path:
    """The path of the image."""
    layer = _layer(facts)
    layer_digest = hashlib.sha256(layer).hexdigest()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(facts.time))
    config = {
        "architecture": facts.debian_machine,
        "os": "linux",
        "created": created,
        "config": {
            "Entrypoint": ["/usr/bin/pstore"],
            "Cmd": ["--help"],
            "User": f"{_USER}:{_USER}",
            "WorkingDir": "/",
            "Env": ["PATH=/usr/bin", "HOME=/home/pstore", "SSL_CERT_DIR=/etc/ssl/certs"],
            "Labels": {
                "org.opencontainers.image.title": "pstore",
                "org.opencontainers.image.version": facts.version,
                "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
        "history": [{"created": created, "created_by": "scripts/package image"}],
    }
    config_data = json.dumps(config, sort_keys=True).encode()
    name = f"{hashlib.sha256(config_data).hexdigest()}.json"
    manifest = [{"Config": name, "RepoTags": [f"pstore:{facts.version}", "pstore:latest"], "Layers": [f"{layer_digest}/layer.tar"]}]
    files = [
        (name, config_data),
        (f"{layer_digest}/layer.tar", layer),
        ("manifest.json", json.dumps(manifest, sort_keys=True).encode()),
    ]
    target = directory / f"pstore-{facts.version}-{facts.debian_machine}.image.tar"
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path, data in files:
            _add(archive, path, data, 0o644, facts.time)
    return target


def _layer(facts: Facts) -> bytes:
    """The files of the image."""
    files: List[Tuple[str, bytes, int]] = [("usr/bin/pstore", facts.data, 0o755)]
    files += [(str(path).lstrip("/"), path.read_bytes(), 0o755) for path in facts.libraries()]
    files.append(("usr/share/doc/pstore/third-party", third_party(facts), 0o644))
    # Names of users for programs that ask, and directories that the user may write to.
    files.append(("etc/passwd", f"pstore:x:{_USER}:{_USER}:pstore:/home/pstore:/usr/bin/pstore\n".encode(), 0o644))
    files.append(("etc/group", f"pstore:x:{_USER}:\n".encode(), 0o644))
    directories = {str(parent) for path, _, _ in files for parent in Path(path).parents} - {"."}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(directories | {"home", "home/pstore", "tmp"}):
            entry = tarfile.TarInfo(path)
            entry.type, entry.mtime = tarfile.DIRTYPE, facts.time
            entry.mode = 0o1777 if path == "tmp" else 0o755
            entry.uid = entry.gid = _USER if path == "home/pstore" else 0
            archive.addfile(entry)
        for path, data, mode in sorted(files):
            _add(archive, path, data, mode, facts.time)
    return buffer.getvalue()


def _add(archive: tarfile.TarFile, path: str, data: bytes, mode: int, when: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode, entry.mtime = len(data), mode, when
    archive.addfile(entry, io.BytesIO(data))
