"""`licences` gathers the licences of all that is linked into the program: its crates, and the C libraries that they bring."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any, Dict, Iterator, List

from .facts import ROOT, Facts, Refused

_NAME = re.compile(r"(LICEN[CS]E|COPYING|NOTICE|UNLICENSE|COPYRIGHT)", re.IGNORECASE)
_HEAD = """The program pstore has the following software in it, besides its own and the standard library of Rust (MIT or Apache-2.0).
Each text stands below the names of those that it comes with.
"""


def third_party(facts: Facts) -> bytes:
    """Every crate in the program with its licence, and each text once."""
    names: Dict[str, List[str]] = {}
    for crate in _crates(f"{facts.machine}-unknown-linux-gnu"):
        name = f"{crate['name']} {crate['version']} ({crate['license'] or 'see below'})"
        texts = {path.read_text(errors="replace").strip() for path in _texts(Path(crate["manifest_path"]).parent)}
        for text in texts or {"No text comes with it."}:
            names.setdefault(text, []).append(name)
    parts = [_HEAD]
    for text, those in sorted(names.items(), key=lambda item: (sorted(item[1]), item[0])):
        parts.append("\n".join(sorted(those)) + "\n\n" + text + "\n")
    return f"\n{'=' * 80}\n\n".join(parts).encode()


def _crates(triple: str) -> Iterator[Dict[str, Any]]:
    """The crates of others that the program needs when it runs, as cargo describes them."""
    line = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", triple]
    told = subprocess.run(line, cwd=ROOT, capture_output=True, text=True)
    if told.returncode != 0:
        raise Refused(f"cargo does not tell the crates of the program: {told.stderr.strip()}")
    whole = json.loads(told.stdout)
    crates = {crate["id"]: crate for crate in whole["packages"]}
    needs = {node["id"]: node["deps"] for node in whole["resolve"]["nodes"]}
    open_ = [crate["id"] for crate in whole["packages"] if crate["name"] == "pstore"]
    seen = set(open_)
    while open_:
        for need in needs[open_.pop()]:
            # Those of a build or of tests have another kind.
            if need["pkg"] not in seen and any(kind["kind"] is None for kind in need["dep_kinds"]):
                seen.add(need["pkg"])
                open_.append(need["pkg"])
    yield from (crates[each] for each in seen if crates[each]["source"] is not None)


def _texts(folder: Path) -> Iterator[Path]:
    """The files with licences of a crate, and of the library that a folder of it has."""
    for place in [folder, *(each for each in folder.iterdir() if each.is_dir())]:
        yield from (path for path in place.iterdir() if _NAME.match(path.name) and path.is_file())
