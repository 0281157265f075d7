"""The copy of the database that the repository keeps: only what concerns the crates of Cargo.lock, and which these were."""

from __future__ import annotations

import json
import os
import re
import tomllib
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from .version import Version, meets, version

IDENTIFIER = re.compile(r"RUSTSEC-\d{4}-\d{4}")
KINDS = ("vulnerability", "unsound", "unmaintained", "notice")


@dataclass(frozen=True)
class Advisory:
    id: str
    crate: str
    date: date
    kind: str
    patched: list[str]
    unaffected: list[str]

    def __post_init__(self) -> None:
        if not IDENTIFIER.fullmatch(self.id):
            raise ValueError(f"{self.id!r} is no advisory's id")
        if self.kind not in KINDS:
            raise ValueError(f"{self.id}: {self.kind!r} is none of {', '.join(KINDS)}")
        for requirement in (*self.patched, *self.unaffected):
            meets(version("0.0.0"), requirement)

    def affects(self, number: Version) -> bool:
        return not any(meets(number, requirement) for requirement in (*self.patched, *self.unaffected))


@dataclass(frozen=True)
class Tolerated:
    """An advisory that is put up with: why, and until when."""

    id: str
    reason: str
    until: date

    def __post_init__(self) -> None:
        if not self.reason.strip():
            raise ValueError(f"{self.id} is ignored for no reason")


@dataclass
class Copy:
    """The database as it was on `date`. Of `crates_in_groups` less is known than of `crates`: a comment there says what."""

    date: date
    crates: list[str]
    crates_in_groups: list[str] = field(default_factory=list)
    advisories: list[Advisory] = field(default_factory=list)
    ignored: list[Tolerated] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path) -> Copy:
        """Refuses what it does not know: a word misspelt must not make an advisory vanish."""
        with path.open("rb") as file:
            raw = tomllib.load(file)
        known = {"date": raw.pop("date"), "crates": raw.pop("crates"), "crates_in_groups": raw.pop("crates_in_groups", [])}
        advisories = [Advisory(**_plain(one)) for one in raw.pop("advisory", [])]
        ignored = [Tolerated(**one) for one in raw.pop("ignored", [])]
        if raw:
            raise ValueError(f"nothing is called {', '.join(raw)} here")
        return cls(**known, advisories=advisories, ignored=ignored)

    def write(self, path: Path, comment: str) -> None:
        aside = path.with_name(f".{path.name}.new")
        aside.write_text(self.text(comment), "utf-8")
        os.replace(aside, path)

    def text(self, comment: str) -> str:
        lines = [*(f"# {line}".rstrip() for line in comment.splitlines()), "", f"date = {self.date}", *_names("crates", self.crates)]
        if self.crates_in_groups:
            lines += _names("crates_in_groups", self.crates_in_groups)
        for one in sorted(self.advisories, key=lambda one: (one.crate, one.id)):
            lines += ["", "[[advisory]]", f"id = {_string(one.id)}", f"crate = {_string(one.crate)}", f"date = {one.date}",
                      f"kind = {_string(one.kind)}"]
            lines += [f"{name} = [{', '.join(map(_string, having))}]" for name, having in
                      (("patched", one.patched), ("unaffected", one.unaffected)) if having]
        for each in self.ignored:
            lines += ["", "[[ignored]]", f"id = {_string(each.id)}", f"reason = {_string(each.reason)}", f"until = {each.until}"]
        return "\n".join(lines) + "\n"


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    return {"patched": [], "unaffected": [], **one}


def _names(key: str, names: list[str]) -> list[str]:
    return [f"{key} = [", *(f"    {_string(name)}," for name in sorted(names)), "]"]


def _string(text: str) -> str:
    """TOML's basic strings are written as JSON's are."""
    return json.dumps(text, ensure_ascii=False)
