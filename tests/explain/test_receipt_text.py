"""A receipt as it is shown comes to what it shows: in a terminal, in JSON and on the page."""

from __future__ import annotations

import json
import math
import random
import re
from typing import Any

import pytest
import torch

from pellucid.cli.output.chapter import receipt_lines
from pellucid.errors import PellucidError
from pellucid.explain import Trace
from pellucid.explain.addresses.chain import equation_of
from pellucid.explain.addresses.recompute import pattern_of
from pellucid.explain.chapter_json import plain_receipt
from pellucid.explain.chapter_types import Place, Receipt
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.explain.expressions import Apply, Expression, Number, Vector, evaluate
from pellucid.explain.receipt_text import format_expression, format_receipt, round_operands
from pellucid.web.json_payload import chapter_payload
from support.models import build
from support.nightly import sampled
from support.traced import MODELS, traced

PLACE = Place(token=4, other=2, layer=1, head=1, feature=3, row=2, column=1)
#: Always run; the other kinds of model are nightly.
SAMPLE = ("sinks", "busy head")
_NAMES = {
    **{name: getattr(math, name) for name in ("exp", "log", "tanh", "erf", "sin", "cos")},
    "step": lambda x: float(x > 0),
    "bfloat16": lambda x: float(torch.tensor(x, dtype=torch.float64).bfloat16()),
}


def computed(text: str) -> float:
    """The value of a line of operands, by nothing but the numbers written in it."""
    text = re.sub(r" \([\d,]+ more\)", "", text)
    for sign, operator in (("×", "*"), ("·", "*"), ("^", "**"), ("√", "sqrt"), ("−", "-")):
        text = text.replace(sign, operator)
    names: dict[str, Any] = {**_NAMES, "sqrt": math.sqrt, "max": max, "min": min}
    return float(eval(text, {"__builtins__": {}}, names))


def last_digit(text: str) -> float:
    """What one more in the last digit of a number as it is written would add."""
    digits, _, power = text.partition("e")
    decimals = len(digits.partition(".")[2])
    return 10.0 ** (int(power or 0) - decimals)


def assert_holds(operands: str, result: str) -> None:
    # half of the last digit, and what adding up in another order may do
    distance = abs(computed(operands) - float(result))
    assert distance <= 0.5000001 * last_digit(result) + 1e-15, (operands, result, distance)


def receipts_of(trace: Trace) -> list[Receipt]:
    receipts: list[Receipt] = []
    for entry in CHAPTERS:
        try:
            receipts += build_chapter(trace, entry.id, PLACE).receipts
        except PellucidError:
            continue  # a model without a head has no chapter of words
    return receipts


def plain_value(tree: dict[str, Any]) -> Expression:
    """A tree of JSON as an expression again."""
    if "op" in tree:
        return Apply(tree["op"], tuple(map(plain_value, tree["of"])))
    return Vector(tuple(tree["values"])) if "values" in tree else Number(tree["value"])


def check(receipt: Receipt) -> None:
    lines = " ".join(line.strip() for line in receipt_lines(receipt))
    spelled = re.search(
        r" = (?P<put_in>[^=]+) = (?P<result>\S+) the model has (?P<model>\S+):", lines
    )
    assert spelled is not None, lines
    assert_holds(spelled["put_in"], spelled["result"])
    assert float(spelled["model"]) == pytest.approx(receipt.model, abs=last_digit(spelled["model"]))

    plain = json.loads(json.dumps(plain_receipt(receipt)))
    assert evaluate(plain_value(plain["expression"])) == pytest.approx(
        plain["recomputed"], rel=1e-14
    )
    assert plain["difference"] == plain["recomputed"] - plain["model"]
    assert plain["agrees"] == (abs(plain["difference"]) <= plain["allowed"])
    assert_holds(plain["spelled"], plain["shown"]["recomputed"])

    line = format_receipt(
        receipt
    )  # what the page writes; its table has every operand in these digits
    assert evaluate(round_operands(receipt.expression, line.digits)) == pytest.approx(
        float(line.result), abs=0.5000001 * last_digit(line.result) + 1e-15
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=() if n in SAMPLE else (pytest.mark.nightly,)) for n in MODELS],
)
def test_every_receipt_as_it_is_shown_comes_to_the_result_as_it_is_shown(name: str) -> None:
    receipts = receipts_of(traced(build(MODELS[name], double=False)))
    assert receipts
    for receipt in receipts:
        check(receipt)


@pytest.mark.parametrize("name", sampled(MODELS, every=40))
def test_so_does_a_number_of_every_kind_of_address(name: str) -> None:
    trace, draw = traced(build(MODELS[name], double=False)), random.Random(0)
    by_kind = {pattern_of(address): address for address in trace.addresses()}
    if trace.loss is not None:
        by_kind |= {pattern_of(address): address for address in trace.backward().addresses()}
    for address in by_kind.values():
        if isinstance(equation_of(trace, address), str) or not trace[address].numel():
            continue
        place = [draw.randrange(size) for size in trace[address].shape]
        check(trace.receipt(address, *place))


def test_the_page_is_sent_the_line_that_a_terminal_shows() -> None:
    trace = traced(build(MODELS["rotary"], double=False))
    chapter = build_chapter(trace, "nudge", PLACE)
    for sent_receipt, receipt in zip(
        chapter_payload(chapter)["receipts"], chapter.receipts, strict=True
    ):
        line = format_receipt(receipt)
        assert (sent_receipt["spelled"], sent_receipt["digits"]) == (line.operands, line.digits)
        assert_holds(sent_receipt["spelled"], line.result)


def test_a_nudge_is_written_in_the_digits_in_which_two_losses_differ() -> None:
    trace = traced(build(MODELS["rotary"], double=False))
    slope = build_chapter(trace, "nudge", PLACE).receipts[0]
    loss_below, loss_above = re.findall(r"\d\.\d{9,}", format_receipt(slope).operands)[:2]
    assert loss_below != loss_above


def test_terms_that_are_not_written_are_one_number_that_counts_them() -> None:
    row = Vector((1.0, 2.0, 3.0, 4.0))
    assert format_expression(Apply("dot", (row, row)), 4) == "1·1 + 2·2 + 25 (2 more)"
    parts = (*map(Number, (1.0, 2.0, 3.0)), Number(7.0, "1,040 more"))
    assert format_expression(Apply("sum", parts), 4) == "1 + 2 + 10 (1,041 more)"


def test_what_is_allowed_is_shown_as_it_is_compared() -> None:
    large = Receipt(
        title="a large number",
        formula="x",
        expression=Number(1000.004),
        model=1000.0,
        tolerance=1e-5,
        address="x[0]",
        source="s:1",
    )
    assert large.agrees
    assert "4e-03 apart, 1e-02 allowed" in " ".join(receipt_lines(large))
