"""Whether the registry has taken a version back. Cargo says so of versions it is to choose, not of those that Cargo.lock has;
so it is asked to choose exactly these, once more, for a package that has nothing else."""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

PACKAGE = '[package]\nname = "asks-for-all"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n[dependencies]\n'


def complaint(lock: list[tuple[str, str]], root: Path) -> str | None:
    """What cargo has against these versions, by its registry, or by what it remembers of it where it cannot be reached."""
    lines = [f'crate-{at} = {{ package = "{name}", version = "={number}", default-features = false }}\n'
             for at, (name, number) in enumerate(lock)]
    # Below the workspace, so that its configuration of cargo holds here, too.
    (root / "target").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="yanked-", dir=root / "target") as folder:
        (Path(folder) / "Cargo.toml").write_text(PACKAGE + "".join(lines))
        (Path(folder) / "lib.rs").touch()
        for more in ([], ["--offline"]):
            run = subprocess.run(["cargo", "generate-lockfile", "--quiet", *more], cwd=folder, text=True, stderr=subprocess.PIPE)
            if run.returncode == 0:
                return None
            if "is yanked" in run.stderr:
                break
    return run.stderr.strip()
