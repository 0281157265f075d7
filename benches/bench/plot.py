"""What was compared, as a picture: in each row a dot for each program, as far right as its time is over pstore's."""

from __future__ import annotations

from html import escape
from math import log10

WIDTH, LABEL, LINE, HEAD, FOOT = 860, 210, 26, 64, 30
LEAST, MOST = 0.1, 100.0
COLOURS = ("#1a73e8", "#d93025", "#e8a33d", "#6aa84f", "#b3599b", "#00838f", "#795548", "#5f6368", "#bdbdbd")


def dots(title: str, rows: dict[str, dict[str, float]], names: list[str], base: str = "pstore") -> str:
    """An SVG document: a logarithmic axis, the base's dots on its line at 1, what is beyond an end at that end."""
    rows = {row: cells for row, cells in rows.items() if cells.get(base)}
    bottom = HEAD + len(rows) * LINE
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + FOOT}" font-family="sans-serif" font-size="12">',
           f'<rect width="{WIDTH}" height="{bottom + FOOT}" fill="#ffffff"/>',
           f'<text x="12" y="22" font-size="15" font-weight="bold">{escape(title)}</text>']
    for at, name in enumerate(names):
        x = 16 + at * 92
        out.append(f'<circle cx="{x}" cy="42" r="5" fill="{_colour(at)}"/><text x="{x + 10}" y="46">{escape(name)}</text>')
    for ratio, label in ((0.1, "0.1"), (0.3, "0.3"), (1, "1: as " + base), (3, "3"), (10, "10 times as long"), (30, "30"), (100, "100")):
        x = _across(ratio)
        strong = 'stroke="#1a73e8" stroke-width="2"' if ratio == 1 else 'stroke="#dadce0"'
        out.append(f'<line x1="{x:.1f}" y1="{HEAD - 6}" x2="{x:.1f}" y2="{bottom}" {strong}/>'
                   f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle" font-size="11" fill="#3c4043">{escape(label)}</text>')
    for number, (row, cells) in enumerate(rows.items()):
        y = HEAD + number * LINE + LINE / 2
        out.append(f'<text x="{LABEL - 14}" y="{y + 4:.0f}" text-anchor="end">{escape(row)}</text>'
                   f'<line x1="{LABEL}" y1="{y:.0f}" x2="{WIDTH - 16}" y2="{y:.0f}" stroke="#f1f3f4"/>')
        # Ours last: it lies above the others.
        for at, name in sorted(enumerate(names), key=lambda item: item[1] == base):
            if cells.get(name) is not None:
                ratio = cells[name] / cells[base]
                out.append(f'<circle cx="{_across(ratio):.1f}" cy="{y:.0f}" r="5" fill="{_colour(at)}" stroke="#ffffff">'
                           f"<title>{escape(name)} {ratio:.2f}</title></circle>")
    return "\n".join([*out, "</svg>"]) + "\n"


def _across(ratio: float) -> float:
    share = (log10(min(max(ratio, LEAST), MOST)) - log10(LEAST)) / (log10(MOST) - log10(LEAST))
    return LABEL + share * (WIDTH - 40 - LABEL)


def _colour(at: int) -> str:
    return COLOURS[at % len(COLOURS)]
