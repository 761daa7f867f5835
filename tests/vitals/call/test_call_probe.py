"""A loop's own call is repeated: each fault in it is named, and what is only odd is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import Finding, diagnose, history_of_watch
from pellucid.vitals import Watch, watch
from pellucid.vitals.call.arguments import Arguments
from pellucid.vitals.call.dependence import Repetition, without_padding
from pellucid.vitals.call.first_call import MAX_PASSES, allowed_passes
from pellucid.vitals.call.padding_mask import hidden_tokens
from pellucid.vitals.call.positions import PositionNotes
from pellucid.vitals.taps.recorded_call import Call

VOCAB, TIME, MASK = 40, 32, 1


class Reader(nn.Module):
    """An attention layer over embeddings and positions; what a call may change is an argument."""

    def __init__(self, *, causal: bool = True, classes: int = VOCAB, pooled: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.causal, self.pooled = causal, pooled
        self.tokens, self.positions = nn.Embedding(VOCAB, 16), nn.Embedding(64, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True, norm_first=True)
        self.head = nn.Linear(16, classes)

    def forward(
        self,
        ids: Tensor,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        leak: float = 0.0,
    ) -> Tensor:
        """Logits of each token, or of each row."""
        places = torch.arange(ids.shape[1]) if positions is None else positions
        x = self.tokens(ids) + self.positions(places)
        if mask is None and self.causal:
            mask = torch.ones(ids.shape[1], ids.shape[1]).triu(1).bool()
        x = self.layer(x, src_mask=mask)
        x = x + leak * x.mean(0, keepdim=True)
        return self.head(x.mean(1) if self.pooled else x)


def rows(step: int, time: int = TIME + 2) -> Tensor:
    draws = torch.Generator().manual_seed(step)
    return torch.randint(2, VOCAB, (4, time), generator=draws)


def cross_entropy(logits: Tensor, targets: Tensor, **options: Any) -> Tensor:
    return F.cross_entropy(logits.flatten(0, -2), targets.flatten(), **options)


def next_tokens(model: nn.Module, step: int, shift: int = 1, **call: Any) -> Tensor:
    ids = rows(step)
    return cross_entropy(model(ids[:, :TIME], **call), ids[:, shift : TIME + shift])


def masked(model: nn.Module, step: int, *, hides: bool = True, pays_all: bool = False) -> Tensor:
    ids = rows(step, TIME)
    is_chosen = torch.rand(ids.shape, generator=torch.Generator().manual_seed(step)) < 0.25
    inputs = ids.masked_fill(is_chosen, MASK) if hides else ids
    targets = ids if pays_all else ids.masked_fill(~is_chosen, -100)
    return cross_entropy(model(inputs), targets)


def masked_elsewhere(model: nn.Module, step: int) -> Tensor:
    """The labels of a masked model are those of the row before."""
    ids = rows(step, TIME)
    is_chosen = torch.rand(ids.shape, generator=torch.Generator().manual_seed(step)) < 0.25
    targets = ids.masked_fill(~is_chosen, -100).roll(1, 0)
    return cross_entropy(model(ids.masked_fill(is_chosen, MASK)), targets)


def replaced(model: nn.Module, step: int) -> Tensor:
    """A quarter of the tokens are replaced by others, and paid for: no token is a mask."""
    ids = rows(step, TIME)
    is_chosen = torch.rand(ids.shape, generator=torch.Generator().manual_seed(step)) < 0.25
    inputs = torch.where(is_chosen, ids.roll(1, 0), ids)
    return cross_entropy(model(inputs), ids.masked_fill(~is_chosen, -100))


def folded(model: nn.Module, step: int) -> Tensor:
    """A quarter of the tokens are paid for; what the model reads are their ids modulo 8."""
    ids = rows(step, TIME)
    is_chosen = torch.rand(ids.shape, generator=torch.Generator().manual_seed(step)) < 0.25
    return cross_entropy(model(ids % 8), ids.masked_fill(~is_chosen, -100))


def of_other_rows(model: nn.Module, step: int) -> Tensor:
    ids = rows(step)
    return cross_entropy(model(ids[:, :TIME]), ids[:, 1 : TIME + 1].roll(1, 0))


def noisy(model: nn.Module, step: int) -> Tensor:
    """Most targets are other tokens, drawn at random."""
    ids, draws = rows(step), torch.Generator().manual_seed(step)
    targets = ids[:, 1 : TIME + 1]
    is_wrong = torch.rand(targets.shape, generator=draws) < 0.7
    noise = torch.randint(2, VOCAB, targets.shape, generator=draws)
    return cross_entropy(model(ids[:, :TIME]), torch.where(is_wrong, noise, targets))


def denoised(model: nn.Module, step: int) -> Tensor:
    """A third of the inputs are replaced, and the text is to be written on."""
    ids, draws = rows(step), torch.Generator().manual_seed(step)
    is_wrong = torch.rand((4, TIME), generator=draws) < 0.3
    inputs = torch.where(is_wrong, ids.roll(1, 0)[:, :TIME], ids[:, :TIME])
    return cross_entropy(model(inputs), ids[:, 1 : TIME + 1])


def divided(model: nn.Module, step: int) -> Tensor:
    ids = rows(step)
    return cross_entropy(model(ids[:, :TIME]) / 30, ids[:, 1 : TIME + 1])


def noised(model: nn.Module, step: int, size: float = 2.0) -> Tensor:
    """Noise is added to the logits, or a constant of each token."""
    ids, draws = rows(step), torch.Generator().manual_seed(step)
    z = model(ids[:, :TIME])
    noise = torch.randn(z.shape if size else z.shape[-1:], generator=draws) * (size or 2.0)
    return cross_entropy(z + noise, ids[:, 1 : TIME + 1])


def of_probabilities(model: nn.Module, step: int) -> Tensor:
    """-p of the target in place of -log p."""
    ids = rows(step)
    p = model(ids[:, :TIME]).softmax(-1)
    return -p.gather(-1, ids[:, 1 : TIME + 1, None]).mean()


def focal(model: nn.Module, step: int) -> Tensor:
    """-(1 - p)^2 log p of the target: what is known weighs less."""
    ids = rows(step)
    log_p = model(ids[:, :TIME]).log_softmax(-1).gather(-1, ids[:, 1 : TIME + 1, None])
    return -((1 - log_p.exp()).square() * log_p).mean()


def frequencies(model: nn.Module, step: int) -> Tensor:
    """Each place is asked for the frequencies of all tokens."""
    ids = rows(step)
    shares = torch.bincount(ids.flatten(), minlength=VOCAB) / ids.numel()
    return -(shares * model(ids[:, :TIME]).log_softmax(-1)).sum(-1).mean()


def averaged(model: nn.Module, step: int) -> Tensor:
    """The mean of a row's outputs answers for each place."""
    ids = rows(step)
    z = model(ids[:, :TIME])
    return cross_entropy(z.mean(1, keepdim=True).expand_as(z), ids[:, 1 : TIME + 1])


