"""Times of pstore beside two others, and remarks, as one page."""

from __future__ import annotations

COLUMNS = {"pstore": "pstore", "cp": "copy on disk", "squashfs": "squashfuse"}


class Notes:
    def __init__(self) -> None:
        self.rows: dict[str, dict[str, list[float]]] = {}
        self.remarks: dict[str, str] = {}
        """What to say of a row; the last round's stays."""

    def add(self, row: str, name: str, seconds: float) -> None:
        self.rows.setdefault(row, {}).setdefault(name, []).append(seconds)

    def remark(self, row: str, text: str) -> None:
        self.remarks[row] = text

    def __str__(self) -> str:
        """The best of the rounds; in brackets, pstore over the other."""
        lines = [f"| | {' | '.join(COLUMNS.values())} |", f"|---|{'---|' * len(COLUMNS)}"]
        for row, cells in self.rows.items():
            best = {name: min(values) for name, values in cells.items()}
            lines.append(f"| {row} | {' | '.join(self._cell(best, name) for name in COLUMNS)} |")
        return "\n".join([*lines, "", *(f"- {row}: {text}" for row, text in self.remarks.items())])

    @staticmethod
    def _cell(best: dict[str, float], name: str) -> str:
        if name not in best:
            return "–"
        ratio = f" ({best['pstore'] / best[name]:.2f}x)" if name != "pstore" and "pstore" in best else ""
        return f"{best[name] * 1000:.1f} ms{ratio}"
