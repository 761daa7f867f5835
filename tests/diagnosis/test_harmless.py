"""A probe or a cause that raises is a finding of its own, and the others are asked all the same."""

from __future__ import annotations

import math
import random
import signal
import sys
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from pellucid.diagnosis import (
    Expectations,
    History,
    causes,
    check,
    declare,
    diagnose,
    history_of_watch,
    read_codes,
)
from pellucid.diagnosis.history.history import Facts, Reading
from pellucid.errors import ConfigError, PellucidError
from pellucid.vitals import rules_of, watch
from support.foreign import VOCAB, Block, Model, ids_of, loss_of, made
from support.nightly import sampled
from support.untouched import everything, generators, same

MODULE = sys.modules[check.__module__]
PROBES = sorted(name for name in vars(MODULE) if name.startswith("probe_"))


class BoomError(Exception):
    """Raised on purpose."""


def boom(*_: Any, **__: Any) -> Any:
    raise BoomError("on purpose")


def sick() -> History:
    """A training that many causes fit."""
    losses = tuple((step, 3.0 + 0.1 * step) for step in range(1, 60))
    signs = {id: tuple(Reading(s, 1e6, "sick") for s in (1, 5, 10, 20)) for id in rules_of()}
    facts = Facts(vocab_size=VOCAB, learning_rate=30.0, betas=(0.9, 0.95), optimiser="AdamW")
    return History(name="sick", losses=losses, signs=signs, facts=facts)


def codes(history: History) -> list[str]:
    return [each.code for each in diagnose(history)]