class Dropping(Reader):
    """Its dropout goes on in evaluation mode."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        return F.dropout(super().forward(*args, **kwargs), 0.5)


class Sampling(Reader):
    """It draws a part of its outputs, in evaluation mode too, as a VAE does."""

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        logits = super().forward(*args, **kwargs)
        return logits + torch.randn_like(logits)


def smoothed(model: nn.Module, step: int, share: float = 0.9) -> Tensor:
    ids = rows(step)
    return cross_entropy(model(ids[:, :TIME]), ids[:, 1 : TIME + 1], label_smoothing=share)


def squared(model: nn.Module, step: int, of: float = 1.0) -> Tensor:
    """The squared distance of logits from ones and zeros, or from numbers as a teacher gives."""
    ids = rows(step)
    z = model(ids[:, :TIME])
    draws = torch.Generator().manual_seed(step)
    ones = F.one_hot(ids[:, 1 : TIME + 1], VOCAB).float()
    return (z - of * ones - (1 - of) * torch.randn(z.shape, generator=draws)).square().mean()


def softmax_over(model: nn.Module, step: int, dim: int) -> Tensor:
    ids = rows(step)
    log_p = model(ids[:, :TIME]).log_softmax(dim)
    return F.nll_loss(log_p.flatten(0, -2), ids[:, 1 : TIME + 1].flatten())


def masked_next(model: nn.Module, step: int) -> Tensor:
    """A causal model is paid for masked tokens, one place on."""
    ids = rows(step, TIME)
    is_chosen = torch.rand(ids.shape, generator=torch.Generator().manual_seed(step)) < 0.25
    targets = ids.masked_fill(~is_chosen, -100)[:, 1:]
    return cross_entropy(model(ids.masked_fill(is_chosen, MASK))[:, :-1], targets)


def prefix(model: nn.Module, step: int) -> Tensor:
    """The first half reads itself on both sides, and only the second half is paid for."""
    ids, hidden = rows(step), torch.ones(TIME, TIME).triu(1).bool()
    hidden[: TIME // 2, : TIME // 2] = False
    targets = ids[:, 1 : TIME + 1].clone()
    targets[:, : TIME // 2] = -100
    return cross_entropy(model(ids[:, :TIME], mask=hidden), targets)


def advantages(model: nn.Module, step: int) -> Tensor:
    ids = rows(step)
    log_p = model(ids[:, :TIME]).log_softmax(-1).gather(-1, ids[:, 1 : TIME + 1, None])
    return -(log_p[..., 0] * torch.tensor([1.0, -1.0, 2.0, -2.0])[:, None]).mean()


def corrected(model: nn.Module, step: int) -> Tensor:
    """Some tokens are wrong, each in another way, and all are to be written down rightly."""
    ids = rows(step, TIME)
    is_wrong = torch.rand(ids.shape, generator=torch.Generator().manual_seed(step)) < 0.2
    return cross_entropy(model(torch.where(is_wrong, ids.roll(1, 1), ids)), ids)


def sums(model: nn.Module, step: int) -> Tensor:
    """The targets are the sums so far, of the same two digits as the inputs."""
    ids = rows(step, TIME) % 2
    return cross_entropy(model(ids), ids.cumsum(1) % 2)


def quiet() -> Reader:
    """A head of zeros, from which many trainings begin."""
    model = Reader()
    nn.init.zeros_(model.head.weight)
    return model


def classes(model: nn.Module, step: int) -> Tensor:
    ids = rows(step)
    return F.cross_entropy(model(ids), ids[:, 0] % 3)


def same_token(model: nn.Module, step: int) -> Tensor:
    ids = rows(step)[:, :1].expand(-1, TIME)
    return cross_entropy(model(ids), ids)


def trained(model: nn.Module, loss: Callable[..., Tensor], **options: Any) -> Watch:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer, **options) as w:
        for step in range(3):
            value = loss(model, step)
            value.backward()
            optimizer.step()
            optimizer.zero_grad()
            w.step(value)
    assert not w.guard.off
    return w


def findings(w: Watch) -> list[Finding]:
    return [each for each in diagnose(history_of_watch(w)) if each.severity != "note"]


def both_sides() -> Reader:
    return Reader(causal=False)


class OneOfTwoTexts(nn.Module):
    """A class of each row, of the tokens that a mask leaves."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.tokens, self.head = nn.Embedding(VOCAB, 16), nn.Linear(16, 3)

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """Logits of each row."""
        is_token = attention_mask[..., None]
        return self.head((self.tokens(input_ids) * is_token).sum(1) / is_token.sum(1))


