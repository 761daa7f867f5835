"""Proof for any loop: the loops that people write, what is recommended, and what is not."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import Finding, Loop, build_finding, next_token_loss, prove
from pellucid.errors import ConfigError

V = 8


class Bigram(nn.Module):
    """Predicts the next token from the current one; with labels it returns its own loss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(V, 8)
        self.head = nn.Linear(8, V)

    def forward(self, input_ids: Tensor, labels: Tensor | None = None) -> Any:
        logits = self.head(self.embedding(input_ids))
        if labels is None:
            return logits
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return SimpleNamespace(loss=loss, logits=logits)


def rows(seed: int, n: int = 16) -> Tensor:
    """Rows that count upwards, with a mistake now and then."""
    draws = torch.Generator().manual_seed(seed)
    start = torch.randint(V, (n, 1), generator=draws)
    slip = torch.rand(n, 6, generator=draws) < 0.1
    return (start + torch.arange(6) + slip) % V


def batches(seed: int) -> Iterator[dict[str, Tensor]]:
    for i in range(1000):
        ids = rows(1000 * seed + i)
        yield {"input_ids": ids, "labels": ids}


HELD_OUT = [{"input_ids": rows(-1, 64), "labels": rows(-1, 64)}]


def looping(lr: float = 0.05, **changes: Any) -> Any:
    """A function that makes a loop; `changes` take the place of its pieces."""

    def make_loop(seed: int) -> Loop:
        model = Bigram()
        pieces: dict[str, Any] = {
            "model": model,
            "optimizer": torch.optim.AdamW(model.parameters(), lr=lr),
            "batches": batches(seed % 1000),
            "held_out": HELD_OUT,
        }
        return Loop(**pieces | changes)

    return make_loop


def test_the_example_of_the_page_runs_and_its_fix_is_proven() -> None:
    page = (Path(__file__).parents[2] / "docs" / "proof-loops.md").read_text("utf-8")
    names: dict[str, Any] = {}
    with redirect_stdout(StringIO()) as printed:
        for block in re.findall(r"^```python\n(.*?)^```", page, re.M | re.S):
            exec(block, names)
    assert names["proof"].best is not None
    assert "recommended: " in printed.getvalue()
    ids = names["rows"](1)
    loop = Loop(**vars(names["make_loop"](1)) | {"update": names["update"]})
    assert float(names["update"](loop, ids).detach()) > 0


def found(*codes: str) -> list[Finding]:
    return [build_finding(code, "seen") for code in codes]


def test_a_lower_learning_rate_is_proven_for_a_loop_that_is_too_fast() -> None:
    proof = prove(looping(lr=30.0), found("OPT005"), steps=30)
    assert proof.best is not None
    assert "learning rate" in proof.best.fix.change
    assert proof.best.fix.code.startswith("lr=")
    assert proof.best.p is not None
    assert proof.best.p < 0.05
    text = proof.text()
    assert "recommended: " in text
    assert "held-out loss" in text
    assert proof.best.fix.code in text
    assert len({fork.seed for pair in proof.best.pairs for fork in pair} | {0}) == 5


def test_where_nothing_helps_nothing_is_recommended_and_the_reach_is_said() -> None:
    make_loop = looping(update=quiet)
    proof = prove(make_loop, found("UPD007"), steps=12, seeds=2, candidates=1)
    assert proof.best is None
    text = proof.text()
    assert "None of these fixes helped, so pellucid recommends none" in text


def quiet(loop: Loop, batch: Any) -> Tensor:
    """The plain update, written by hand."""
    loss = loop.loss(loop.model, batch)
    loss.backward()
    optimizer: Any = loop.optimizer
    optimizer.step()
    optimizer.zero_grad()
    return loss.detach()


def cleared_too_early(loop: Loop, batch: Any) -> Tensor:
    """An update whose gradients are gone before the step."""
    loss = loop.loss(loop.model, batch)
    loss.backward()
    optimizer: Any = loop.optimizer
    optimizer.zero_grad()
    optimizer.step()
    return loss.detach()


