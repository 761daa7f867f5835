"""Read the rows of a log: JSON, lines of JSON, a table, or lines of a console.

`columns` knows the meaning of names; here only the search in lines of a console uses them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, cast

from pellucid.diagnosis.logs.columns import kind_of, names_of_measures, only_loss, plain
from pellucid.errors import PellucidError
from pellucid.reader import csv_rows, parse_json, parse_json_table

#: The numbers of one row, by name.
Row = dict[str, float]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf(?:inity)?)(?![a-z])"
_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_STEP_AND_LOSS = re.compile(rf"\s*\d+\s+(?:{_NUMBER})\s*", re.IGNORECASE)
_ABSENT = {"", "none", "null", "-", "n/a", "na"}
#: A number as NumPy and torch print it, such as `np.float64(1.5)` and `tensor(1.5, device='cpu')`.
_WRAPPED = re.compile(rf"(?:\w+\.)?(?:float\d*|tensor)\(({_NUMBER})[^()]*\)", re.IGNORECASE)
#: What Windows prints for a value that is not finite, such as `1.#INF`, `-1.#IND` and `1.#QNAN`.
_NOT_FINITE = re.compile(r"-?\b1\.?#(?P<kind>inf|\w+)\d*", re.IGNORECASE)
#: Both losses of a line behind one word, such as `loss train: 1.5, val: 1.6`.
_TWO_LOSSES = re.compile(r"\bloss train: *([^,\s]+), *val: *", re.IGNORECASE)
#: Composer's name of a loss.
_TOTAL = re.compile(r"\bloss/(train|eval)/total\b", re.IGNORECASE)
#: fairseq writes losses in bits, and two to their power as the perplexity.
_BITS = re.compile(rf"\bnll_loss\W+({_NUMBER})\W.*?\bppl\W+({_NUMBER})", re.IGNORECASE)
#: A rate that is 0, or less than so few decimals show.
_ROUNDED = re.compile(r"0\.0{3,5}")
#: The number of an update in front of a line without a name for it, such as `10: loss=2.5`.
_FIRST_NUMBER = re.compile(r"^\s*(\d+)\s*[:|]\s")
#: Quotation marks that a page put in place of straight ones.
_CURLY = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def rows_in(text: str, name: str = "") -> list[Row]:
    """The rows of a text, which may be none. `name` is the name of its file."""
    stripped = _WRAPPED.sub(r"\1", text.lstrip("\ufeff \t\r\n").translate(_CURLY))
    stripped = _NOT_FINITE.sub(lambda m: "inf" if m["kind"].lower() == "inf" else "nan", stripped)
    if stripped[:1] in ("{", "["):
        try:
            return _read_json(parse_json(stripped, name, lenient=True))
        except PellucidError:
            pass
    lines = [line for line in re.split(r"[\r\n]+", stripped) if line.strip()]
    return _read_json_lines(lines, name) or _read_table(lines, name) or _read_console(lines)


def number(value: object) -> float | None:
    """A number, or a text that is one; None for anything else."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if not isinstance(value, str) or value.strip().lower() in _ABSENT:
        return None
    try:
        return float(value.strip().strip("'\""))
    except ValueError:
        return None


def flat(record: Mapping[str, Any], before: str = "") -> Row:
    """The numbers of a record and of the records inside it; slashes join their names."""
    row: Row = {}
    for key, value in record.items():
        if isinstance(value, Mapping):
            row |= flat(cast("Mapping[str, Any]", value), f"{before}{key}/")
        elif (parsed := number(value)) is not None:
            row[f"{before}{key}"] = parsed
    return row


def flat_records(records: Sequence[Any]) -> list[Row]:
    """The numbers of each record in a list."""
    return [
        flat(cast("Mapping[str, Any]", record)) for record in records if isinstance(record, Mapping)
    ]


def _read_json(content: Any) -> list[Row]:
    """A list of records, or one record of lists."""
    if isinstance(content, list):
        return flat_records(cast("list[Any]", content))
    if not isinstance(content, Mapping):
        return []
    table = cast("Mapping[str, Any]", content)
    columns = {
        name: cast("list[Any]", column)
        for name, column in table.items()
        if isinstance(column, list) and column
    }
    if not columns:
        return [flat(table)]
    return [
        flat({name: column[i] for name, column in columns.items() if i < len(column)})
        for i in range(max(map(len, columns.values())))
    ]


def _read_json_lines(lines: Sequence[str], file: str) -> list[Row]:
    """One record a line; pellucid skips other lines, unless they are the majority."""
    rows: list[Row] = []
    for line in lines:
        with suppress(PellucidError):
            if line.lstrip().startswith("{"):
                rows.append(flat(parse_json_table(line, file, lenient=True)))
    return rows if 2 * len(rows) >= len(lines) else []


