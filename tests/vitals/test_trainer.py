"""pellucid's own training, watched: silence on healthy runs, the right words on sick ones."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pellucid import config
from pellucid.batches import TokenBatch
from pellucid.model import assemble
from pellucid.training import Event, Job, Progress, Resumed, Started, Vitals, from_record, to_record
from pellucid.vitals import baselines, watcher
from support.nightly import sampled
from support.watched import adam, job_of, run_job, small, text, windows

EVERYTHING = watcher(max_overhead=None)


def vitals(events: Sequence[Event]) -> list[Vitals]:
    return [event for event in events if isinstance(event, Vitals)]


def words(events: Sequence[Event]) -> dict[str, set[str]]:
    """Every word that was said of each sign, calm left out."""
    found: dict[str, set[str]] = {}
    for event in vitals(events):
        for id, _, _, word, _, _ in event.signs:
            if word != "calm":
                found.setdefault(id, set()).add(word)
    return found


def with_rate(times: float) -> config.Run:
    run = small()
    assert isinstance(run.optimiser, config.Muon)
    rest = run.optimiser.rest
    faster = replace(
        run.optimiser,
        learning_rate=run.optimiser.learning_rate * times,
        rest=replace(rest, learning_rate=rest.learning_rate * times),
    )
    return replace(run, optimiser=faster)


def test_watching_pellucids_training_changes_no_bit() -> None:
    ends: list[dict[str, Tensor]] = []
    for watchers in ((), (EVERYTHING,)):
        job = job_of(small(), steps=30)
        run_job(job, watchers)
        ends.append(job.optimiser.state_tensors() | job.model.state_dict())
    assert ends[0].keys() == ends[1].keys()
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])


COMPILED = """if True:
    import json
    import torch
    from pellucid.training import Vitals
    from pellucid.vitals import watcher
    from support.watched import job_of, run_job, small

    compilations = []

    def counting(graph, inputs):
        compilations.append(graph)
        return graph.forward

    ends, counts = [], []
    for watchers in ((), (watcher(max_overhead=None),)):
        torch.compiler.reset()
        compilations.clear()
        job = job_of(small(), steps=8)
        for block in job.model.decoder.blocks:
            block.compile(backend=counting)
        events = run_job(job, watchers)
        ends.append(job.model.state_dict())
        counts.append(len(compilations))
    same = all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    last = [event for event in events if isinstance(event, Vitals)][-1]
    print(json.dumps([same, counts, "attention.max_logit" in {id for id, *_ in last.signs}]))
