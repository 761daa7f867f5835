"""What ranks cannot divide is refused by its key, before anything is written."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pellucid import config
from pellucid.errors import ConfigError
from pellucid.presets import find
from pellucid.runs.shard import check_division
from support.models import PAIRS, VARIANTS

_NANO = replace(find("nano"), training=replace(find("nano").training, batch_size=12))
_ADAMW = _NANO.optimiser.rest if isinstance(_NANO.optimiser, config.Muon) else _NANO.optimiser


def run_of(model: config.Transformer, **parallel: Any) -> config.Run:
    settings = config.Parallelism(**parallel)
    return replace(_NANO, model=model, optimiser=_ADAMW, parallel=settings)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (VARIANTS["sinks"], "numbers of each head"),
        (VARIANTS["alibi"], "ALiBi positions"),
        (VARIANTS["qk-norm"], "qk_norm"),
        (VARIANTS["latent"], "LatentAttention attention"),
        (VARIANTS["spectral norm"], "reparametrisation"),
        (VARIANTS["shared layers"], "shared_layers"),
        (VARIANTS["experts"], "a mixture of experts"),
        (VARIANTS["multi-query"], "parallel.tensor must divide n_kv_heads, was 2 of 1"),
        (PAIRS["t5"], "BucketedBias positions"),
    ],
)
def test_products_that_cannot_be_shared_are_refused(
    model: config.Transformer, message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        check_division(run_of(model, tensor=2), 2)
    check_division(run_of(model, tensor=2), 1)  # one process divides nothing


def test_experts_are_not_sharded_and_muon_needs_whole_matrices() -> None:
    with pytest.raises(ConfigError, match=r"parallel.shard: .* expert"):
        check_division(run_of(VARIANTS["experts"], shard="full"), 2)
    with pytest.raises(ConfigError, match="shared_layers"):
        check_division(run_of(VARIANTS["shared layers"], shard="node"), 2)
    muon = replace(run_of(VARIANTS["rotary"], tensor=2), optimiser=find("nano").optimiser)
    assert isinstance(muon.optimiser, config.Muon)
    with pytest.raises(ConfigError, match="Muon"):
        check_division(muon, 2)


@pytest.mark.parametrize("parallel", [{"shard": "full"}, {"tensor": 2}])
def test_sgd_and_penalties_cannot_change_shares(parallel: dict[str, Any]) -> None:
    sgd = config.SGD(learning_rate=0.1, momentum=0.9, l2=0.0)
    run = replace(run_of(VARIANTS["rotary"], **parallel), optimiser=sgd)
    with pytest.raises(ConfigError, match="SGD cannot update shares"):
        check_division(run, 2)
    check_division(replace(run, parallel=config.Parallelism()), 2)
    penalty = config.ElasticNet(l1=0.1, l2=0.0, parameters=("*",))
    with pytest.raises(ConfigError, match="penalties: shares"):
        check_division(replace(run, penalties=(penalty,)), 2)


def test_sizes_that_do_not_divide_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"3 ranks that share products .* 3 and 6"):
        check_division(run_of(VARIANTS["rotary"], tensor=3), 4)
    with pytest.raises(ConfigError, match="offload"):
        config.Parallelism(offload=True)


def test_a_node_needs_the_number_of_its_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    from pellucid.parallel import launch

    monkeypatch.setenv("WORLD_SIZE", "4")
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    settings = config.Parallelism(shard="node", tensor=2)
    with pytest.raises(ConfigError, match="LOCAL_WORLD_SIZE"):
        launch._ranks_of_node(settings)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "3")
    with pytest.raises(ConfigError, match="machines of 3"):
        launch._ranks_of_node(settings)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    assert launch._ranks_of_node(settings) == 2