def _read_table(lines: Sequence[str], file: str) -> list[Row]:
    """A table with names in its first line; a table of one or two columns may have no names."""
    separators = [separator for separator in "\t;,|" if lines and separator in lines[0]]
    if separators == ["|"]:  # a table as Markdown has it
        lines = [line.strip().strip("|") for line in lines]
    if lines and all(_STEP_AND_LOSS.fullmatch(line) for line in lines):
        lines, separators = ["\t".join(line.split()) for line in lines], ["\t"]
    if lines and not separators and all(len(re.split(r"\s{2,}", x.strip())) > 2 for x in lines[:2]):
        lines, separators = [re.sub(r"\s{2,}", "\t", line.strip()) for line in lines], ["\t"]
    delimiter = separators[0] if separators else ","
    cells = [row for _, row in csv_rows(lines, file, delimiter, strict=False)]
    if not cells:
        return []
    names = [name.strip() for name in cells[0]]
    if all(number(name) is not None for name in names) and len(names) <= 2:
        usual_names = ["loss"] if len(names) == 1 else ["step", "loss"]
        return [_read_row(usual_names, row, delimiter) for row in cells]
    if {plain(name) for name in names} >= {"step", "value"}:
        # an export of TensorBoard's page: only the file's name has the tag
        names = [_tag_of_export(file) if plain(name) == "value" else name for name in names]
    if not any(kind_of(name) for name in names) and only_loss(names) is None:
        return []
    numbers_in_names = r"(?i)[:={]|\d\.\d|\bnan\b" + (r"|\s\d" if delimiter == "|" else "")
    if any(re.search(numbers_in_names, name) for name in names):
        return []  # a console's line with commas or bars in it
    return [_read_row(names, row, delimiter) for row in cells[1:]]


def _tag_of_export(file: str) -> str:
    """The name of the only column of an exported chart, from the name of its file."""
    plain_name = plain(file)
    tags = {"norm": "grad_norm", "learning_rate": "lr", "_lr": "lr", "val": "val_loss"}
    return next((name for part, name in tags.items() if part in plain_name), "loss")


def _read_row(names: Sequence[str], cells: Sequence[str], delimiter: str) -> Row:
    if delimiter == ";":
        cells = [cell.replace(",", ".") for cell in cells]
    numbers = {name: number(cell) for name, cell in zip(names, cells, strict=False)}
    return {name: value for name, value in numbers.items() if value is not None}


# ---- lines of a console

_LOSSES = (
    *("train[ _/]loss(?:_step|_epoch)?", "training[ _/]loss", "eval[ _/]loss"),
    *("val(?:id(?:ation)?)?[ _/]loss", "lm[ _]loss", "loss(?:_step|_epoch)?", "actor/pg_loss"),
)
_UPDATES = (
    *("(?:global|total)[ _]grad[ _]norm", "grad(?:ient)?[ _-]norm", "gnorm", "norm"),
    *("learning[ _]rate", r"lr-[a-z]\w*(?:/(?:pg|group)\d+)?(?!-)", "lr"),
)
#: Names that mean the loss in a row without one.
_SPARES = ("losses", "cost", "xent", "cross[ _-]?entropy", "ppl", "perplexity")
_NAME_AND_NUMBER = re.compile(
    r"(?<![\w/])(?:(?P<before>[A-Za-z]+)\.?[ _/-])?"
    rf"(?P<name>{'|'.join((*_LOSSES, *_UPDATES, *_SPARES))})\b(?: (?:value|error|cost|is))?"
    rf"['\"]?\s*[:=]?\s*\[?['\"]?(?P<value>{_NUMBER})",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"(?<![\w/])['\"]?(?:global[ _]?)?(?:iter(?:ation)?s?|steps?|updates?|num_updates)['\"]?"
    r"\s*[:=#]?\s*\[?['\"]?(?P<step>\d+)(?:\.0+)?(?![\d.]*\d)",
    re.IGNORECASE,
)
_EPOCH = re.compile(rf"['\"]?\bepoch['\"]?\s*[:=]?\s*\[?['\"]?(?P<epoch>{_NUMBER})", re.IGNORECASE)
_BAR = re.compile(r"(?:^\s*\d+\||\|\s*)(?P<step>\d+)(?:/\d+ \[|\|\s*Loss)")
_HELD_OUT = ("val", "valid", "validation", "eval", "test", "dev")
_TRAINED = ("train", "training", "lm")
#: The place in a name such as `valLoss` or `IDLoss` where a word begins.
_JOINED = re.compile(r"(?<=[A-Za-z])(?=Loss\b)")
#: Words before "loss" that make it another loss.
_UNWANTED = (
    *("aux", "auxiliary", "balancing", "z", "moe", "router", "mtp", "best", "min", "max"),
    *("weight", "param", "params", "parameter", "layer", "rms", "reg", "time"),
)


