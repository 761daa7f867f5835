"""The five equations of a run as rows: a word each, the number that speaks, and why.

1 softmax        calm   attention.max_logit        3.21
2 cross-entropy  sick   loss.value                 1.42
sick above 1: the loss above ln V, where guessing stands; the mean of 20 updates
"""

from __future__ import annotations

from dataclasses import dataclass

from rich.text import Text

from pellucid.display.numbers import short
from pellucid.display.terminal_text import fitted, folded, visible
from pellucid.training import events

_NAME, _WORD, _SIGN, _VALUE = 14, 5, 23, 8
#: A word is told by its letters; the colour only helps.
_STYLES = {"calm": "green", "watch": "bold yellow", "sick": "bold red", "": "dim"}
_NOT_YET = "not measured yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalRow:
    """One equation: its word, and the sign that speaks for it. Without a word all else is empty."""

    number: int
    name: str
    word: str
    sign: str = ""
    value: float = 0.0
    where: str = ""
    why: str = ""

    @property
    def place(self) -> str:
        """Where in the model, as words; empty where it is nowhere by itself."""
        return f"in {self.where}" if self.where else ""


def rows_of(event: events.Vitals) -> list[VitalRow]:
    """The rows of an event, in the order of the equations."""
    rows: list[VitalRow] = []
    speakers = event.speakers or (("", ""),) * len(event.rows)
    spoken_rows = zip(event.rows, speakers, strict=True)
    for number, ((name, word), (speaker, why)) in enumerate(spoken_rows, start=1):
        sign = next(
            (
                (id, value, where)
                for id, equation, value, its_word, _, where in event.signs
                if (id == speaker if speaker else equation == number and its_word == word)
            ),
            None,
        )
        if not word or sign is None:
            rows.append(VitalRow(number=number, name=name, word=""))
            continue
        id, value, where = sign
        rows.append(
            VitalRow(
                number=number, name=name, word=word, sign=id, value=value, where=where, why=why
            )
        )
    return rows


def row_lines(event: events.Vitals, columns: int, *, why_lines: int = 2) -> list[Text]:
    """Five lines, and below each that is not calm where, and why, in at most so many lines."""
    lines: list[Text] = []
    for row in rows_of(event):
        head = f"{row.number} {fitted(row.name, _NAME)} "
        if not row.word:
            lines.append(Text.assemble(head, (_NOT_YET, "dim")))
            continue
        number = f"{fitted(visible(row.sign), _SIGN)} {short(row.value):>{_VALUE}}"
        word = (f"{row.word:<{_WORD}}", _STYLES.get(row.word, ""))
        lines.append(Text.assemble(head, word, "  ", number, no_wrap=True, overflow="ellipsis"))
        if row.word != "calm":
            explanation = visible("; ".join(part for part in (row.why, row.place) if part))
            parts = folded(explanation, columns - 2)
            if len(parts) > why_lines:
                parts = [
                    *parts[: why_lines - 1],
                    fitted(" ".join(parts[why_lines - 1 :]), columns - 2),
                ]
            lines += [Text(f"  {part}", style="dim", no_wrap=True) for part in parts if part]
    return lines


def in_short(event: events.Vitals, columns: int) -> list[Text]:
    """The names and words alone, in as few lines as hold them."""
    lines = [Text()]
    for row in rows_of(event):
        cell = Text.assemble(f"{row.name} ", (row.word or "–", _STYLES.get(row.word, "")))
        if lines[-1].cell_len and lines[-1].cell_len + 2 + cell.cell_len > columns:
            lines.append(Text())
        lines[-1].append_text(Text("  ") if lines[-1].cell_len else Text()).append_text(cell)
    return lines


class Changes:
    """Says when a row's word became another; a run begins calm, and what is calm says nothing."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def lines(self, event: events.Vitals) -> list[str]:
        """A line for each row whose word is no more what it was."""
        lines: list[str] = []
        for row in rows_of(event):
            if row.word and row.word != self._words.get(row.name, "calm"):
                lines.append(f"step {event.step} {_format_row(row)}")
            self._words[row.name] = row.word or self._words.get(row.name, "calm")
        return lines


def _format_row(row: VitalRow) -> str:
    if row.word == "calm":
        return f"{row.name}: calm again"
    number = " ".join(part for part in (row.sign, short(row.value), row.place) if part)
    return f"{row.name}: {row.word}, {number}" + (f" ({row.why})" if row.why else "")
