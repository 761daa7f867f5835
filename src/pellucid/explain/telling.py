"""A chapter as JSON can hold it: for `--json`, for a page, for a file.

Comes in: a chapter. Goes out: plain values. Each receipt has its tree, what it comes to, and
whether that agrees. Operands of float32 are told in nine digits, which tell any two apart.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from typing import Any

from pellucid.explain.chapter import Chapter, Receipt
from pellucid.explain.expressions import plain
from pellucid.explain.spelling import spelled


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
    """Its fields, the tree as `expressions.plain` has it, and what comes of it."""
    told = {
        field.name: getattr(receipt, field.name)
        for field in fields(receipt)
        if field.name != "expression"
    }
    return told | {
        "expression": plain(receipt.expression, None if receipt.dtype == "float64" else 9),
        "spelled": spelled(receipt.expression),
        "recomputed": receipt.recomputed,
        "difference": receipt.recomputed - receipt.model,
        "agrees": receipt.agrees,
    }