@cache
def _measures() -> re.Pattern[str]:
    """The names of columns of preferences and rewards, with a number behind them."""
    names = sorted(names_of_measures(), key=len, reverse=True)
    alternatives = "|".join(re.escape(name).replace("_", "[_ ]") for name in names)
    return re.compile(
        rf"(?<![\w/])(?P<name>{alternatives}|rewards/[\w@]+(?:/mean)?)['\"]?\s*[:=]?\s*['\"]?"
        rf"(?P<value>{_NUMBER})",
        re.IGNORECASE,
    )


#: The rank or the address of the process that printed a line, as torchrun and shells write it.
_RANK = re.compile(
    r"^\s*(?:\[(?:rank|default)[ :]?(\d+)\]|rank[ :=]*(\d+)\b|(\d+(?:\.\d+){3}|\d+):\s)", re.I
)


def _of_one_rank(lines: Sequence[str]) -> list[str]:
    """The lines of the first rank that wrote numbers, and those without a rank."""
    ranks = [match and next(filter(None, match.groups())) for match in map(_RANK.match, lines)]
    own_ranks = [rank for rank in ranks if rank]
    is_once = len(own_ranks) > 2 and len(set(own_ranks)) == len(own_ranks)
    if is_once and all(map(str.isdigit, own_ranks)):
        return list(lines)  # these are updates
    logged = (rank for rank, line in zip(ranks, lines, strict=True) if rank and _read_line(line))
    first = min(logged, key=lambda rank: [int(part) for part in rank.split(".")], default=None)
    return [line for rank, line in zip(ranks, lines, strict=True) if rank in (None, first)]


def _read_console(lines: Sequence[str]) -> list[Row]:
    rows: list[Row] = []
    first_numbers: list[int] = []
    bar_step: str | None = None
    for line in _of_one_rank([_COLOURS.sub("", line) for line in lines]):
        for bar in _BAR.finditer(line):
            bar_step = bar["step"]
        row = _read_line(line)
        if not row:
            continue
        step = match["step"] if (match := _STEP.search(line)) else bar_step
        if step is not None:
            row["step"] = float(step)
        if match := _EPOCH.search(line):
            row["epoch"] = float(match["epoch"])
        if match := _FIRST_NUMBER.match(line):
            first_numbers.append(int(match[1]))
        rows.append(row)
    if sum("step" in row for row in rows) < len(rows) / 2:  # some numbers look like steps
        for row in rows:
            row.pop("step", None)
    is_counted = len(first_numbers) == len(rows) and first_numbers == sorted(set(first_numbers))
    if is_counted and not any("step" in row for row in rows):
        for row, number_of_row in zip(rows, first_numbers, strict=True):
            row["step"] = float(number_of_row)
    return rows


def _read_line(line: str) -> Row:
    row: Row = {}
    spare: Row = {}
    if "train_runtime" in line:
        return row  # the summary of a whole training, not an update
    line = _TWO_LOSSES.sub(r"train loss: \1, val loss: ", _JOINED.sub(" ", line))
    line = _TOTAL.sub(r"\1 loss", line)
    for match in _NAME_AND_NUMBER.finditer(line):
        word_before = (match["before"] or "").lower()
        name, value = plain(match["name"]).replace("/", "_"), float(match["value"])
        is_rate = name.startswith(("lr", "learning"))
        if word_before in _UNWANTED or (is_rate and _ROUNDED.fullmatch(match["value"])):
            continue
        is_spare = re.fullmatch("|".join(_SPARES), name) is not None
        if name in ("ppl", "perplexity"):
            value = math.log(value) if value > 0 else math.nan
        elif name == "cost" and re.match(r"\s*m?s", line[match.end() :]):
            continue  # seconds
        name = _name_of_loss("loss" if is_spare else name, word_before, line[: match.start()])
        (spare if is_spare else row).setdefault(name, value)
    if not any("loss" in name for name in row):
        row |= spare
    if (bits := _BITS.search(line)) and _is_power_of_two(float(bits[1]), float(bits[2])):
        row |= {name: value * math.log(2) for name, value in row.items() if "loss" in name}
    for match in _measures().finditer(line):
        row.setdefault(match["name"], float(match["value"]))
    return row


def _is_power_of_two(exponent: float, power: float) -> bool:
    """Whether 2 to an exponent is this number, up to the digits of a log."""
    return exponent > 0 and power > 0 and abs(math.log2(power) - exponent) < 0.01


def _name_of_loss(name: str, word_before: str, text_before: str) -> str:
    """The name of a column, with "train" or "val" for a loss if the words before it say so."""
    says_held_out = "validation loss" in text_before.lower() and word_before[:5] != "train"
    is_loss = re.search(r"loss(_step|_epoch)?$", name)
    if is_loss and (word_before in _HELD_OUT or says_held_out):
        return "val_loss"
    return f"train_{name}" if name[:4] == "loss" and word_before in _TRAINED else name
