"""What a refusal advises works, whatever a preset sets: it is followed, and not refused again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from pellucid import config
from pellucid.config import parse_toml, run_from_table
from pellucid.errors import PellucidError
from pellucid.model import assemble, assemble_trained
from pellucid.presets import PRESETS, find
from pellucid.runs.build import with_vocabulary
from pellucid.tokenizers.tokenizer import Tokenizer

SMALL = "[model.decoder]\nn_layers = 1"


class Many(Tokenizer):
    """A stub of a tokenizer with more tokens than the preset has rows."""

    def __init__(self) -> None:  # pyright: ignore[reportMissingSuperCall]
        pass

    @property
    def vocab_size(self) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        return 1_000_000


def rows(run: config.Run) -> None:
    with_vocabulary(run, Many())


def goal(run: config.Run) -> None:
    run.check_objective()


def adapted(run: config.Run) -> None:
    assert run.trained is None or run.model.vocab_size
    model = assemble(run.model, seed=0)
    if run.trained is not None:
        assemble_trained(model, run.trained, seed=0)


GROWTH = "training.growth={kind='GrowingLength', start=8, over=0.5, steps=4}"
#: A base, the assignments, and the type that refuses them.
ADVICE: dict[str, tuple[str, tuple[str, ...], Callable[[config.Run], None]]] = {
    **{f"a tokenizer larger than {name}": (name, (), rows) for name in PRESETS
       if PRESETS[name].model.vocab_size is not None},
    "a top stack of fewer blocks": (
        "nano",
        ("model.vocab_size=40", "model.d_model=16", "trained={kind='LastLayers', count=99}"),
        adapted,
    ),
}  # fmt: skip


def asked(base: str, settings: tuple[str, ...]) -> config.Run:
    return run_from_table(parse_toml(f'base = "{base}"', "a.toml"), find, list(settings))


@pytest.mark.parametrize("case", ADVICE)
def test_whoever_follows_a_refusal_is_not_refused_again(case: str) -> None:
    base, settings, refuses = ADVICE[case]
    with pytest.raises(PellucidError) as refused:
        refuses(asked(base, settings))
    advised = re.findall(r"--set (\S+=\S+?)(?=[,;:.]?(?:\s|$))", str(refused.value))
    assert advised, str(refused.value)
    refuses(asked(base, (*settings, *advised)))


def test_a_decoder_without_an_encoder_can_be_had_from_a_pair() -> None:
    with pytest.raises(PellucidError, match=r"--set model\.decoder\.cross_attention=none"):
        asked("t5-small", ("model.encoder=none",))
    followed = asked("t5-small", ("model.encoder=none", "model.decoder.cross_attention=none"))
    assert followed.model.encoder is None
