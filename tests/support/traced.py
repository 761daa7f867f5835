"""Every small model that is traced: twins of the presets, variants, encoders, pairs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pellucid.diagnosis import reduce_model
from pellucid.explain import Trace, trace
from pellucid.explain.expressions import Apply, Expression, Number, Vector
from pellucid.model import Transformer
from pellucid.presets import PRESETS
from support.models import ENCODERS, PAIRS, VARIANTS, random_ids

TWINS = {name: replace(reduce_model(run.model), vocab_size=23) for name, run in PRESETS.items()}
MODELS = {
    **{f"preset {name}": model for name, model in TWINS.items()},
    **VARIANTS,
    **{f"encoder {name}": model for name, model in ENCODERS.items()},
    **{f"pair {name}": model for name, model in PAIRS.items()},
}


def traced(model: Transformer, time: int = 7) -> Trace:
    """A trace of random ids, with a source where the model reads one."""
    pair = model.encoder is not None and model.decoder is not None
    source = random_ids(1, time + 2, seed=5) if pair else None
    return trace(model, ids=random_ids(1, time), source_ids=source)


def operands(expression: Expression) -> Iterator[Number | Vector]:
    """All operands of a tree."""
    if isinstance(expression, Apply):
        for part in expression.arguments:
            yield from operands(part)
    else:
        yield expression