@pytest.mark.parametrize("place", sampled(range(len(causes.CAUSES)), 9))
def test_every_cause_may_raise_and_the_others_are_found(
    place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = list(causes.CAUSES)

    def raising(course: Any) -> Any:
        raise BoomError("on purpose")

    raising.__name__ = every[place].__name__
    without = [cause for cause in every if cause is not every[place]]
    monkeypatch.setattr(causes, "CAUSES", tuple(without))
    wanted = codes(sick())
    every[place] = raising
    monkeypatch.setattr(causes, "CAUSES", tuple(every))
    findings = diagnose(sick())
    assert sorted(each.code for each in findings) == sorted([*wanted, "SEE001"])
    unseen = next(each for each in findings if each.code == "SEE001")
    assert "was not examined, because BoomError: on purpose" in unseen.what
    assert unseen.severity == "note"
    assert "SEE001" not in [each.code for each in diagnose(sick(), ignore=["SEE001"])]


def strange(seed: int) -> History:
    """A history of odd numbers: some not finite, some missing, some huge."""
    draws = random.Random(seed)
    odd = [math.nan, math.inf, -math.inf, 0.0, -1.0, 1e-300, 1e300, 2.5, 7.0]

    def points(n: int) -> tuple[tuple[int, float], ...]:
        return tuple((step, draws.choice(odd)) for step in range(1, 1 + n))

    n = draws.choice([0, 1, 2, 5, 30, 200])
    signs = {
        id: tuple(Reading(step, value, draws.choice(["calm", "sick"])) for step, value in points(n))
        for id in rules_of()
        if draws.random() < 0.6
    }
    facts = {
        name: draws.choice([None, *odd])
        for name in ("learning_rate", "eps", "weight_decay", "clip_norm", "unigram", "bigram")
    }
    return History(
        name="strange",
        losses=points(n),
        held_out=points(n // 3),
        grad_norms=points(n),
        rates=points(n),
        signs=signs,
        facts=Facts(vocab_size=draws.choice([None, 1, 2, VOCAB]), betas=(0.9, 1.0), **facts),
    )


def test_odd_numbers_make_no_cause_raise() -> None:
    for seed in range(60):
        assert "SEE001" not in codes(strange(seed)), seed


@pytest.mark.parametrize("name", sampled(PROBES))
def test_every_probe_may_raise_and_the_others_are_asked(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MODULE, name, boom)
    probes = MODULE._PROBES_OF_CODE
    if name in (each.__name__ for each in probes):
        probes = tuple(boom if each.__name__ == name else each for each in probes)
        monkeypatch.setattr(MODULE, "_PROBES_OF_CODE", probes)
    monkeypatch.setattr(MODULE, "probe_overfit", boom if name == "probe_overfit" else _nothing)
    model = made()
    ids = ids_of(0)
    before, chance = everything(model), generators()
    findings = check(
        model, ids, ids, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), tokenizer=[1, 2]
    )
    assert [key for key, value in everything(model).items() if not same(before[key], value)] == []
    assert all(map(same, chance, generators()))
    unseen = [each for each in findings if each.code == "SEE001"]
    assert len(unseen) == 1
    assert "was not examined, because BoomError: on purpose" in unseen[0].what
    if name != "probe_labels":
        assert "LOS001" in [each.code for each in findings]  # labels are the ids themselves


def _nothing(*_: Any) -> list[Any]:
    return []


def test_a_model_that_cannot_be_run_is_a_warning_and_data_are_looked_at() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(VOCAB, 4)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            raise BoomError("of the model")

    findings = check(Broken(), [ids_of(0), ids_of(0)])
    said = {each.code: each for each in findings}
    assert said["SEE001"].severity == "warn"
    assert "BoomError: of the model" in said["SEE001"].what
    assert "DAT001" in said


def test_a_model_that_gives_no_logits_is_still_refused() -> None:
    with pytest.raises(PellucidError, match="does not map"):
        check(nn.Sequential(nn.Embedding(VOCAB, 4), nn.Flatten(0)))


def test_memory_that_runs_out_while_weights_are_copied_leaves_the_model_as_it_was(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from pellucid.diagnosis import preserve_state as context

    module = sys.modules[context.__module__]
    model, copied = made(), []
    real = module._copy

    def scarce(tensor: torch.Tensor, dtype: Any) -> torch.Tensor:
        copied.append(tensor)
        if len(copied) > 5:
            raise MemoryError("no more")
        return real(tensor, dtype)

    before = everything(model)
    monkeypatch.setattr(module, "_copy", scarce)
    with pytest.raises(MemoryError), context(model):
        pass
    assert [key for key, value in everything(model).items() if not same(before[key], value)] == []


@pytest.mark.parametrize("pattern", ["*wte*", "(", "[a", "+"])
def test_a_pattern_that_is_none_is_refused_in_words(pattern: str) -> None:
    for make in (lambda: declare(frozen=[pattern]), lambda: Expectations(frozen=(pattern,))):
        with pytest.raises(ConfigError, match="is not a regular expression") as refused:
            make()
        assert repr(pattern) in str(refused.value)
    if pattern == "*wte*":
        assert "write 'wte'" in str(refused.value)


@pytest.mark.parametrize("frozen", ["wte", [3], 3])
def test_patterns_that_are_no_list_of_texts_are_refused(frozen: Any) -> None:
    with pytest.raises(ConfigError, match="must be a list of patterns"):
        declare(frozen=frozen)


def test_what_a_signal_handler_raises_ends_a_check(monkeypatch: pytest.MonkeyPatch) -> None:
    def handler(number: int, frame: Any) -> None:
        raise BoomError("stop now")

    before = signal.signal(signal.SIGUSR2, handler)
    monkeypatch.setattr(MODULE, "probe_ties", lambda _: signal.raise_signal(signal.SIGUSR2))
    try:
        with pytest.raises(BoomError, match="stop now"):
            check(made())
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_what_could_not_be_looked_at_has_a_code() -> None:
    assert read_codes()["SEE001"].severity == "note"


class AttentionBlock(Block):
    """A block whose norms are calls of a function, or of none."""

    is_normed = True

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.attention_norm, self.norm = Scaled(self), Scaled(self)


class Scaled(nn.Module):
    """Divides by the root mean square, or leaves as it is."""

    def __init__(self, block: AttentionBlock) -> None:
        super().__init__()
        self.is_normed = block.is_normed

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.square().mean(-1, keepdim=True) + 1e-6).rsqrt() if self.is_normed else x


class BareAttentionBlock(AttentionBlock):
    is_normed = False


@pytest.mark.parametrize(("kind", "norm"), [(AttentionBlock, "pre"), (BareAttentionBlock, "none")])
def test_a_norm_that_is_no_module_is_seen_by_what_it_does(
    kind: type[AttentionBlock], norm: str
) -> None:
    torch.manual_seed(0)
    model = Model()
    model.layers, model.norm = nn.ModuleList(kind(16) for _ in range(3)), nn.Identity()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer, max_overhead=None) as w:
        for step in range(3):
            loss = loss_of(model, ids_of(step))
            loss.backward()
            w.step(loss)
            optimizer.step()
            optimizer.zero_grad()
        assert history_of_watch(w).facts.norm == norm
