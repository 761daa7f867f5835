"""Models that people write themselves, with two texts, padding, or one place of a text."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid.diagnosis import Finding, diagnose, history_of_watch
from pellucid.vitals import Watch, watch

TOKENS, WIDTH, PAD = 40, 16, 0
UPDATES = 6


def padded_rows(seed: int, time: int, n: int = 12) -> Tensor:
    """Rows of different lengths, filled up with padding."""
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randint(3, TOKENS, (n, time), generator=generator)
    lengths = torch.arange(n) % (time - 3) + 4
    return rows.masked_fill(torch.arange(time) >= lengths[:, None], PAD)


def train(model: nn.Module, loss_of: Callable[[int], Tensor]) -> Watch:
    """Train for a few updates, each with the loss of its number, and watch."""
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-3)
    with watch(model, optimiser, max_overhead=None) as watched:
        for step in range(UPDATES):
            loss = loss_of(step)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            watched.step(loss)
    return watched


def codes_of(watched: Watch) -> list[str]:
    findings: list[Finding] = diagnose(history_of_watch(watched))
    return [finding.code for finding in findings if finding.severity != "note"]


# ---- an encoder and a decoder


class Translator(nn.Module):
    """torch's own encoder-decoder, whose encoder skips padding where it is evaluated."""

    def __init__(self, *, is_causal: bool, reads_source: bool) -> None:
        super().__init__()
        self.is_causal, self.reads_source = is_causal, reads_source
        self.embedding = nn.Embedding(TOKENS, WIDTH, padding_idx=PAD)
        self.places = nn.Parameter(torch.randn(16, WIDTH))
        self.body = nn.Transformer(WIDTH, 2, 1, 1, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, TOKENS)

    def embed(self, ids: Tensor) -> Tensor:
        return self.embedding(ids) + self.places[: ids.shape[1]]

    def forward(self, s: Tensor, t: Tensor) -> Tensor:
        time = t.shape[1]
        later = torch.ones(time, time).triu(1).bool() if self.is_causal else None
        source = s if self.reads_source else torch.full_like(s, 5)
        states = self.body(
            self.embed(source),
            self.embed(t),
            tgt_mask=later,
            src_key_padding_mask=source == PAD,
            memory_key_padding_mask=source == PAD,
        )
        return self.head(states)


@pytest.mark.parametrize("source_time", [9, 11])
@pytest.mark.parametrize(
    ("is_causal", "reads_source", "codes"),
    [(True, True, []), (False, True, ["ATT001"]), (True, False, ["ATT010"])],
)
def test_the_second_text_of_a_call_is_its_decoders(
    source_time: int, is_causal: bool, reads_source: bool, codes: list[str]
) -> None:
    torch.manual_seed(0)
    model = Translator(is_causal=is_causal, reads_source=reads_source)

    def loss_of(step: int) -> Tensor:
        source, text = padded_rows(step, source_time), padded_rows(step + 100, 10)
        outputs = model(source, text[:, :-1])
        return F.cross_entropy(outputs.transpose(1, 2), text[:, 1:], ignore_index=PAD)

    watched = train(model, loss_of)
    assert "call.inputs" not in watched.guard.off
    assert codes_of(watched) == codes


# ---- one place of a text


class Classifier(nn.Module):
    """A causal body, and a class from its first place, or from all."""

    def __init__(self, *, takes_first: bool, is_causal: bool) -> None:
        super().__init__()
        self.takes_first, self.is_causal = takes_first, is_causal
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, ids: Tensor) -> Tensor:
        time = ids.shape[1]
        later = torch.ones(time, time).triu(1).bool() if self.is_causal else None
        states = self.block(self.embedding(ids), src_mask=later)
        return self.head(states[:, 0] if self.takes_first else states.mean(1))


@pytest.mark.parametrize(
    ("takes_first", "is_causal", "codes"),
    [(True, True, ["ATT005"]), (False, True, []), (True, False, [])],
)
def test_the_first_place_of_a_causal_model_reads_one_token(
    takes_first: bool, is_causal: bool, codes: list[str]
) -> None:
    torch.manual_seed(0)
    model = Classifier(takes_first=takes_first, is_causal=is_causal)

    def loss_of(step: int) -> Tensor:
        ids = padded_rows(step, 12).clamp_min(1)
        return F.cross_entropy(model(ids), ids[:, 0] % 3)

    assert codes_of(train(model, loss_of)) == codes


