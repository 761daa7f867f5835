"""Read the rows in lines that a training printed to its console, whatever tool wrote them.

Must not know: what the numbers say.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache

from pellucid.diagnosis.logs.columns import names_of_measures, plain
from pellucid.diagnosis.logs.lines import NUMBER, Row, join_rows, leaves_loss_out, name_numbers

_COLOURS = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
#: Both losses of a line behind one word, such as `loss train: 1.5, val: 1.6`.
_TWO_LOSSES = re.compile(
    r"\bloss train(?: \([\w ]+\))?: *([^,\s]+), *val(?: \([\w ]+\))?: *", re.IGNORECASE
)
#: Composer's name of a loss.
_TOTAL = re.compile(r"\bloss/(train|eval)/total\b", re.IGNORECASE)
#: fairseq writes losses in bits, and two to their power as the perplexity.
_BITS = re.compile(rf"(?:\b|_)nll_loss\W+({NUMBER})\W.*?(?:\b|_)ppl\W+({NUMBER})", re.IGNORECASE)
#: A rate that is 0, or less than so few decimals show.
_ROUNDED = re.compile(r"0\.0{3,5}")
#: The number of an update in front of a line without a name for it, such as `10: loss=2.5`.
_FIRST_NUMBER = re.compile(r"^\s*(\d+)\s*[:|]\s")
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
    rf"['\"]?\s*[:=]?\s*\[?['\"]?(?P<value>{NUMBER})",
    re.IGNORECASE,
)
_NUMBER_AND_NAME = re.compile(
    rf"(?:^|[,;|])\s*(?P<value>{NUMBER}) (?P<name>(?:train |val(?:idation)? )?loss|lr|grad norm)"
    r"\b(?!\s*[:=\d])",
    re.IGNORECASE,
)
#: What a loss is multiplied by before its gradient is taken in float16; 1 where it is not.
_SCALE = re.compile(rf"\bloss[ _]scale['\"]?\s*[:= ]\s*(?P<value>{NUMBER})")
#: The lowest held-out loss so far, as fairseq prints it behind the present one.
_BEST = re.compile(rf"\bnum_updates \d+ \| best(?:_loss)? (?P<value>{NUMBER})")
_STEP = re.compile(
    r"(?<![\w/])['\"]?(?:global[ _]?)?(?:iter(?:ation)?s?|steps?|updates?|num_updates|up\.)['\"]?"
    r"\s*[:=#]?\s*\[?['\"]?(?P<step>\d+)(?:\.0+)?(?![\d.]*\d)",
    re.IGNORECASE,
)
_EPOCH = re.compile(rf"['\"]?\bepoch['\"]?\s*[:=]?\s*\[?['\"]?(?P<epoch>{NUMBER})", re.IGNORECASE)
_BAR = re.compile(r"(?:^\s*\d+\||\|\s*)(?P<step>\d+)(?:/\d+ \[|\|\s*Loss)")
_HELD_OUT = ("val", "valid", "validation", "eval", "test", "dev")
_HELD_OUT_TAG = re.compile(rf"\[(?:{'|'.join(_HELD_OUT)})\]", re.IGNORECASE)
_TRAINED = ("train", "training", "lm")
#: The place in a name such as `valLoss` or `IDLoss` where a word begins.
_JOINED = re.compile(r"(?<=[A-Za-z])(?=Loss\b)")
#: Words before "loss" that make it another loss.
_UNWANTED = (
    "critic",  # of PPO: its gradients and its rate are not the policy's
    *("aux", "auxiliary", "balancing", "z", "moe", "router", "mtp", "best", "min", "max"),
    *("weight", "param", "params", "parameter", "layer", "rms", "reg", "time"),
)


@cache
def _measures() -> re.Pattern[str]:
    """The names of columns of preferences and rewards, with a number behind them."""
    names = sorted(names_of_measures(), key=len, reverse=True)
    alternatives = "|".join(re.escape(name).replace("_", "[_ ]") for name in names)
    return re.compile(
        rf"(?<![\w/-])(?<!cross )(?P<name>{alternatives}|rewards/[\w@]+(?:/mean)?)"
        rf"['\"]?\s*[:=]?\s*['\"]?(?P<value>{NUMBER})",
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


def read_console(lines: Sequence[str]) -> list[Row]:
    """The rows of numbers with names in the lines, which may be none."""
    rows: list[Row] = []
    first_numbers: list[int] = []
    bar_step: str | None = None
    name_of_loss: str | None = None
    plain_lines = [_COLOURS.sub("", line) for line in lines]
    for line in name_numbers(join_rows(_of_one_rank(plain_lines))):
        for bar in _BAR.finditer(line):
            bar_step = bar["step"]
        row = _read_line(line) or _read_reversed(line)
        if not row:
            continue
        name_of_loss = next((n for n in row if n in ("loss", "train_loss")), name_of_loss)
        if name_of_loss is not None and leaves_loss_out(line):
            row[name_of_loss] = math.nan
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
    if match := _BEST.search(line):
        row["best_val_loss"] = float(match["value"])
    if (bits := _BITS.search(line)) and _is_power_of_two(float(bits[1]), float(bits[2])):
        row |= {name: value * math.log(2) for name, value in row.items() if "loss" in name}
    if match := _SCALE.search(line):
        row["loss_scale"] = float(match["value"])
    for match in _measures().finditer(line):
        row.setdefault(match["name"], float(match["value"]))
    return row


def _read_reversed(line: str) -> Row:
    """A row whose numbers stand before their names, such as `2.5 loss, 0.001 LR`."""
    matches = _NUMBER_AND_NAME.finditer(line)
    row = {plain(match["name"]): float(match["value"]) for match in matches}
    return row if any("loss" in name for name in row) else {}


def _is_power_of_two(exponent: float, power: float) -> bool:
    """Whether 2 to an exponent is this number, up to the digits of a log."""
    return exponent > 0 and power > 0 and abs(math.log2(power) - exponent) < 0.01


def _name_of_loss(name: str, word_before: str, text_before: str) -> str:
    """The name of a column, with "train" or "val" for a loss if the words before it say so."""
    is_tagged = _HELD_OUT_TAG.search(text_before) or "validation loss" in text_before.lower()
    says_held_out = is_tagged and word_before[:5] != "train"
    is_loss = re.search(r"loss(_step|_epoch)?$", name)
    if is_loss and (word_before in _HELD_OUT or says_held_out):
        return "val_loss"
    return f"train_{name}" if name[:4] == "loss" and word_before in _TRAINED else name