def test_a_broken_update_is_mended_by_the_plain_one() -> None:
    make_loop = looping(update=cleared_too_early)
    proof = prove(make_loop, found("UPD002"), steps=30, seeds=3, candidates=2)
    assert proof.best is not None
    assert proof.best.fix.change == "the plain update in the place of the loop's own"


def test_a_loop_is_diagnosed_if_no_findings_are_given() -> None:
    torch.manual_seed(3)
    random.seed(3)
    before = torch.get_rng_state(), random.getstate()
    proof = prove(looping(update=cleared_too_early), steps=20, seeds=2, candidates=2)
    assert "UPD002" in [finding.code for finding in proof.findings]
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_other_labels_are_judged_by_a_measure_of_the_user_and_never_by_their_own_loss() -> None:
    def wrong(seed: int) -> Iterator[dict[str, Tensor]]:
        for batch in batches(seed):
            yield batch | {"labels": F.pad(batch["labels"][:, 1:], (0, 1), value=-100)}

    blind = prove(looping(batches=list(wrong(1))), found("LOS002"), steps=4, seeds=2, candidates=1)
    assert [(fix.change, "measure=" in why) for fix, why in blind.untried] == [
        ("labels moved back by one token", True)
    ]

    def make_loop(seed: int) -> Loop:
        measure = next_token_loss(HELD_OUT[0]["input_ids"])
        return looping(batches=wrong(seed % 1000), held_out=(), measure=measure)(seed)

    proof = prove(make_loop, found("LOS002"), steps=40, seeds=3, candidates=1)
    assert proof.best is not None
    assert proof.best.fix.change == "labels moved back by one token"
    assert "measure 2." in proof.best.words


def test_a_loop_that_trains_itself_is_stopped_and_keeps_its_own_schedule() -> None:
    rates: list[float] = []

    def make_loop(seed: int) -> Loop:
        model = Bigram()
        optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, total_iters=100)

        def train() -> None:
            for batch in batches(seed % 1000):
                loss = model(**batch).loss
                loss.backward()
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
                rates.append(optimizer.param_groups[0]["lr"])

        return Loop(model=model, optimizer=optimizer, train=train, held_out=HELD_OUT)

    proof = prove(make_loop, found("OPT007"), steps=20, seeds=3, candidates=4)
    assert proof.best is not None
    assert proof.best.fix.change.endswith("times the learning rate")
    assert {pair[1].steps for pair in proof.best.pairs} == {20}
    assert max(rates) <= 1e-3  # a change of the rate lasts for a step, and no schedule sees it


def test_a_fork_past_guessing_counts_as_untrained_and_one_that_is_not_finite_as_none() -> None:
    proof = prove(looping(lr=1e4), found("UPD007"), steps=3, seeds=2, candidates=1)
    assert proof.screening is not None
    unfixed = proof.screening.unfixed.loss
    assert unfixed is not None
    assert unfixed < 3
    broken = looping(loss=lambda model, batch: model(**batch).loss / 0)
    proof = prove(broken, found("UPD007"), steps=3, seeds=2, candidates=1)
    assert proof.screening is not None
    assert proof.screening.unfixed.stopped == "loss at update 1"
    assert proof.best is None


@pytest.mark.parametrize(
    ("make_loop", "message"),
    [
        (lambda seed: nn.Linear(1, 1), "it has to return a pellucid.diagnosis.Loop"),
        (looping(train=print), "either batches= or train="),
        (looping(held_out=()), "give one of them"),
        (looping(batches=[]), "the loop made no update"),
        (looping(batches=[(rows(1), rows(1))]), "a batch must be a dict of tensors"),
    ],
)
def test_a_loop_that_cannot_be_run_is_refused_in_words(make_loop: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        prove(make_loop, found("OPT005"), steps=2, seeds=2, candidates=1)


def test_seeds_that_change_nothing_are_refused() -> None:
    def make_loop(seed: int) -> Loop:
        torch.manual_seed(0)
        return looping(batches=batches(0))(seed)

    with pytest.raises(ConfigError, match="repeated"):
        prove(make_loop, found("OPT005"), steps=2, seeds=2, candidates=1)
    with pytest.raises(ConfigError, match="for runs of pellucid"):
        prove(make_loop, found("OPT005"), out="fixed.toml")
