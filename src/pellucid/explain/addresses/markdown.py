"""The table of all addresses, as docs/explain.md shows it."""

from __future__ import annotations

from pellucid.explain.addresses.layer_table import FAMILIES
from pellucid.explain.addresses.table import ADDRESSES

_HEADINGS = ("address", "what it is", "shape", "gradient", "receipt")


def format_addresses() -> str:
    """One row of Markdown for each row of the table, and one line for each family of parts."""
    rows = [
        (
            f"`{row.pattern}`",
            row.about,
            ", ".join(row.axes) or "one number",
            row.backward if isinstance(row.backward, str) else "yes",
            row.receipt if isinstance(row.receipt, str) else "yes",
        )
        for row in ADDRESSES
    ]
    lines = [f"| {' | '.join(cells)} |" for cells in (_HEADINGS, ("---",) * 5, *rows)]
    families = [f"- `{{{name}}}`: {_list(parts)}" for name, parts in FAMILIES.items()]
    return "\n".join([*lines, "", *families])


def _list(parts: tuple[str, ...]) -> str:
    return ", ".join(f"`{part}`" for part in parts)
