"""Tables from samples, and whether the aims are met."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from statistics import mean
from typing import Any

from .aims import AIMS, Aim, aim_for
from .record import Record, Sample
from .roster import ROSTER

STORED = ["first", "first, cold source", "unchanged", "incremental", "new host", "restore first, cold",
          "restore first, cold, durable", "restore last, cold", "restore last, cold, durable"]
MOUNTED = ["mount, first byte", "mount, 50 MB", "mount, whole tree"]
PAGES = ["Chromium to first page, cold", "store to first page, cold"]
AFTER = ["session, snapshot", "session, commit", "export, zstd -9", "export, zstd -3", "drop all but the newest"]
SHORT = {"wall": "time", "bytes": "bytes", "rss": "memory"}
ROWS = STORED + MOUNTED + PAGES + AFTER

Values = dict[str, dict[str, float]]
"""Row to program to value."""


class Report:
    def __init__(self, record: Record, names: list[str]) -> None:
        self.record = record
        self.names = names
        self.base = "pstore" if "pstore" in names else names[0]
        self.tables: dict[str, tuple[str, str, Values]] = {
            "wall": ("Wall time", "s", self._table(lambda s: s.cost.wall, ROWS)),
            "cpu": ("CPU time, user + system; of the server alone where something is mounted", "s",
                    self._table(lambda s: s.cost.cpu, STORED + MOUNTED + AFTER)),
            "rss": ("Largest resident set", "MiB", self._memory()),
            "bytes": ("Bytes: added to the store, of the archive, or in the store", "MB", self._bytes()),
            "objects": ("Objects (files) in the store", "", {
                "first": self._pick("first", lambda s: float(s.objects)),
                "all generations": self._at_end(lambda s: float(s.objects))}),
        }

    def _table(self, value: Callable[[Sample], float], rows: list[str]) -> Values:
        return {row: found for row in rows if (found := self._pick(row, value))}

    def _pick(self, row: str, value: Callable[[Sample], float]) -> dict[str, float]:
        """The best of the rounds; over several generations, the mean of those."""
        out: dict[str, float] = {}
        for name in self.names:
            of_row = [s for s in self.record.samples if s.row == row and s.peer == name]
            if of_row and name not in self.record.failures.get(row, {}):
                out[name] = mean(min(value(s) for s in of_row if s.generation == g) for g in {s.generation for s in of_row})
        return out

    def _at_end(self, value: Callable[[Sample], float]) -> dict[str, float]:
        kept = [s for s in self.record.samples if s.row == "incremental" or s.row == "first"]
        last = max(s.generation for s in kept)
        return {name: min(value(s) for s in kept if s.peer == name and s.generation == last) for name in self.names}

    def _bytes(self) -> Values:
        made = ["first", "unchanged", "incremental", "new host", "session, commit", "export, zstd -9", "export, zstd -3"]
        left = self._pick("drop all but the newest", lambda s: s.stored_bytes / 1e6)
        return {**self._table(lambda s: s.made_bytes / 1e6, made),
                "in the store after all generations": self._at_end(lambda s: s.stored_bytes / 1e6),
                **({"in the store when the others are dropped": left} if left else {})}

    def _memory(self) -> Values:
        rows = {row: {name: max(sizes) for name in self.names if (sizes := [
            s.cost.rss / 2**20 for s in self.record.samples if s.row in of and s.peer == name and s.cost.rss])}
            for row, of in (("snapshot and restore", STORED), ("mount", MOUNTED), ("export", AFTER[2:4]),
                            ("drop all but the newest", AFTER[4:]))}
        return {row: values for row, values in rows.items() if values}

    def verdict(self, aim: Aim) -> tuple[float, bool] | None:
        """Ours against the aim's yardstick; None when one of them did not run."""
        values = self.tables[aim.table][2].get(aim.row, {})
        if "pstore" not in values:
            return None
        yardstick = 1.0
        if aim.against:
            other = self.best(aim.table, aim.row, "deduplicates", "archives") if aim.against == "best" else aim.against
            if other not in values:
                return None
            yardstick = values[other]
        measured = values["pstore"] / yardstick
        return measured, measured <= aim.limit

    def best(self, table: str, row: str, *kinds: str) -> str | None:
        """The other program of these kinds with the least in that row."""
        others = {name: value for name, value in self.tables[table][2].get(row, {}).items()
                  if name != self.base and ROSTER[name].kind in kinds}
        return min(others, key=lambda name: others[name]) if others else None

    def markdown(self) -> str:
        out = ["## In short", "", *self._short(), "", *self._ahead(), ""]
        for title, unit, values in self.tables.values():
            out += [f"## {title}", "", f"| | {' | '.join(self.names)} |", f"|---|{'---|' * len(self.names)}"]
            out += [f"| {row} | {' | '.join(self._cell(row, cells, name, unit) for name in self.names)} |" for row, cells in values.items()]
            out.append("")
        wrong = {name: count for name, count in self.record.differences.items() if count}
        out.append("Restored trees equal their source." if not wrong else "Restored trees that differ from their source (paths): "
                   + ", ".join(f"{name} {count}" for name, count in wrong.items()))
        out += [f"- {name} failed at «{row}»: {' '.join(text.split())[:200]}" for row, failed in self.record.failures.items()
                for name, text in failed.items()]
        return "\n".join(out) + "\n"

    def _short(self) -> list[str]:
        """A line for each row: ours, the best of each kind of program over it, and what we want."""
        out = [f"| | {self.base} | best that deduplicates | best archive | plain copy | aim |", "|---|---|---|---|---|---|"]
        for key, what in SHORT.items():
            out.append(f"| **{what}** | | | | | |")
            for row, cells in self._ours(key):
                others = " | ".join(self._over(cells, self.best(key, row, kind)) for kind in ("deduplicates", "archives", "copies"))
                out.append(f"| {row} | {_shown(self.tables[key][1], cells[self.base])} | {others} | {self._aim_cell(aim_for(key, row))} |")
        return out

    def _ours(self, key: str) -> list[tuple[str, dict[str, float]]]:
        return [(row, cells) for row, cells in self.tables[key][2].items() if self.base in cells]

    def _ahead(self) -> list[str]:
        """The rows in which another program that deduplicates needs less."""
        out = []
        for key, what in SHORT.items():
            ahead = [f"{row} ({name} {cells[name] / cells[self.base]:.2f})" for row, cells in self._ours(key)
                     if (name := self.best(key, row, "deduplicates")) and cells[name] < cells[self.base]]
            if ahead:
                out.append(f"- {what}: {'; '.join(ahead)}")
        if not out:
            return [f"No other program that deduplicates needs less than {self.base} in any of these rows."]
        return [f"Another program that deduplicates needs less than {self.base} (= 1) here:", "", *out]

    def _over(self, cells: dict[str, float], name: str | None) -> str:
        """A program's ratio to ours, bold where it is ahead."""
        if name is None:
            return "–"
        if not cells[self.base]:
            return name
        text = f"{name} {cells[name] / cells[self.base]:.2f}"
        return f"**{text}**" if cells[name] < cells[self.base] else text

    def _aim_cell(self, aim: Aim | None) -> str:
        if aim is None:
            return ""
        verdict = self.verdict(aim)
        if verdict is None:
            return aim.text()
        return f"{aim.text()}: {verdict[0]:.2g} {'met' if verdict[1] else '**missed**'}"

    def _cell(self, row: str, cells: dict[str, float], name: str, unit: str) -> str:
        if name in self.record.failures.get(row, {}):
            return "failed"
        base, value = cells.get(self.base), cells.get(name)
        if value is None:
            return "–"
        ratio = f"{value / base:.2f} " if base else ""
        return f"{ratio}({_shown(unit, value)})"

    def data(self) -> dict[str, Any]:
        return {
            "tables": {key: values for key, (_, _, values) in self.tables.items()},
            "aims": [{**asdict(aim), "measured": verdict and verdict[0], "met": verdict and verdict[1]}
                     for aim in AIMS for verdict in [self.verdict(aim)]],
            "differences": dict(self.record.differences),
            "failures": {row: dict(failed) for row, failed in self.record.failures.items()},
        }


def _shown(unit: str, value: float) -> str:
    if unit == "s":
        return f"{value:.2f} s" if value >= 0.1 else f"{value * 1000:.0f} ms"
    if unit == "MB":
        return f"{value:.1f} MB" if value >= 1 else f"{value * 1000:.0f} kB"
    return f"{value:.0f} {unit}".strip()