"""


def test_the_inside_of_compiled_blocks_is_seen_and_they_stay_compiled() -> None:
    # by itself: shapes that are checked at run time do not go with a compiler
    tests = Path(__file__).parents[1]
    done = subprocess.run(
        [sys.executable, "-c", COMPILED],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{tests}{os.pathsep}{tests.parent / 'src'}"},
    )
    assert done.returncode == 0, done.stderr
    same, (alone, watched), seen = json.loads(done.stdout.splitlines()[-1])
    assert same
    assert alone == watched > 0
    assert seen


@pytest.mark.parametrize("seed", sampled([1, 2, 3]))
@pytest.mark.parametrize("optimiser", [None, adam(3e-3)])
def test_healthy_runs_are_silent(seed: int, optimiser: config.AdamW | None) -> None:
    run = small() if optimiser is None else replace(small(), optimiser=optimiser)
    events = run_job(job_of(run, steps=150, seed=seed), [EVERYTHING])
    assert words(events) == {}
    last = vitals(events)[-1]
    assert last.rows == tuple(
        (name, "calm") for name in ("softmax", "cross-entropy", "KL", "gradients", "variance")
    )
    assert len(last.signs) <= 40


def test_a_learning_rate_far_too_high_is_sick_in_softmax_and_kl() -> None:
    found = words(run_job(job_of(with_rate(300), steps=60), [EVERYTHING]))
    assert "sick" in found["attention.max_logit"]
    assert "sick" in found["attention.entropy"]
    assert "sick" in found["update.kl_forward"]
    assert "sick" in found["loss.value"]


def test_a_learning_rate_far_too_low_is_a_loss_that_learns_nothing() -> None:
    events = run_job(job_of(with_rate(1e-3), steps=130), [EVERYTHING])
    found = words(events)
    assert found["loss.learnt"] == {"sick"}
    assert found["update.ratio"] == {"watch"}
    # softmax and variance have nothing to do with it
    assert not any(sign.startswith(("attention", "stream", "norm")) for sign in found)


def test_an_eps_that_swallows_the_gradient_is_told_from_a_low_rate() -> None:
    run = replace(small(), optimiser=adam(3e-3, eps=0.1))
    found = words(run_job(job_of(run, steps=40), [EVERYTHING]))
    assert set(found) == {"update.effective_step"}
    assert "sick" in found["update.effective_step"]


def test_a_residual_that_is_detached_cuts_the_gradient_by_depth() -> None:
    run = replace(small(), optimiser=adam(3e-3))
    model = assemble(run.model, seed=1)

    def detached(x: Tensor, norm: Any, layer: Any) -> Tensor:
        return x.detach() + layer(norm(x.detach()))

    assert model.decoder is not None
    model.decoder.blocks[2].residual = detached
    found = words(run_job(job_of(run, steps=40, model=model), [EVERYTHING]))
    assert found["gradient.depth_ratio"] == {"sick"}
    assert found["gradient.missing"] == {"sick"}


def test_no_residual_at_all_is_a_vanishing_gradient() -> None:
    run = replace(small(residual=config.NoResidual(), n_layers=6), optimiser=adam(3e-3))
    found = words(run_job(job_of(run, steps=40), [EVERYTHING]))
    assert found["gradient.depth_ratio"] == {"sick"}
    # outputs that begin at zero let nothing through at all
    assert found["gradient.zeros"] == {"sick"}


def test_weights_that_begin_too_large_are_seen_in_the_loss_and_in_softmax() -> None:
    run = small()
    wide = replace(
        run.model.initialisation, weights=config.Normal(std=1.0), embedding_std=1.0, outputs="plain"
    )
    run = replace(run, model=replace(run.model, initialisation=wide))
    found = words(run_job(job_of(run, steps=20), [EVERYTHING]))
    assert found["loss.value"] == {"sick"}
    assert "sick" in found["attention.max_logit"]


def test_weights_that_begin_too_small_leave_norms_to_divide_by_eps() -> None:
    run = replace(small(), optimiser=adam(3e-3))
    tiny = replace(run.model.initialisation, weights=config.Normal(std=1e-4), embedding_std=1e-4)
    run = replace(run, model=replace(run.model, initialisation=tiny))
    found = words(run_job(job_of(run, steps=12), [EVERYTHING]))
    assert set(found) == {"norm.variance_over_eps"}


def test_units_that_nothing_wakes_are_dead() -> None:
    run = replace(small(), optimiser=adam(3e-3))
    mlp = config.MLP(d_ff=128, activation="relu", bias=True)
    run = replace(
        run, model=replace(run.model, decoder=replace(run.model.decoder, feed_forward=mlp))
    )
    model = assemble(run.model, seed=1)
    assert model.decoder is not None
    for block in model.decoder.blocks:
        block.feed_forward.up.bias.data.fill_(-30.0)
    found = words(run_job(job_of(run, steps=60, model=model), [EVERYTHING]))
    assert found == {"units.dead": {"sick"}}


def test_labels_that_are_the_inputs_leave_cross_entropy_nothing_to_say() -> None:
    ids = text()

    def unshifted(place: int, n: int) -> TokenBatch:
        cut = windows(ids, n, 48, place)
        return TokenBatch(ids=cut.ids, targets=cut.ids, n_supervised=cut.n_supervised)

    found = words(run_job(job_of(small(), steps=110, batch=unshifted), [EVERYTHING]))
    assert "sick" in found["predictions.certain"]
    assert found["predictions.error_norm"] == {"sick"}


def test_labels_of_other_rows_leave_the_context_unused() -> None:
    ids = text()

    def shuffled(place: int, n: int) -> TokenBatch:
        cut = windows(ids, n, 48, place)
        turned = cut.targets.roll(1, 0).roll(11, 1)
        return TokenBatch(ids=cut.ids, targets=turned, n_supervised=cut.n_supervised)

    events = run_job(job_of(small(), steps=340, batch=shuffled), [EVERYTHING])
    assert words(events)["loss.context"] == {"watch"}


def test_what_labels_tell_is_what_is_known_of_a_process() -> None:
    # each label is the one before or the next of 8, evenly: H1 = ln 8, H2 = ln 2
    steps = torch.randint(2, (40, 2000), generator=torch.Generator().manual_seed(0))
    found = baselines((steps.cumsum(1) + torch.arange(40)[:, None]) % 8)
    assert found.unigram == pytest.approx(math.log(8), abs=1e-3)
    assert found.bigram == pytest.approx(math.log(2), abs=1e-3)


def test_vitals_survive_the_file() -> None:
    event = Vitals(
        step=3, signs=(("a.b", 1, math.nan, "sick", 3, ""),), rows=(("softmax", "sick"),)
    )
    back = from_record(to_record(event))
    assert isinstance(back, Vitals)
    assert math.isnan(back.signs[0][2])
    assert back.rows == event.rows


def test_a_resumed_run_takes_its_windows_back(tmp_path: Path) -> None:
    def saving(job: Job) -> Job:
        def save(step: int, checkpoint: object, best: bool) -> Path:
            return tmp_path / "checkpoints" / f"step-{step}"

        return replace(job, save=save, settings=replace(job.settings, checkpoint_every=10))

    first = Started(
        step=0, total_steps=20, name="t", guessing_nats=0.0, facts=(), folder=str(tmp_path)
    )
    run_job(saving(job_of(small(), steps=20)), [EVERYTHING], first=first)
    kept = (tmp_path / "vitals.json").read_text()
    assert '"10"' in kept
    assert '"20"' in kept
    resumed = Resumed(step=20, total_steps=40, checkpoint="x", folder=str(tmp_path))
    events = run_job(
        saving(job_of(small(), steps=40)),
        [EVERYTHING],
        first=resumed,
        progress=Progress(step=20, tokens=20 * 8 * 48),
    )
    steps = [event.step for event in vitals(events)]
    assert steps[0] == 21
    # a mean of 20 losses is there long before 20 more: the window came back
    early = {id for event in vitals(events) if event.step < 36 for id, *_ in event.signs}
    assert "loss.rise" in early
