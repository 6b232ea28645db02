"""The planner's alternatives for some bytes, for a terminal and for a notebook."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

CHEAPEST = 3
"""The number of encodings of each tier that are shown besides the chosen ones."""
HEAD = ("replica", "tier", "encoding", "stored", "cost", "verdict")
STYLE = "text-align: left; font-weight: {}; padding: 0 0.8em 0 0"


@dataclass(frozen=True)
class Row:
    """An encoding on a tier, considered for a replica."""

    replica: int
    tier: str
    encoding: str
    stored: int
    cost: float
    verdict: str
    chosen: bool


@dataclass(frozen=True)
class Explanation:
    """The placement of some bytes, and the alternatives to it. It prints as a table."""

    report: dict[str, Any]
    words: str

    @property
    def data(self) -> dict[str, Any]:
        """The whole explanation, as `terrace explain --json` prints it."""
        found: dict[str, Any] = self.report["of"]
        return found

    @property
    def rows(self) -> list[Row]:
        """All alternatives."""
        return list(self._rows())

    def _rows(self) -> Iterator[Row]:
        replicas = self.data["explanation"]["replicas"]
        for number, (replica, verdicts) in enumerate(zip(replicas, self.report["verdicts"])):
            for weighed, (encoding, verdict) in zip(replica["weighed"], verdicts):
                chosen = isinstance(weighed["verdict"], dict) and "chosen" in weighed["verdict"]
                yield Row(number, weighed["tier"], encoding, weighed["stored"], weighed["cost"], verdict, chosen)

    def _shown(self) -> list[Row]:
        """Returns the chosen encodings, and the cheapest ones of each tier."""
        seen: dict[tuple[int, str], int] = {}
        shown = []
        for row in sorted(self._rows(), key=lambda row: row.cost):
            place = seen[row.replica, row.tier] = seen.get((row.replica, row.tier), 0) + 1
            if row.chosen or place <= CHEAPEST:
                shown.append(row)
        return sorted(shown, key=lambda row: (row.replica, not row.chosen, row.cost))

    def _cells(self) -> list[tuple[tuple[str, ...], bool]]:
        unit, scale = ("J", 1.0) if self.data["explanation"]["energy"] else ("ms", 1e3)
        cells = [
            (str(row.replica), row.tier, row.encoding, str(row.stored), f"{row.cost * scale:.3f} {unit}", row.verdict)
            for row in self._shown()
        ]
        return list(zip(cells, (row.chosen for row in self._shown())))

    @property
    def summary(self) -> str:
        """The type of the bytes and their placement, in a line."""
        of, data = self.data["explanation"], self.data
        placed = sum(bool(replica["pieces"]) for replica in of["replicas"])
        known = ", ".join(filter(None, [data["format"], data["elements"], data["distribution"]]))
        return f"{of['bytes']} bytes ({known}): {placed} of {of['wanted']} replicas, {of['stored']} bytes stored"

    def __str__(self) -> str:
        rows = [HEAD, *(cells for cells, _ in self._cells())]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
        return "\n".join([self.summary, *lines])

    def __repr__(self) -> str:
        return f"<Explanation: {self.summary}>"

    def _repr_html_(self) -> str:
        def line(cells: tuple[str, ...], tag: str, weight: str) -> str:
            style = STYLE.format(weight)
            return "<tr>" + "".join(f'<{tag} style="{style}">{escape(cell)}</{tag}>' for cell in cells) + "</tr>"

        body = "".join(line(cells, "td", "bold" if chosen else "normal") for cells, chosen in self._cells())
        return f"<p>{escape(self.summary)}</p><table>{line(HEAD, 'th', 'bold')}{body}</table>"
