"""The call of any model is checked with its own arguments: classes, numbers, rewards, pairs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import check
from pellucid.errors import PellucidError

VOCAB, PAD, EOS = 30, 0, 1


class Scorer(nn.Module):
    """Numbers for each row; its loss is in its output, as in transformers."""

    def __init__(self, outputs: int = 3, *, blind: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blind, self.tokens = blind, nn.Embedding(VOCAB, 8)
        self.head = nn.Linear(8, outputs)

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None
    ) -> Any:
        """Logits, and the loss if there are labels."""
        x = self.tokens(input_ids)
        real = torch.ones(input_ids.shape) if attention_mask is None else attention_mask
        x = (x * real[..., None]).sum(1) / real.sum(1, keepdim=True)
        logits = self.head(x.detach() * 0 if self.blind else x)
        loss = None
        if labels is not None:
            is_class = not labels.is_floating_point()
            loss = F.cross_entropy(logits, labels) if is_class else F.mse_loss(logits, labels)
        return SimpleNamespace(logits=logits, loss=loss)


def rows(n: int = 4, time: int = 12, seed: int = 0) -> Tensor:
    draws = torch.Generator().manual_seed(seed)
    return torch.randint(2, VOCAB, (n, time), generator=draws)


def codes(*args: Any, **options: Any) -> set[str]:
    return {each.code for each in check(*args, **options)}


def pair_loss(model: nn.Module, batch: Any) -> Tensor:
    chosen, rejected = model(**batch).logits.chunk(2)
    return -F.logsigmoid(chosen - rejected).mean()


def test_models_without_tokens_are_checked_and_left_as_they_were() -> None:
    model = Scorer()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    state = torch.get_rng_state()
    assert codes(model, {"input_ids": rows(), "labels": torch.arange(4) % 3}) == set()
    assert codes(model, rows(), torch.arange(4) % 3) == set()
    assert torch.equal(torch.get_rng_state(), state)
    assert codes(Scorer(1), {"input_ids": rows(), "labels": torch.randn(4, 1)}) == set()
    pairs = {"chosen_input_ids": rows(), "rejected_input_ids": rows(time=9, seed=1)}
    assert codes(Scorer(1), pairs, loss=pair_loss) == set()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_faults_of_a_call_are_found_before_training() -> None:
    batch = {"input_ids": rows(), "labels": torch.arange(4) % 3}
    assert "ATT009" in codes(Scorer(blind=True), batch)
    model = Scorer()
    optimizer = torch.optim.AdamW(list(model.parameters())[:1])
    assert codes(model, batch, optimizer=optimizer) == {"OPT001"}
    assert codes(model, batch, optimizer=optimizer, ignore=["OPT001"]) == set()


def test_ids_are_compared_with_the_tokenizer_and_with_held_out_texts() -> None:
    class Tokenizer:
        pad_token_id, eos_token_id = PAD, EOS

        def __len__(self) -> int:
            return 20

    ids = rows()
    ids[0, 5] = PAD
    labels = ids.clone()
    labels[:, :6] = -100
    batch: dict[str, Any] = {"input_ids": ids}

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return model(**batch).logits.square().mean()

    found = codes(Scorer(), batch, loss=loss, tokenizer=Tokenizer(), held_out=ids[2:])
    assert found == {"DAT017", "DAT018", "DAT020"}
    held_out = rows(seed=9)
    good = 2 + rows() % 18
    assert codes(Scorer(), {"input_ids": good}, tokenizer=Tokenizer(), held_out=held_out) == set()


@pytest.mark.parametrize(
    ("batch", "options", "words"),
    [
        ({"input_idss": rows()}, {}, "Scorer cannot be called with input_idss"),
        ({"input_ids": rows()}, {"loss": 3.0}, "loss must be a function of \\(model, batch\\)"),
        ({"chosen_input_ids": rows()}, {}, "rejected ones none: pass the same arguments"),
    ],
)
def test_batch_that_does_not_fit_is_refused(batch: Any, options: Any, words: str) -> None:
    with pytest.raises(PellucidError, match=words):
        check(Scorer(), batch, **options)


class Reader(Scorer):
    """Numbers for each token; labels are those of the tokens themselves, as in transformers."""

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor | None = None, labels: Tensor | None = None
    ) -> Any:
        """Logits (batch, time, vocab), and the loss."""
        logits = self.head(self.tokens(input_ids))
        loss = None if labels is None else F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return SimpleNamespace(logits=logits, loss=loss)


def test_answers_end_with_their_token_and_hidden_tokens_need_not() -> None:
    class Tokenizer:
        eos_token_id = EOS

    def named(ids: Tensor, labels: Tensor) -> bool:
        batch = {"input_ids": ids, "labels": labels}
        return "DAT019" in codes(Reader(VOCAB), batch, tokenizer=Tokenizer())

    ids = rows(8, 24)
    is_answer = torch.arange(24) > 8
    answers = ids.masked_fill(~is_answer, -100)
    assert named(ids, answers)
    ended = ids.index_fill(1, torch.tensor(23), EOS)
    assert not named(ended, ended.masked_fill(~is_answer, -100))
    is_hidden = torch.arange(24) % 4 == 1
    assert not named(ids.masked_fill(is_hidden, 29), ids.masked_fill(~is_hidden, -100))
    assert not named(ids, (ids % 3).masked_fill(~is_answer, -100))  # classes of tokens
