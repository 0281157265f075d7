"""What was compared, as a picture: one bar for each program in each row, as long as its time over pstore's."""

from __future__ import annotations

from html import escape

WIDTH, LABEL, BAR, GAP, HEAD = 860, 190, 13, 22, 58
COLOURS = ("#1a73e8", "#9aa0a6", "#e8a33d", "#6aa84f", "#b3599b", "#5f6368")


def bars(title: str, rows: dict[str, dict[str, float]], names: list[str], base: str = "pstore", most: float = 8.0) -> str:
    """An SVG document. Bars end at `most` times the base's; what is longer says by how much."""
    rows = {row: cells for row, cells in rows.items() if cells.get(base)}
    height = HEAD + len(rows) * (len(names) * BAR + GAP) + 8
    room = WIDTH - LABEL - 120
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
           f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>']
    for at, name in enumerate(names):
        x = 12 + at * 130
        out.append(f'<rect x="{x}" y="32" width="11" height="11" fill="{COLOURS[at % len(COLOURS)]}"/>'
                   f'<text x="{x + 16}" y="42">{escape(name)}</text>')
    y = HEAD
    for row, cells in rows.items():
        middle = y + len(names) * BAR / 2 + 4
        out.append(f'<text x="{LABEL - 8}" y="{middle:.0f}" text-anchor="end">{escape(row)}</text>')
        for at, name in enumerate(names):
            value = cells.get(name)
            if value is not None:
                ratio = value / cells[base]
                length = max(1.0, min(ratio, most) / most * room)
                shown = f"{ratio:.2f}" + (" →" if ratio > most else "")
                out.append(f'<rect x="{LABEL}" y="{y + at * BAR}" width="{length:.1f}" height="{BAR - 2}" fill="{COLOURS[at % len(COLOURS)]}"/>'
                           f'<text x="{LABEL + length + 4:.1f}" y="{y + at * BAR + 10}" font-size="10" fill="#3c4043">{shown}</text>')
        y += len(names) * BAR + GAP
    line = LABEL + room / most
    out.append(f'<line x1="{line:.1f}" y1="{HEAD - 6}" x2="{line:.1f}" y2="{height - 10}" stroke="#1a73e8" stroke-dasharray="3 3"/>')
    return "\n".join([*out, "</svg>"]) + "\n"
