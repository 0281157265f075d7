"""The RustSec database as its repository has it: `crates/NAME/RUSTSEC-YEAR-NUMBER.md`, each beginning with TOML in a fence."""

from __future__ import annotations

import subprocess
import tomllib
from datetime import date
from pathlib import Path

from .kept import Advisory, Copy


def copied(checkout: Path, names: list[str], old: Copy | None) -> Copy:
    """What a checkout knows of these crates. The exceptions of the old copy stay."""
    if not any(checkout.glob("crates/*/RUSTSEC-*.md")):
        raise ValueError(f"{checkout} has no crates/NAME/RUSTSEC-*.md: is it a checkout of the database?")
    for one in old.advisories if old else []:
        if one.crate in names and not (checkout / "crates" / one.crate / f"{one.id}.md").exists():
            raise ValueError(f"{checkout} lacks {one.id} of {one.crate}, which is known already: is it whole, and newer?")
    found = [read(path) for name in names for path in sorted((checkout / "crates" / name).glob("RUSTSEC-*.md"))]
    return Copy(date=day(checkout), crates=names, advisories=[one for one in found if one], ignored=old.ignored if old else [])


def day(checkout: Path) -> date:
    """When the database was last changed, as far as this checkout knows: an old one does not become new by being read today."""
    run = subprocess.run(["git", "-C", str(checkout), "log", "-1", "--format=%cs"], text=True, stdout=subprocess.PIPE)
    # Without a repository of its own, git would take one around it, such as ours.
    if run.returncode or not (checkout / ".git").exists():
        raise ValueError(f"{checkout} is no clone of the database: its last commit says how old it is")
    return date.fromisoformat(run.stdout.strip())


def read(path: Path) -> Advisory | None:
    """An advisory, unless it was withdrawn."""
    text = path.read_text("utf-8")
    opened, _, rest = text.partition("```toml\n")
    if opened.strip() or "\n```" not in rest:
        raise ValueError(f"{path} does not begin with TOML in a fence")
    front = tomllib.loads(rest.partition("\n```")[0])
    about, versions = front["advisory"], front.get("versions", {})
    if (about["package"], about["id"]) != (path.parent.name, path.stem):
        raise ValueError(f"{path} is about {about['package']} and is {about['id']}")
    if about.get("withdrawn"):
        return None
    return Advisory(id=about["id"], crate=about["package"], date=date.fromisoformat(str(about["date"])),
                    kind=about.get("informational") or "vulnerability", patched=versions.get("patched", []),
                    unaffected=versions.get("unaffected", []))