def of_first_text(model: nn.Module, step: int) -> Tensor:
    """The second text of each row is hidden: another call reads it."""
    ids = rows(step)
    is_first = (torch.arange(ids.shape[1]) < 5).expand_as(ids).long()
    return cross_entropy(model(input_ids=ids, attention_mask=is_first), ids[:, 1] % 3)


FAULTS: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor], str]] = {
    "no causal mask": (both_sides, next_tokens, "ATT001"),
    "rows that mix": (Reader, lambda m, s: next_tokens(m, s, leak=0.5), "ATT002"),
    "one position": (
        Reader,
        lambda m, s: next_tokens(m, s, positions=torch.zeros(TIME).long()),
        "POS003",
    ),
    "positions in a random order": (
        Reader,
        lambda m, s: next_tokens(m, s, positions=torch.arange(TIME) * 13 % TIME),
        "POS004",
    ),
    "positions backwards": (
        Reader,
        lambda m, s: next_tokens(m, s, positions=torch.arange(TIME).flip(0)),
        "POS004",
    ),
    "labels of other rows of a masked model": (both_sides, masked_elsewhere, "LOS003"),
    "labels that are not moved": (Reader, lambda m, s: next_tokens(m, s, 0), "LOS001"),
    "labels that are moved twice": (Reader, lambda m, s: next_tokens(m, s, 2), "LOS002"),
    "labels of other rows": (Reader, of_other_rows, "LOS003"),
    "noise in the labels": (Reader, noisy, "LOS003"),
    "a squared distance": (Reader, squared, "LOS005"),
    "a logit instead of a loss": (Reader, lambda m, s: m(rows(s)).mean(), "LOS005"),
    "a softmax over the rows": (Reader, partial(softmax_over, dim=0), "LOS005"),
    "one row alone is paid for": (
        Reader,
        lambda m, s: cross_entropy(m(rows(s)[:, :TIME])[:1], rows(s)[:1, 1 : TIME + 1]),
        "LOS016",
    ),
    "a causal model with masked tokens": (Reader, masked_next, "ATT008"),
    "divided logits": (Reader, divided, "LOS014"),
    "smoothed away": (Reader, smoothed, "LOS013"),
    "masks that hide nothing": (both_sides, lambda m, s: masked(m, s, hides=False), "LOS015"),
    "a loss on every token": (both_sides, lambda m, s: masked(m, s, pays_all=True), "LOS015"),
    "a masked model with a causal mask": (Reader, masked, "ATT008"),
    "rows of one token": (Reader, same_token, "DAT014"),
    "noise on the logits": (Reader, noised, "LOS005"),
    "probabilities in place of their logarithms": (Reader, of_probabilities, "LOS005"),
    "one distribution for all places": (Reader, frequencies, "LOS003"),
    "one output for all places": (Reader, averaged, "LOS003"),
    "dropout in evaluation": (Dropping, next_tokens, "RND001"),
}
ODD: dict[str, tuple[Callable[[], nn.Module], Callable[..., Tensor]]] = {
    "next tokens": (Reader, next_tokens),
    "masked tokens": (both_sides, masked),
    "other tokens in place of masks": (both_sides, replaced),
    "another alphabet, which no sign of masks judges": (both_sides, folded),
    "a prefix that reads both sides": (Reader, prefix),
    "packed positions": (
        Reader,
        lambda m, s: next_tokens(m, s, positions=torch.arange(TIME) % (TIME // 2)),
    ),
    "a little smoothing": (Reader, partial(smoothed, share=0.1)),
    "a constant of each token": (Reader, partial(noised, size=0.0)),
    "a little noise on the logits": (Reader, partial(noised, size=0.1)),
    "less weight for what is known": (Reader, focal),
    "a teacher's logits": (Reader, partial(squared, of=0.0)),
    "a softmax over the vocabulary": (Reader, partial(softmax_over, dim=-1)),
    "advantages of both signs": (Reader, advantages),
    "corrections": (both_sides, corrected),
    "noise in the inputs": (Reader, denoised),
    "sums of two digits": (both_sides, sums),
    "the first of two texts, the second hidden": (OneOfTwoTexts, of_first_text),
    "classes of rows": (lambda: Reader(causal=False, classes=3, pooled=True), classes),
    "one number for each row": (
        lambda: Reader(causal=False, classes=1, pooled=True),
        lambda m, s: (m(rows(s))[:, 0] - rows(s).double().mean(1) / VOCAB).square().mean(),
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_in_a_call_is_the_first_cause(name: str) -> None:
    build, loss, code = FAULTS[name]
    assert findings(trained(build(), loss))[0].code == code


def test_model_that_samples_in_evaluation_gets_a_note() -> None:
    w = trained(Sampling(), next_tokens)
    assert findings(w) == []
    (note,) = [each for each in diagnose(history_of_watch(w)) if each.code == "RND001"]
    assert "draws random numbers" in note.what
    assert "call.drawn" in {sign.id for sign in w.signs}
    assert next(row for row in w.summary() if row.equation == 1).word != "sick"


def of_choices(model: nn.Module, step: int) -> Tensor:
    """Which of three texts of each row is the right one."""
    texts = torch.stack([rows(3 * step + i, TIME) for i in range(3)], dim=1)
    return F.cross_entropy(model(texts), torch.tensor([0, 1, 2, 0]))


class Chooser(Reader):
    """A score for each of a row's texts."""

    def __init__(self) -> None:
        super().__init__(causal=False, classes=1, pooled=True)

    def forward(self, ids: Tensor, **call: Any) -> Tensor:
        return super().forward(ids.flatten(0, 1), **call).view(ids.shape[:2])


def test_rows_of_several_texts_to_choose_from_are_probed_whole() -> None:
    w = trained(Chooser(), of_choices)
    assert not w.guard.off
    assert findings(w) == []
    signs = {sign.id: sign.value for sign in w.signs}
    assert signs["call.inputs"] > 0


@pytest.mark.parametrize("name", ODD)
def test_odd_but_healthy_call_is_passed_in_silence(name: str) -> None:
    build, loss = ODD[name]
    w = trained(build(), loss)
    assert [each.text() for each in findings(w)] == []
    assert "call.inputs" in {sign.id for sign in w.signs}  # it was looked at


def hidden_share(ids: Tensor, mask: Tensor, sign: str = "call.hidden") -> float | None:
    call = Call((), {"input_ids": ids, "attention_mask": mask})
    return hidden_tokens(Arguments(call, "input_ids", mask="attention_mask")).get(sign)


def test_mask_that_shows_only_padding_is_turned_round() -> None:
    ids = rows(0, TIME)
    ids[:3, -5:] = 0
    real = (ids != 0).long()
    assert hidden_share(ids, real) == 0
    assert hidden_share(ids, 1 - real) == 1  # the row without padding shows nothing
    assert hidden_share(ids, real.roll(1, 0)) == 0
    assert hidden_share(ids, real * 2.0) is None


def test_mask_that_hides_text_before_other_text_is_told_from_padding() -> None:
    ids = torch.arange(1, 4 * TIME + 1).view(4, TIME)
    answers = (torch.arange(TIME) >= TIME // 2).long().expand(4, TIME)
    assert hidden_share(ids, answers, "call.hidden_text") == 1
    assert hidden_share(ids, 1 - answers, "call.hidden_text") == 0  # behind the end is no text
    padded = ids.masked_fill(answers == 0, 0)
    assert hidden_share(padded, answers, "call.hidden_text") == 0
    assert hidden_share(ids, torch.ones_like(ids), "call.hidden_text") == 0


def test_mask_that_hides_the_end_of_each_text_is_told_from_what_longer_rows_left_behind() -> None:
    lengths = torch.tensor([[16], [20], [24], [12]])
    places = torch.arange(TIME)
    ids = torch.arange(10, 4 * TIME + 10).view(4, TIME)
    ended = ids.masked_fill(places == lengths - 1, 5).masked_fill(places >= lengths, 0)
    halves = (places < lengths // 2).long()
    assert hidden_share(ended, halves, "call.hidden_text") == 1
    assert hidden_share(ended, (places < lengths).long(), "call.hidden_text") == 0
    two_texts = ended.masked_fill(places == lengths // 2 - 1, 5)  # the second one is hidden
    assert hidden_share(two_texts, halves, "call.hidden_text") == 0
    unended = ids.masked_fill(places >= lengths, 0)
    assert hidden_share(unended, halves, "call.hidden_text") == 0


def test_in_half_precision_another_token_stands_where_padding_was() -> None:
    ids, is_real = torch.tensor([[5, 6, 7, 0, 0]]), torch.tensor([[1, 1, 1, 0, 0]])
    call = Call((), {"input_ids": ids, "attention_mask": is_real})
    arguments = Arguments(call, "input_ids", mask="attention_mask")
    for is_half, expected in ((False, [[5, 6, 7]]), (True, [[5, 6, 7, 6, 6]])):
        unpadded = without_padding(arguments, 5, 3, is_half=is_half)
        assert unpadded.inputs.tolist() == expected
    # without a mask, the model may find padding by its id
    bare = without_padding(replace(arguments, mask=None), 5, 3, is_half=True)
    assert bare.inputs.tolist() == [[5, 6, 7]]


def test_weights_too_small_for_tokens_to_meet_say_nothing_of_a_mask() -> None:
    model = both_sides()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e-4)
    w = trained(model, masked)
    assert "call.right" not in {sign.id for sign in w.signs}
    assert "ATT008" not in {finding.code for finding in findings(w)}
    assert "call.right" in {sign.id for sign in trained(both_sides(), masked).signs}


def test_head_of_zeros_hides_what_outputs_depend_on() -> None:
    w = trained(quiet(), next_tokens)
    assert findings(w) == []
    assert "call.inputs" not in {sign.id for sign in w.signs}


def test_gradient_of_the_logits_gives_temperature_weight_and_targets() -> None:
    def signs(loss: Callable[..., Tensor]) -> dict[str, float]:
        return {sign.id: sign.value for sign in trained(Reader(), loss).signs}

    one = signs(next_tokens)
    assert one["logits.temperature"] == pytest.approx(1.0, abs=1e-3)
    assert one["targets.weight"] == pytest.approx(1.0, abs=1e-3)
    assert one["targets.single"] == 1.0
    assert one["targets.smoothing"] == pytest.approx(0.0, abs=1e-3)
    for share in (0.1, 0.9):
        read = signs(partial(smoothed, share=share))["targets.smoothing"]
        assert read == pytest.approx(share, abs=1e-3)
    assert signs(divided)["logits.temperature"] == pytest.approx(30, rel=1e-2)
    total = signs(lambda m, s: next_tokens(m, s) * 4 * TIME)
    assert total["targets.weight"] == pytest.approx(4 * TIME, rel=1e-3)
    assert signs(advantages)["targets.single"] == pytest.approx(0.5, abs=0.05)


def test_probe_takes_few_passes_and_can_be_switched_off() -> None:
    w = trained(Reader(), next_tokens)
    assert 0 < w.first_call.passes <= 6
    assert "the probe of the first call took" in w.report()
    off = trained(Reader(), next_tokens, probe=False)
    assert off.first_call.passes == 0
    assert not any(sign.id.startswith("call.") for sign in off.signs)


def test_short_run_has_no_passes_to_spare() -> None:
    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer) as w:
        w.first_call.planned_updates = 20
        next_tokens(model, 0).backward()
        optimizer.step()
    assert w.first_call.passes == 0


def test_call_that_cannot_be_repeated_ends_no_training() -> None:
    class Known(Reader):
        def forward(self, ids: Tensor, **call: Any) -> Tensor:
            if not torch.equal(ids, rows(0)[:, :TIME]):
                raise ValueError("only what was there before")
            return super().forward(ids, **call)

    model = Known()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with watch(model, optimizer) as w:
        next_tokens(model, 0).backward()
        optimizer.step()
    assert "only what was there" in w.guard.off["call.inputs"]
    assert w.updates == 1


def test_ids_that_a_table_of_positions_counts_are_no_positions() -> None:
    ids = torch.tensor([[9, 3, 8, 1, 7, 2]] * 2)
    for source in (None, ids + 1):
        notes = PositionNotes(ids, source)
        notes.note("embed_positions", nn.Embedding(4, 4), (ids if source is None else source,))
        assert notes.signs() == {}


@pytest.mark.parametrize(
    ("updates", "part", "passes"),
    [(None, 0.1, MAX_PASSES), (100, 1.0, 6), (100, 0.25, 24), (50, 0.5, 6), (9999, 1.0, 30)],
)
def test_passes_over_a_part_of_the_rows_cost_a_part(
    updates: int | None, part: float, passes: int
) -> None:
    assert allowed_passes(updates, part) == passes
    assert allowed_passes(updates, 0.0) == MAX_PASSES


class Rounded(Reader):
    """A model that a trainer makes to turn on an autocast within its call."""

    def forward(self, ids: Tensor, **call: Any) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(ids, **call).float()


@pytest.mark.parametrize(("kind", "is_half"), [(Reader, False), (Rounded, True)])
def test_an_autocast_within_the_call_is_seen(kind: type[Reader], *, is_half: bool) -> None:
    model = kind()
    repeat = Repetition(model, None, lambda output: output)
    arguments = Arguments(Call((rows(0)[:, :TIME],), {}), 0)
    with repeat.noting(lambda *_: None):
        repeat(arguments)
    assert repeat.is_half == is_half
