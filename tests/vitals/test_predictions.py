"""What a look reads of predictions: a few places at a time, and of those alone that it looks at."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pellucid.batches import IGNORED, TokenBatch
from pellucid.maths import forward_kl, reverse_kl
from pellucid.vitals.async_metrics import AsyncMetrics
from pellucid.vitals.model_parts import study
from pellucid.vitals.predictions import Predicted, error_norm
from pellucid.vitals.probe import ProbeRunner, places_of
from pellucid.vitals.probe_rows import probe_of
from support.models import VARIANTS, build, random_ids


def numbers(metrics: AsyncMetrics) -> dict[str, float]:
    metrics.turn(1)
    read = metrics.read()
    assert read is not None
    return {column.id: values[0] for column, values in read[1]}


def drawn(places: int, vocab: int, seed: int) -> Tensor:
    return torch.randn(places, vocab, generator=torch.Generator().manual_seed(seed))


def test_a_few_places_at_a_time_give_what_all_at_once_do() -> None:
    before, after = drawn(21, 2**18, 0), drawn(21, 2**18, 1)  # eight fit at once
    targets = torch.arange(21) * 1000
    metrics = AsyncMetrics()
    Predicted(before, targets).measure(metrics)
    Predicted(before, targets).record_change(Predicted(after, targets), metrics)
    found = numbers(metrics)
    log_p = before.log_softmax(-1).gather(1, targets[:, None])
    wanted = {
        "logits.log_z": before.logsumexp(-1).mean(),
        "loss.probe": -log_p.mean(),
        "predictions.error_norm": error_norm(before, targets).mean(),
        "update.kl_forward": forward_kl(after, before).mean(),
        "update.kl_backward": reverse_kl(after, before).mean(),
    }
    for name, value in wanted.items():
        assert math.isclose(found[name], float(value), rel_tol=1e-5), name


def test_where_nothing_is_predicted_there_is_nothing_to_look_at() -> None:
    model = build(VARIANTS["rotary"])
    ids = random_ids(3, 12)
    nothing = torch.full_like(ids, IGNORED)
    probe = probe_of(model, TokenBatch(ids=ids, targets=nothing, n_supervised=0))
    metrics = AsyncMetrics()
    assert ProbeRunner(study(model), probe).measure(metrics) is None
    assert "logits.log_z" not in numbers(metrics)


def test_logits_are_computed_where_something_is_predicted() -> None:
    model = build(VARIANTS["rotary"]).eval()
    ids = random_ids(3, 12)
    targets = ids[:, 1:].clone()
    targets[0, :5] = IGNORED
    probe = probe_of(model, TokenBatch(ids=ids[:, :-1], targets=targets, n_supervised=28))
    places = places_of(targets)
    assert len(places) == 28
    with torch.no_grad():
        logits = probe.call()
        whole = model(ids[:, :-1]).flatten(0, 1)
    assert logits is not None
    torch.testing.assert_close(logits, whole[places])
    assert probe.labels is not None
    assert torch.equal(probe.labels, targets.flatten()[places])


def test_of_many_places_some_are_looked_at_from_the_first_to_the_last() -> None:
    places = places_of(torch.zeros(4, 500, dtype=torch.int64))
    assert len(places) == 256
    assert (int(places[0]), int(places[-1])) == (0, 1999)
