"""Tables from samples, and whether the aims are met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from .course import Record, Sample

ROWS = ["first", "first, cold source", "unchanged", "incremental", "new host", "restore first, cold", "restore last, cold"]


@dataclass(frozen=True)
class Aim:
    """`limit` times what the program or the best of all others needs; absolute without `against`."""

    table: str
    row: str
    limit: float
    against: str | None

    def text(self) -> str:
        return f"≤ {self.limit:g}x {self.against}" if self.against else f"≤ {self.limit:g}"


AIMS = [
    Aim("wall", "first", 0.8, "tar"),
    Aim("wall", "unchanged", 0.1, "best"),
    Aim("wall", "incremental", 0.3, "best"),
    Aim("wall", "new host", 0.4, "best"),
    Aim("wall", "restore first, cold", 1.1, "tar"),
    Aim("wall", "restore last, cold", 1.1, "tar"),
    Aim("rss", "any row", 120, None),
    Aim("added", "incremental", 0.8, "restic"),
    Aim("added", "new host", 0.8, "restic"),
    Aim("objects", "first", 20, None),
]

Values = dict[str, dict[str, float]]
"""Row to program to value."""


class Report:
    def __init__(self, record: Record, names: list[str]) -> None:
        self.record = record
        self.names = names
        self.base = "pstore" if "pstore" in names else names[0]
        self.tables: dict[str, tuple[str, str, Values]] = {
            "wall": ("Wall time", "{:.2f} s", self._table(lambda s: s.cost.wall)),
            "cpu": ("CPU time, user + system", "{:.2f} s", self._table(lambda s: s.cost.cpu)),
            "rss": ("Largest resident set", "{:.0f} MiB", self._largest_rss()),
            "added": ("Bytes added to the store per snapshot", "{:.1f} MB", self._table(
                lambda s: s.added_bytes / 1e6, ["first", "unchanged", "incremental", "new host"])),
            "stored": ("Bytes in the store after the last generation", "{:.1f} MB", {
                "all generations": self._at_end(lambda s: s.stored_bytes / 1e6)}),
            "objects": ("Objects (files) in the store", "{:.0f}", {
                "first": self._pick("first", lambda s: float(s.objects)),
                "all generations": self._at_end(lambda s: float(s.objects))}),
        }

    def _table(self, value: Callable[[Sample], float], rows: list[str] = ROWS) -> Values:
        return {row: found for row in rows if (found := self._pick(row, value))}

    def _pick(self, row: str, value: Callable[[Sample], float]) -> dict[str, float]:
        """The best of the rounds; over several generations, the mean of those."""
        out: dict[str, float] = {}
        for name in self.names:
            of_row = [s for s in self.record.samples if s.row == row and s.peer == name]
            if of_row:
                out[name] = mean(min(value(s) for s in of_row if s.generation == g) for g in {s.generation for s in of_row})
        return out

    def _at_end(self, value: Callable[[Sample], float]) -> dict[str, float]:
        kept = [s for s in self.record.samples if s.row == "incremental" or s.row == "first"]
        last = max(s.generation for s in kept)
        return {name: min(value(s) for s in kept if s.peer == name and s.generation == last) for name in self.names}

    def _largest_rss(self) -> Values:
        rows = {row: {name: max((s.cost.rss / 2**20 for s in self.record.samples if s.row == row and s.peer == name), default=0.0)
                      for name in self.names} for row in ("first", "incremental", "restore last, cold")}
        rows = {row: values for row, values in rows.items() if any(values.values())}
        rows["any row"] = {name: max(s.cost.rss / 2**20 for s in self.record.samples if s.peer == name) for name in self.names}
        return rows

    def verdict(self, aim: Aim) -> tuple[float, bool] | None:
        """Ours against the aim's yardstick; None when one of them did not run."""
        values = self.tables[aim.table][2].get(aim.row, {})
        ours = values.get("pstore")
        others = {name: value for name, value in values.items() if name != "pstore"}
        if ours is None or (aim.against == "best" and not others) or (aim.against not in (None, "best") and aim.against not in others):
            return None
        yardstick = 1.0 if aim.against is None else min(others.values()) if aim.against == "best" else others[aim.against]
        measured = ours / yardstick
        return measured, measured <= aim.limit

    def _best(self, aim: Aim) -> str:
        """The program that `best` means in the aim's row."""
        others = {name: value for name, value in self.tables[aim.table][2].get(aim.row, {}).items() if name != "pstore"}
        return f" ({min(others, key=lambda name: others[name])})" if aim.against == "best" and others else ""

    def markdown(self) -> str:
        out = []
        for key, (title, unit, values) in self.tables.items():
            out += [f"### {title}", "", f"| row | aim | {' | '.join(self.names)} |", f"|---|---|{'---|' * len(self.names)}"]
            for row, cells in values.items():
                aim = next((a for a in AIMS if (a.table, a.row) == (key, row)), None)
                out.append(f"| {row} | {self._aim_cell(aim)} | {' | '.join(self._cell(cells, name, unit) for name in self.names)} |")
            out.append("")
        wrong = {name: count for name, count in self.record.differences.items() if count}
        out.append("Restored trees equal their source." if not wrong else "Restored trees that differ from their source (paths): "
                   + ", ".join(f"{name} {count}" for name, count in wrong.items()))
        return "\n".join(out) + "\n"

    def _aim_cell(self, aim: Aim | None) -> str:
        if aim is None:
            return ""
        verdict = self.verdict(aim)
        text = aim.text() + self._best(aim)
        if verdict is None:
            return text
        return f"{text}: {verdict[0]:.3g} {'met' if verdict[1] else '**missed**'}"

    def _cell(self, cells: dict[str, float], name: str, unit: str) -> str:
        base, value = cells.get(self.base), cells.get(name)
        if value is None:
            return ""
        ratio = f"{value / base:.2f} " if base else ""
        return f"{ratio}({unit.format(value)})"

    def data(self) -> dict[str, Any]:
        return {
            "tables": {key: values for key, (_, _, values) in self.tables.items()},
            "aims": [{**asdict(aim), "measured": verdict and verdict[0], "met": verdict and verdict[1]}
                     for aim in AIMS for verdict in [self.verdict(aim)]],
            "differences": dict(self.record.differences),
        }
