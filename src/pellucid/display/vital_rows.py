"""The five equations of a run as rows: a word, the number that decides it, and the rule.

1 softmax        calm   attention.max_logit        3.21
2 cross-entropy  sick   loss.value                 1.42
sick above 1: the loss above ln V
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rich.text import Text

from pellucid.display.numbers import short
from pellucid.display.terminal_text import fitted, folded, visible
from pellucid.training import events

_NAME, _WORD, _SIGN, _VALUE = 14, 5, 23, 8
#: The letters distinguish words; the colour only helps.
_STYLES = {"calm": "green", "watch": "bold yellow", "sick": "bold red", "": "dim"}
_NOT_YET = "not measured yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class VitalRow:
    """One equation: its word, and the sign that decides it; without a word the rest is empty."""

    number: int
    name: str
    word: str
    sign: str = ""
    value: float = 0.0
    place: str = ""
    rule: str = ""


def rows_of(event: events.Vitals) -> list[VitalRow]:
    """The rows of an event, in the order of the equations."""
    rows: list[VitalRow] = []
    speakers = event.speakers or (("", ""),) * len(event.rows)
    spoken_rows = zip(event.rows, speakers, strict=True)
    for number, ((name, word), (speaker, rule)) in enumerate(spoken_rows, start=1):
        row = VitalRow(number=number, name=name, word="")
        for id, equation, value, sign_word, _, place in event.signs if word else ():
            if id == speaker if speaker else (equation, sign_word) == (number, word):
                place = f"in {place}" if place else ""
                row = replace(row, word=word, sign=id, value=value, place=place, rule=rule)
                break
        rows.append(row)
    return rows


def row_lines(event: events.Vitals, columns: int, *, rule_lines: int = 2) -> list[Text]:
    """Five lines; below each that is not calm its rule and place, in at most so many lines."""
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
            explanation = visible("; ".join(part for part in (row.rule, row.place) if part))
            parts = folded(explanation, columns - 2)
            if len(parts) > rule_lines:
                parts = [
                    *parts[: rule_lines - 1],
                    fitted(" ".join(parts[rule_lines - 1 :]), columns - 2),
                ]
            lines += [Text(f"  {part}", style="dim", no_wrap=True) for part in parts if part]
    return lines


def short_lines(event: events.Vitals, columns: int) -> list[Text]:
    """Only the names and words, in as few lines as possible."""
    lines = [Text()]
    for row in rows_of(event):
        cell = Text.assemble(f"{row.name} ", (row.word or "–", _STYLES.get(row.word, "")))
        if lines[-1].cell_len and lines[-1].cell_len + 2 + cell.cell_len > columns:
            lines.append(Text())
        lines[-1].append_text(Text("  ") if lines[-1].cell_len else Text()).append_text(cell)
    return lines


class Changes:
    """Reports the rows whose word has changed; every row begins calm."""

    def __init__(self) -> None:
        self._words: dict[str, str] = {}

    def lines(self, event: events.Vitals) -> list[str]:
        """A line for each row whose word has changed."""
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
    return f"{row.name}: {row.word}, {number}" + (f" ({row.rule})" if row.rule else "")
