"""One table describes every address: its shape, gradient, receipt, and documentation."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import pellucid
from pellucid import explain
from pellucid.explain import Trace
from pellucid.explain.addresses.table import ADDRESSES, format_addresses
from support.models import BASE, ENCODERS, PAIRS, build
from support.traced import TWINS, traced

ROOT = Path(explain.__file__).parents[3]


def test_every_row_has_all_four_or_says_why_not() -> None:
    for row in ADDRESSES:
        assert callable(row.forward)
        for member in (row.backward, row.receipt):
            assert callable(member) or len(member.split()) >= 4, row.pattern
        assert len(row.doc.split()) >= 2, row.pattern
    patterns = [row.pattern for row in ADDRESSES]
    assert len(patterns) == len(set(patterns))


def test_receipts_of_gradients_and_of_a_step_have_addresses_too() -> None:
    text_trace = traced(build(TWINS["gpt2"]))  # its table is tied
    weight = "decoder.blocks.0.feed_forward.up.weight"
    for address in (
        "grad_norm",
        "error[2, 5]",
        "token_embedding.weight.grad.head[4, 1]",
        "token_embedding.weight.grad.input[4, 1]",
        f"{weight}.next[3, 2]",
        f"{weight}.m[3, 2]",
        f"{weight}.v[3, 2]",
        "after_update.loss",
        "after_update.L1.H0.scores[3, 1]",
    ):
        assert text_trace.receipt(address).agrees, address


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("L0.H0.mask.grad", "a mask is true or false"),
        ("probabilities.grad", "fixed by the loss"),
        ("L0.H0.score.grad", "there is no 'L0.H0.score.grad'"),
        ("class_logits.grad", "there is no 'class_logits.grad'"),
        ("L0.H0.gate.grad", "there is no 'L0.H0.gate.grad'"),
    ],
)
def test_a_gradient_that_is_not_kept_says_why(address: str, reason: str) -> None:
    text_trace = traced(build(BASE))
    with pytest.raises(pellucid.PellucidError, match=reason):
        text_trace.backward()[address]


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("L0.H0.scores", "write it as L0.H0.scores.0, 0."),
        ("L0.H0.scores[1, :]", "a receipt is of one number"),
        ("L0.H0.scores[9, 0]", "lies outside"),
        ("head.weights[0, 0]", "there is no 'head.weights"),
        ("token_embedding.weight[0, 0]", "it is learned"),
        ("loss.grad", "every gradient is of this loss"),
        ("nonsense[0]", "there is no 'nonsense"),
    ],
)
def test_a_receipt_that_there_is_not_says_why(address: str, reason: str) -> None:
    text_trace = traced(build(BASE))
    with pytest.raises(pellucid.PellucidError, match=reason):
        text_trace.receipt(address)


@pytest.mark.parametrize("found", [BASE, ENCODERS["bert"], PAIRS["original"]])
def test_a_trace_is_what_its_protocol_says(found: object) -> None:
    found_trace = traced(build(found))  # pyright: ignore[reportArgumentType]
    assert isinstance(found_trace, Trace)


def test_the_documentation_shows_the_table() -> None:
    text = (ROOT / "docs" / "explain.md").read_text("utf-8")
    table = text.split("<!-- addresses -->\n")[1].split("\n<!-- /addresses -->")[0]
    assert table == format_addresses(), "run format_addresses() and paste it into docs/explain.md"


def test_no_module_of_the_room_imports_itself_in_a_circle() -> None:
    """Counting the imports for types alone, and those within functions."""
    folder = ROOT / "src"
    files = {
        ".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__init__"): path
        for path in (folder / "pellucid" / "explain").rglob("*.py")
    }
    imported = {
        module: {
            name
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.ImportFrom) and node.module is not None
            for alias in node.names
            for name in (f"{node.module}.{alias.name}", node.module)
            if name in files and not files[name].name.startswith("__init__")
        }
        for module, path in files.items()
        if not path.name.startswith("__init__")
    }
    assert len(imported) > 60
    while unimported := [
        module for module, names in imported.items() if not names & imported.keys()
    ]:
        for module in unimported:
            del imported[module]
    assert not imported, f"these import each other in a circle: {sorted(imported)}"
