"""Getting the peers onto this machine, into one tools directory.

Debian's own packages are the last resort: Debian 12 has restic 0.14 and borg 1.2. What is
already in the tools directory is left as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

REQUIREMENTS = Path(__file__).parent / "requirements"
BORG_PACKAGES = ("python3-venv python3-dev libssl-dev libacl1-dev liblz4-dev libxxhash-dev libzstd-dev libfuse3-dev fuse3 "
                 "pkg-config gcc").split()
BUPSTASH_PACKAGES = ["libsodium-dev", "pkg-config", "gcc"]
SQUASHFS_PACKAGES = ["squashfs-tools", "squashfs-tools-ng", "squashfuse"]

Say = Callable[[str], None]


def install(names: list[str], tools: Path, say: Say) -> list[str]:
    """Those of the programs that this machine has now."""
    (tools / "bin").mkdir(parents=True, exist_ok=True)
    return [name for name in names if _installed(name, tools, say)]


def _installed(name: str, tools: Path, say: Say) -> bool:
    step = {"tar": _tar, "borg": _borg, "bupstash": _bupstash, "restic": _restic, "rustic": _rustic, "casync": _casync,
            "squashfs": _squashfs}.get(name)
    try:
        if step:
            step(tools, say)
        return True
    except subprocess.CalledProcessError as error:
        say(f"{name} cannot be had: {error}")
        return False


def _tar(_: Path, say: Say) -> None:
    debian([package for package in ("tar", "zstd") if not shutil.which(package)], say)


def _casync(_: Path, say: Say) -> None:
    debian(["casync"], say)


def _squashfs(_: Path, say: Say) -> None:
    debian(SQUASHFS_PACKAGES, say)


def _borg(tools: Path, say: Say) -> None:
    program = tools / "borg/bin/borg"
    if program.exists():
        return
    debian(BORG_PACKAGES, say)
    say("borg: building from PyPI")
    try:
        _run(["python3", "-m", "venv", "--clear", str(tools / "borg")])
        _pip(tools / "borg", "wheels", "--only-binary", ":all:")
        _pip(tools / "borg", "borgbackup")
    except subprocess.CalledProcessError:
        say("borg: cannot be built, taking Debian's package")
        debian(["borgbackup"], say)
        program.symlink_to("/usr/bin/borg")
        return
    try:
        _pip(tools / "borg", "pyfuse3")
    except subprocess.CalledProcessError:
        say("borg: pyfuse3 cannot be built, so there are no mounts")


def _pip(place: Path, what: str, *options: str) -> None:
    """Installs what a list of requirements has, each by its hash, and nothing else: also what it takes to build it."""
    _run([str(place / "bin/pip"), "install", "-q", "--require-hashes", "--no-deps", "--no-build-isolation", *options,
          "-r", str(REQUIREMENTS / f"{what}.txt")], {"BORG_OPENSSL_PREFIX": "/usr"})


def _bupstash(tools: Path, say: Say) -> None:
    if (tools / "bin/bupstash").exists():
        return
    debian(BUPSTASH_PACKAGES, say)
    say("bupstash: building from source")
    _run(["cargo", "install", "--locked", "bupstash@0.12.0", "--root", str(tools)])


def _rustic(tools: Path, say: Say) -> None:
    """With what local repositories and mounts need, and nothing else: it is a long build all the same."""
    if (tools / "bin/rustic").exists():
        return
    say("rustic: building from source, for many minutes")
    _run(["cargo", "install", "--locked", "rustic-rs@0.11.4", "--no-default-features", "--features", "mount", "--root", str(tools)])


def _restic(tools: Path, say: Say) -> None:
    """Restic is a static binary, so unstable's package runs here, unpacked and not installed."""
    program = tools / "bin/restic"
    if program.exists():
        return
    say("restic: taking the package of Debian unstable")
    area = tools / "restic"
    shutil.rmtree(area, ignore_errors=True)
    for directory in ("lists/partial", "cache/archives/partial"):
        (area / directory).mkdir(parents=True)
    uri = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"],
                         capture_output=True, text=True).stdout.split()
    try:
        mirror = next(line for line in uri if "security" not in line)
        (area / "sources.list").write_text(
            f"deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] {mirror} unstable main\n")
        options = [f"-oDir::Etc::sourcelist={area}/sources.list", "-oDir::Etc::sourceparts=-",
                   f"-oDir::State::lists={area}/lists", f"-oDir::Cache={area}/cache", "-oAPT::Sandbox::User=root"]
        _run(["apt-get", *options, "-qq", "update"])
        _run(["apt-get", *options, "-qq", "download", "restic"], cwd=area)
        package = next(area.glob("restic_*.deb"))
        _run(["dpkg", "-x", str(package), str(area / "root")])
        shutil.copy(area / "root/usr/bin/restic", program)
    except (StopIteration, subprocess.CalledProcessError):
        say("restic: unstable cannot be had, taking this release's package")
        debian(["restic"], say)
        program.symlink_to("/usr/bin/restic")
    shutil.rmtree(area, ignore_errors=True)


def debian(packages: list[str], say: Say) -> None:
    """Installs those of Debian's packages that are missing."""
    missing = [p for p in packages if subprocess.run(["dpkg", "-s", p], capture_output=True).returncode]
    if not missing:
        return
    say(f"apt: installing {' '.join(missing)}")
    environment = {"DEBIAN_FRONTEND": "noninteractive"}
    _run(["apt-get", "-qq", "update"], environment)
    _run(["apt-get", "-qq", "-y", "--no-install-recommends", "install", *missing], environment)


def _run(command: list[str], environment: dict[str, str] | None = None, cwd: Path | None = None) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **(environment or {})}, cwd=cwd)
