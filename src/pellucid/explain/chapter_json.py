"""A chapter as plain values: for `--json`, for a page, for a file.

Each receipt has its tree, the result of that very tree, and whether it agrees with the model.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from typing import Any

from pellucid.explain.chapter_types import Chapter, Receipt
from pellucid.explain.expressions import Expression, evaluate, to_plain
from pellucid.explain.receipt_text import format_receipt, round_operands

_FLOAT32 = 9


def plain_chapter(chapter: Chapter) -> dict[str, Any]:
    """Every field by its name; pictures have their `kind`."""
    return {
        "id": chapter.id,
        "number": chapter.number,
        "part": chapter.part,
        "title": chapter.title,
        "sentence": chapter.sentence,
        "pictures": [asdict(picture) for picture in chapter.pictures],
        "receipts": [plain_receipt(receipt) for receipt in chapter.receipts],
        "notes": list(chapter.notes),
    }


def plain_receipt(receipt: Receipt) -> dict[str, Any]:
    """Its fields, the tree as `expressions.to_plain` has it, and the result of that very tree."""
    plain_fields = {
        field.name: getattr(receipt, field.name)
        for field in fields(receipt)
        if field.name not in ("expression", "list_operands")
    }
    receipt = replace(receipt, expression=_round_operands(receipt))
    line = format_receipt(receipt)
    return plain_fields | {
        "expression": to_plain(receipt.expression),
        "spelled": line.operands,
        "shown": {"recomputed": line.result, "model": line.model, "digits": line.digits},
        "recomputed": receipt.recomputed,
        "difference": receipt.recomputed - receipt.model,
        "allowed": receipt.allowed,
        "agrees": receipt.agrees,
    }


def _round_operands(receipt: Receipt) -> Expression:
    """Operands in nine digits, which tell any two float32 apart; in all if the result needs them.

    A difference of two nearly equal losses does; so does a model in float64.
    """
    short = round_operands(receipt.expression, _FLOAT32)
    rounding_error = abs(evaluate(short) - receipt.recomputed)
    exact = receipt.dtype == "float64" or rounding_error > receipt.allowed / 100
    return receipt.expression if exact else short