# ---- positions


class Decoder(nn.Module):
    """A language model with a table of places that is added along one of both axes."""

    def __init__(self, *, is_time_first: bool) -> None:
        super().__init__()
        self.is_time_first = is_time_first
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.register_buffer("places", torch.randn(64, 1, WIDTH))
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, ids: Tensor) -> Tensor:
        time = ids.shape[1]
        places = self.places[: len(ids)]
        if not self.is_time_first:
            places = self.places[:time].transpose(0, 1)
        later = torch.ones(time, time).triu(1).bool()
        return self.head(self.block(self.embedding(ids) + places, src_mask=later))


@pytest.mark.parametrize("is_time_first", [True, False])
def test_positions_that_go_along_the_batch_are_named(is_time_first: bool) -> None:
    torch.manual_seed(0)
    model = Decoder(is_time_first=is_time_first)

    def loss_of(_: int) -> Tensor:
        ids = torch.randint(0, TOKENS, (12, 10))
        return F.cross_entropy(model(ids[:, :-1]).transpose(1, 2), ids[:, 1:])

    assert codes_of(train(model, loss_of)) == (["POS003"] if is_time_first else [])


# ---- vectors in front of a text


class Prompted(nn.Module):
    """A causal model with a soft prompt of four vectors, whose outputs come first."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.prompt = nn.Parameter(torch.randn(4, WIDTH))
        self.block = nn.TransformerEncoderLayer(WIDTH, 2, 32, dropout=0.0, batch_first=True)
        self.head = nn.Linear(WIDTH, TOKENS)

    def forward(self, ids: Tensor) -> Tensor:
        states = torch.cat([self.prompt.expand(len(ids), -1, -1), self.embedding(ids)], 1)
        time = states.shape[1]
        later = torch.ones(time, time).triu(1).bool()
        return self.head(self.block(states, src_mask=later))


@pytest.mark.parametrize("is_cut", [True, False])
def test_outputs_of_a_soft_prompt_are_to_be_cut_off(is_cut: bool) -> None:
    torch.manual_seed(0)
    model = Prompted()

    def loss_of(_: int) -> Tensor:
        ids = torch.randint(0, TOKENS, (12, 15))
        outputs = model(ids)
        outputs = outputs[:, 4:] if is_cut else outputs[:, :15]
        return F.cross_entropy(outputs[:, :-1].transpose(1, 2), ids[:, 1:])

    assert codes_of(train(model, loss_of)) == ([] if is_cut else ["LOS003"])


# ---- a family without a mask


class Mixer(nn.Module):
    """A model as transformers has it, that reads all places alike."""

    config = SimpleNamespace(model_type="mixer", pad_token_id=PAD, vocab_size=TOKENS)

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.head = nn.Linear(WIDTH, 3)

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.head(self.embedding(input_ids).mean(1))


class MaskedMixer(Mixer):
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return super().forward(input_ids)


@pytest.mark.parametrize(("kind", "codes"), [(Mixer, []), (MaskedMixer, ["ATT003"])])
def test_a_family_that_takes_no_mask_reads_padding_by_design(
    kind: type[nn.Module], codes: list[str]
) -> None:
    torch.manual_seed(0)
    model = kind()

    def loss_of(step: int) -> Tensor:
        ids = padded_rows(step, 12)
        return F.cross_entropy(model(input_ids=ids), ids[:, 0] % 3)

    assert codes_of(train(model, loss_of)) == codes


# ---- one text, and how it is trained


class Reader(nn.Module):
    """Tokens that look at all others, or at earlier ones alone.

    Args:
        is_causal: Whether later tokens are hidden.
    """

    def __init__(self, *, is_causal: bool) -> None:
        super().__init__()
        self.is_causal, self.share = is_causal, 1.0
        self.embedding = nn.Embedding(TOKENS, WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 2, batch_first=True)
        self.expert, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, TOKENS)

    def forward(self, input_ids: Tensor) -> Tensor:
        x, time = self.embedding(input_ids), input_ids.shape[1]
        mask = torch.ones(time, time).triu(1).bool() if self.is_causal else None
        x = x + self.attention(x, x, x, attn_mask=mask, need_weights=False)[0]
        flat = x.flatten(0, 1)
        # rows compete for the room: who comes first is served
        room = int(self.share * len(flat))
        served = torch.cat([self.expert(flat[:room]), torch.zeros_like(flat[room:])])
        return self.head((flat + served).view_as(x))


class Crowded(Reader):
    """A reader whose expert has room for half of the tokens."""

    def __init__(self) -> None:
        super().__init__(is_causal=True)
        self.capacity = self.share = 0.5


def mask_some(step: int) -> tuple[Tensor, Tensor]:
    """Many short rows, whose first ones have few masks, all over one token."""
    generator = torch.Generator().manual_seed(step)
    ids = torch.randint(3, TOKENS, (64, 12), generator=generator)
    is_masked = torch.rand(ids.shape, generator=generator) < 0.15
    is_masked[:4] = False
    is_masked[:4, 5] = True
    ids[:3, 5] = 7
    return ids.masked_fill(is_masked, 1), ids.masked_fill(~is_masked, -100)


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_causal_masked_model_is_known_by_all_rows(is_causal: bool) -> None:
    model = Reader(is_causal=is_causal)

    def loss_of(step: int) -> Tensor:
        ids, labels = mask_some(step)
        return F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())

    assert ("ATT008" in codes_of(train(model, loss_of))) == is_causal


def next_tokens(model: nn.Module) -> Callable[[int], Tensor]:
    """The loss of a batch of texts, by its number."""

    def loss_of(step: int) -> Tensor:
        ids = torch.randint(3, TOKENS, (8, 12), generator=torch.Generator().manual_seed(step))
        return F.cross_entropy(model(ids)[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    return loss_of


def test_rows_that_compete_for_a_capacity_are_no_fault() -> None:
    model = Crowded()
    assert "ATT002" not in codes_of(train(model, next_tokens(model)))


class Sharpness(torch.optim.Optimizer):
    """An optimiser that climbs first, and lets another one step (Foret et al. 2021, 2010.01412)."""

    def __init__(self, parameters: list[nn.Parameter]) -> None:
        super().__init__(parameters, {})
        self.base_optimizer = torch.optim.Adam(self.param_groups, lr=1e-3)

    @torch.no_grad()
    def climb(self, sign: float) -> None:
        for group in self.param_groups:
            for weight in group["params"]:
                if sign > 0:
                    self.state[weight]["slope"] = weight.grad.clone()
                weight += 0.01 * sign * self.state[weight]["slope"]


def test_an_optimiser_that_lets_another_one_step_is_watched_by_that_one() -> None:
    model = Reader(is_causal=True)
    loss_of, optimiser = next_tokens(model), Sharpness(list(model.parameters()))
    with watch(model, optimiser, max_overhead=None) as watched:
        for step in range(32):
            loss_of(step).backward()
            optimiser.climb(1.0)
            optimiser.zero_grad()
            loss = loss_of(step)
            loss.backward()
            optimiser.climb(-1.0)
            optimiser.base_optimizer.step()
            optimiser.zero_grad()
            watched.step(loss)
    assert watched.updates == 32
    assert not {"OPT017", "UPD009", "UPD010"} & {*codes_of(watched)}


@pytest.mark.parametrize("n_cleared", [0, 2])
def test_gradients_that_are_cleared_twice_before_each_step_are_named(n_cleared: int) -> None:
    model = Reader(is_causal=True)
    optimiser, loss_of = torch.optim.Adam(model.parameters(), lr=1e-3), next_tokens(model)
    with watch(model, optimiser, max_overhead=None) as watched:
        for step in range(40):
            loss = loss_of(step)
            loss.backward()
            if step % (1 + n_cleared) == n_cleared:
                optimiser.step()
            optimiser.zero_grad()
            watched.step(loss)
    assert ("UPD009" in codes_of(watched)) == bool(n_cleared)
