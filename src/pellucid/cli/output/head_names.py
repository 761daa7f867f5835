"""`pellucid explain --name-heads`: the heads of a run by what they measurably do."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING

from pellucid.cli.output.printing import print_result

if TYPE_CHECKING:
    from pellucid.explain.why.behaviours import HeadNames
    from pellucid.runs import Run


def print_head_names(run: Run, arguments: argparse.Namespace) -> None:
    """Measure all heads, and print their names and scores.

    Raises:
        PellucidError: the model has no heads that pellucid can read, or reads two texts.
    """
    from pellucid.explain.why.behaviours import NAME_THRESHOLD, name_heads

    head_names = name_heads(run)
    facts = {
        "text": head_names.text,
        "named_from": NAME_THRESHOLD,
        "heads": [asdict(head) | {"names": list(head.names)} for head in head_names.heads],
    }
    print_result(arguments, facts, _lines(head_names, NAME_THRESHOLD))


def _lines(head_names: HeadNames, threshold: float) -> Iterator[str]:
    columns = [behaviour.name for behaviour in head_names.heads[0].behaviours]
    yield f"{'head':<8} " + " ".join(f"{name:>14}" for name in columns)
    for head in head_names.heads:
        scores = " ".join(
            f"{behaviour.score:>6.2f} ({behaviour.chance:.2f})" for behaviour in head.behaviours
        )
        yield f"{head.head:<8}  {scores}"
        if head.names:
            yield f"{'':<8}  {', '.join(head.names)}"
    yield ""
    yield (
        "the share of attention that goes to the keys of each behaviour, and what an even look\n"
        f"would give; measured on {head_names.text}, and induction and duplicate\n"
        f"on random tokens that repeat. A head has a name from {threshold:g} of the way from "
        "chance to 1."
    )
