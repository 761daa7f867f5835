"""Faults, each a small mutation of a healthy case, with the code that must name it.

A `Case` is what a user has in hand before training: a model, data, an optimiser. A `Fault` makes a
healthy one, and injects itself into it. Nothing outside the case is touched.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from pellucid import config
from pellucid.diagnosis import Expectations, Finding, check, declare, reduce_model
from pellucid.model import Transformer, assemble
from pellucid.presets import find

VOCAB = 64


@dataclass
class Case:
    """The arguments of `check`."""

    model: nn.Module
    ids: Tensor | list[Tensor] | None = None
    labels: Tensor | None = None
    optimizer: Any = None
    tokenizer: Any = None
    loss: Any = None
    declared: Expectations | None = None

    def check(self) -> list[Finding]:
        """All findings."""
        return check(
            self.model,
            self.ids,
            self.labels,
            optimizer=self.optimizer,
            tokenizer=self.tokenizer,
            loss=self.loss,
            declared=self.declared,
        )

    def codes(self) -> set[str]:
        """The codes of all findings."""
        return {finding.code for finding in self.check()}


@dataclass(frozen=True)
class Fault:
    """A way to break a case, and the code that names it."""

    code: str
    healthy: Callable[[], Case]
    inject: Callable[[Case], None]


def tiny(preset: str, **changes: Any) -> config.Transformer:
    """The small twin of a preset."""
    twin = reduce_model(find(preset).model)
    stacks = {
        name: replace(stack, n_layers=2)
        for name in ("encoder", "decoder")
        if (stack := getattr(twin, name)) is not None
    }
    return replace(twin, vocab_size=VOCAB, **stacks, **changes)


def text(rows: int = 4, time: int = 32, seed: int = 5, vocab: int = VOCAB) -> Tensor:
    """Ids in which some are frequent and some are rare, as in a text."""
    draws = torch.Generator().manual_seed(seed)
    weights = 1.0 / torch.arange(1, vocab + 1)
    return torch.multinomial(weights.expand(rows, -1), time, replacement=True, generator=draws)


def next_tokens(ids: Tensor, shift: int = 1) -> Tensor:
    """Labels that are `shift` places before the token they name."""
    labels = torch.full_like(ids, -100)
    labels[:, : ids.shape[1] - shift] = ids[:, shift:]
    return labels


@cache
def built(preset: str, **declared: Any) -> Callable[[], Case]:
    """A case of a model alone."""
    expectations = declare(**declared) if declared else None
    return lambda: Case(assemble(tiny(preset), seed=0), declared=expectations)


@cache
def with_data(preset: str, **declared: Any) -> Callable[[], Case]:
    """A case with a batch, its labels, and a loss that is right."""

    def make() -> Case:
        case = built(preset, **declared)()
        case.ids = text()
        case.labels = next_tokens(case.ids)
        case.loss = mean_loss
        return case

    return make


@cache
def with_optimizer(preset: str, dtype: torch.dtype = torch.float32) -> Callable[[], Case]:
    """A case with an optimiser of all weights."""

    def make() -> Case:
        case = built(preset)()
        case.model.to(dtype)
        case.optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-3)
        return case

    return make


def mean_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy as it should be."""
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


def decoder(case: Case) -> Any:
    """The stack of blocks of the case's model."""
    assert isinstance(case.model, Transformer)
    return case.model.stack


def wrapped(pick: Callable[[Any], list[Any]], change: Callable[..., Any]) -> Callable[[Case], None]:
    """Replace the forward of some modules by `change(forward, *arguments)`."""

    def inject(case: Case) -> None:
        for module in pick(decoder(case)):
            module.forward = _around(module.forward, change)

    return inject


def _around(forward: Callable[..., Any], change: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: change(forward, *arguments)


def attentions(stack: Any) -> list[Any]:
    """The attention of every block."""
    return [block.attention for block in stack.blocks]


def second_feed_forward(stack: Any) -> list[Any]:
    """The feed-forward of the second block."""
    return [stack.blocks[1].feed_forward]


def _order(time: int, diagonal: int = 0) -> Tensor:
    return torch.ones(time, time, dtype=torch.bool).tril(diagonal)


def _off_by_one(forward: Any, x: Tensor, positions: Any, view: Any, cache: Any) -> Tensor:
    view = view._replace(causal=False, mask=_order(x.shape[1], 1))
    return forward(x, positions, view, cache)


def _causal_alone(forward: Any, x: Tensor, positions: Any, view: Any, cache: Any) -> Tensor:
    """Padding and documents forgotten."""
    mask = None if view.mask is None else _order(x.shape[1])
    return forward(x, positions, view._replace(mask=mask), cache)


def _time_and_batch_confused(
    forward: Any, x: Tensor, positions: Any, view: Any, cache: Any
) -> Tensor:
    view = view._replace(causal=False, mask=None, places=None)
    return forward(x.transpose(0, 1), positions, view, cache).transpose(0, 1)


def _nan_under_padding(forward: Any, x: Tensor, positions: Any, view: Any, cache: Any) -> Tensor:
    outputs = forward(x, positions, view, cache)
    return (
        outputs if view.padding is None else outputs.masked_fill(~view.padding[..., None], math.nan)
    )


def _heads_not_transposed(stack: Any) -> None:
    for attention in attentions(stack):

        def forward(x: Tensor, *_: Any, of: Any = attention) -> Tensor:
            rows, time, _width = x.shape
            groups = of.n_heads // of.n_kv_heads
            q = of.query(x).view(rows, of.n_heads, time, -1)
            k = of.key(x).view(rows, of.n_kv_heads, time, -1).repeat_interleave(groups, 1)
            v = of.value(x).view(rows, of.n_kv_heads, time, -1).repeat_interleave(groups, 1)
            mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return of.output(mixed.reshape(rows, time, -1))

        attention.forward = forward


def _rotate_queries_alone(case: Case) -> None:
    positions = decoder(case).positions
    rotate, calls = positions.rotate, [0]

    def every_other(x: Tensor, view: Any) -> Tensor:
        calls[0] += 1
        return rotate(x, view) if calls[0] % 2 else x

    positions.rotate = every_other


def _without_positions(case: Case) -> None:
    positions = decoder(case).positions
    positions.rotate = positions.embed = lambda x, view: x


def _other_pairing(case: Case) -> None:
    decoder(case).positions.pairing = "interleaved"  # and the tables are half split


def _set(name: str, value: Callable[[Case], Any]) -> Callable[[Case], None]:
    return lambda case: setattr(case, name, value(case))


def _labels(make: Callable[[Tensor], Tensor]) -> Callable[[Case], None]:
    def inject(case: Case) -> None:
        assert isinstance(case.ids, Tensor)
        case.labels, case.loss = make(case.ids), None

    return inject


def _loss(change: Callable[[Tensor, Tensor], Tensor]) -> Callable[[Case], None]:
    return _set("loss", lambda case: change)


def _few(ids: Tensor) -> Tensor:
    labels = next_tokens(ids)
    labels[:, 1:] = -100
    return labels


def _summed(logits: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")


def _softmax_twice(logits: Tensor, labels: Tensor) -> Tensor:
    return mean_loss(logits.softmax(-1), labels)


def _ignored_counted(logits: Tensor, labels: Tensor) -> Tensor:
    return _summed(logits, labels) / labels.numel()


def _against_itself(logits: Tensor, labels: Tensor) -> Tensor:
    ids = torch.cat((labels[:, :1], labels[:, :-1]), dim=1)  # the labels, moved back
    return F.cross_entropy(logits[:, 1:].flatten(0, 1), ids[:, 1:].flatten())


def _moved_again(logits: Tensor, labels: Tensor) -> Tensor:
    return mean_loss(logits[:, :-1], labels[:, 1:])


def _no_grad(make: Callable[[Any], None]) -> Callable[[Case], None]:
    def inject(case: Case) -> None:
        with torch.no_grad():
            make(case.model)

    return inject


def _copy_block(model: Any) -> None:
    first, second, *_ = model.stack.blocks
    second.load_state_dict(first.state_dict())


def _loud(model: Any) -> None:
    model.token_embedding.weight.mul_(100)
    if model.head is not None:
        model.head.weight.mul_(100)


def _knows_the_answer(case: Case) -> None:
    model = case.model
    forward = model.forward

    def cheat(ids: Tensor, *rest: Any, **said: Any) -> Tensor:
        return forward(ids, *rest, **said) + 2.0 * F.one_hot(ids.roll(-1, 1), VOCAB)

    model.forward = cheat


def _frozen_block(case: Case) -> None:
    decoder(case).blocks[0].requires_grad_(False)


def _gradients_left(case: Case) -> None:
    for parameter in case.model.parameters():
        parameter.grad = torch.ones_like(parameter)


def _half_of_the_weights(case: Case) -> None:
    case.optimizer = torch.optim.AdamW(list(case.model.parameters())[::2], lr=1e-3)


def _another_models(case: Case) -> None:
    other = assemble(tiny("gpt2"), seed=1)
    case.optimizer = torch.optim.AdamW(other.parameters(), lr=1e-3)


def _rate(rate: float) -> Callable[[Case], None]:
    def inject(case: Case) -> None:
        for group in case.optimizer.param_groups:
            group["lr"] = rate
            group["weight_decay"] = 0.0

    return inject


def _untied(case: Case) -> None:
    model: Any = case.model
    model.head = nn.Linear(model.token_embedding.embedding_dim, VOCAB, bias=False)
    with torch.no_grad():
        model.head.weight.copy_(model.token_embedding.weight)


def _tied(case: Case) -> None:
    model: Any = case.model
    model.head.weight = model.token_embedding.weight


def learnt() -> Case:
    """A model that knows its text: a few seconds of training."""
    case = with_data("llama3-8b", pretrained=True)()
    assert isinstance(case.ids, Tensor)
    assert case.labels is not None
    adam = torch.optim.Adam(case.model.parameters(), lr=3e-3)
    for _ in range(80):
        adam.zero_grad()
        mean_loss(case.model(case.ids), case.labels).backward()
        adam.step()
    adam.zero_grad()
    return case


def _transpose_one_role(model: Any) -> None:
    for block in model.stack.blocks:
        block.attention.output.weight.copy_(block.attention.output.weight.mT.clone())


def _redraw(model: Any) -> None:
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(std=0.02)


def _zero_rows(model: Any) -> None:
    model.token_embedding.weight[VOCAB // 2 :] = 0


def _zero_matrix(model: Any) -> None:
    model.stack.blocks[0].feed_forward.down.weight.zero_()


class FakeTokenizer(SimpleNamespace):
    """As much of a tokenizer as probes ask for."""

    def __len__(self) -> int:
        return self.size


def with_tokenizer() -> Case:
    """A case with a tokenizer that fits, a padding token and the end of a text."""
    case = with_data("gpt2")()
    assert isinstance(case.ids, Tensor)
    assert case.labels is not None
    case.ids[case.ids <= 2] = 5
    case.ids[:, 20] = 2
    case.ids[:, 28:] = 1
    case.labels = next_tokens(case.ids)
    case.labels[:, 27:] = -100
    case.tokenizer = FakeTokenizer(size=VOCAB, pad_token_id=1, eos_token_id=2, unk_token_id=0)
    return case


def _pad_is_eos(case: Case) -> None:
    case.tokenizer.pad_token_id = 2
    assert isinstance(case.ids, Tensor)
    assert case.labels is not None
    case.labels[case.labels == 2] = -100


def _pad_supervised(case: Case) -> None:
    assert isinstance(case.ids, Tensor)
    case.labels = next_tokens(case.ids)


def _unknown(case: Case) -> None:
    assert isinstance(case.ids, Tensor)
    case.ids[:, :20:2] = 0
    case.labels = next_tokens(case.ids)
    case.labels[:, 27:] = -100


@cache
def _half(dtype: torch.dtype) -> Callable[[], Case]:
    def make() -> Case:
        case = with_optimizer("llama3-8b", dtype)()
        # tables of angles stay what they were
        half_positions, positions = decoder(built("llama3-8b")()).positions, decoder(case).positions
        positions.cos, positions.sin = half_positions.cos, half_positions.sin
        case.optimizer = None
        return case

    return make


def _massive(forward: Any, x: Tensor) -> Tensor:
    outputs = forward(x)
    return outputs + 3e4 * F.one_hot(torch.tensor(0), outputs.shape[-1]).to(outputs)


def _overflowing(model: Any) -> None:
    model.stack.blocks[1].feed_forward.up.weight.mul_(1e25)
    model.stack.blocks[1].feed_forward.down.weight.mul_(1e25)


def _tiny_eps(case: Case) -> None:
    for module in case.model.modules():
        if hasattr(module, "eps"):
            module.eps = 1e-8


def _bf16_adam(case: Case) -> None:
    case.model.to(torch.bfloat16)
    case.optimizer = torch.optim.AdamW(case.model.parameters(), lr=1e-5)


def _dropping(forward: Any, x: Tensor, *rest: Any) -> Tensor:
    return F.dropout(forward(x, *rest), 0.3, training=True)


def with_dropout() -> Case:
    """A model with dropout."""
    model = tiny("gpt2")
    assert model.decoder is not None
    return Case(assemble(replace(model, decoder=replace(model.decoder, dropout=0.2)), seed=0))


def _seeded(case: Case) -> None:
    forward = case.model.forward

    def seeding(*arguments: Any, **said: Any) -> Tensor:
        torch.manual_seed(0)
        return forward(*arguments, **said)

    case.model.forward = seeding


def _batches() -> Case:
    case = built("gpt2")()
    case.ids = [text(seed=n) for n in range(4)]
    return case


def _same_batch(case: Case) -> None:
    case.ids = [text(seed=1)] * 4


def _same_rows(case: Case) -> None:
    case.ids = [text(seed=n)[:1].expand(4, -1).clone() for n in range(4)]


def _dead(model: Any) -> None:
    model.stack.blocks[1].feed_forward.up.bias.fill_(-100.0)


def _with_relu() -> Case:
    model = tiny("gpt2")
    assert model.decoder is not None
    mlp = config.MLP(d_ff=64, activation="relu", bias=True)
    return Case(assemble(replace(model, decoder=replace(model.decoder, feed_forward=mlp)), seed=0))


GPT, LLAMA, BERT = "gpt2", "llama3-8b", "bert-base"

FAULTS: dict[str, Fault] = {
    "no causal mask": Fault(
        "ATT001", built(GPT), lambda case: setattr(decoder(case), "causal", False)
    ),
    "no causal mask, nano": Fault(
        "ATT001", built("nano"), lambda case: setattr(decoder(case), "causal", False)
    ),
    "no causal mask, encoder-decoder": Fault(
        "ATT001", built("t5-small"), lambda case: setattr(decoder(case), "causal", False)
    ),
    "mask off by one": Fault("ATT001", built(LLAMA), wrapped(attentions, _off_by_one)),
    "statistics over the batch": Fault(
        "ATT002",
        built(GPT),
        wrapped(attentions, lambda forward, x, *rest: forward(x - x.mean(0, True), *rest)),
    ),
    "time and batch confused": Fault(
        "ATT002", built(GPT), wrapped(attentions, _time_and_batch_confused)
    ),
    "padding attended": Fault("ATT003", built(GPT), wrapped(attentions, _causal_alone)),
    "padding attended, encoder": Fault(
        "ATT003",
        built(BERT),
        wrapped(
            attentions,
            lambda forward, x, p, view, cache: forward(x, p, view._replace(mask=None), cache),
        ),
    ),
    "documents attended": Fault("ATT004", built(LLAMA), wrapped(attentions, _causal_alone)),
    "heads not transposed": Fault(
        "ATT005", built(GPT), lambda case: _heads_not_transposed(decoder(case))
    ),
    "attention times zero": Fault(
        "ATT005",
        built(LLAMA),
        wrapped(attentions, lambda forward, *rest: 0.0 * forward(*rest)),
    ),
    "NaN under padding": Fault("ATT006", built(GPT), wrapped(attentions, _nan_under_padding)),
    "rotation forgotten": Fault("POS001", built(LLAMA), _without_positions),
    "learned positions forgotten": Fault("POS001", built(GPT), _without_positions),
    "positions forgotten, encoder": Fault("POS001", built(BERT), _without_positions),
    "keys not rotated": Fault("POS002", built(LLAMA), _rotate_queries_alone),
    "pairing of another layout": Fault("POS002", built(LLAMA), _other_pairing),
    "labels not shifted": Fault("LOS001", with_data(GPT), _labels(torch.clone)),
    "labels shifted twice": Fault("LOS002", with_data(GPT), _labels(lambda i: next_tokens(i, 2))),
    "labels of other rows": Fault(
        "LOS003", with_data(GPT), _labels(lambda i: next_tokens(i).roll(1, 0))
    ),
    "3% supervised": Fault("LOS004", with_data(LLAMA), _labels(_few)),
    "nothing supervised": Fault(
        "LOS011", with_data(LLAMA), _labels(lambda i: torch.full_like(i, -100))
    ),
    "loss against the input": Fault("LOS001", with_data(LLAMA), _loss(_against_itself)),
    "loss shifts again": Fault("LOS002", with_data(LLAMA), _loss(_moved_again)),
    "loss times 1.3": Fault("LOS005", with_data(GPT), _loss(lambda z, y: 1.3 * mean_loss(z, y))),
    "loss summed": Fault("LOS006", with_data(GPT), _loss(_summed)),
    "loss of 5 parts": Fault("LOS007", with_data(GPT), _loss(lambda z, y: 5 * mean_loss(z, y))),
    "softmax twice": Fault("LOS008", with_data(LLAMA), _loss(_softmax_twice)),
    "sign turned": Fault("LOS009", with_data(GPT), _loss(lambda z, y: -mean_loss(z, y))),
    "ignored counted": Fault("LOS010", with_data(GPT), _loss(_ignored_counted)),
    "loud embedding": Fault("INI001", with_data(GPT), _no_grad(_loud)),
    "knows the answer": Fault("INI002", with_data(LLAMA, pretrained=False), _knows_the_answer),
    "equal blocks": Fault("INI003", built(LLAMA), _no_grad(_copy_block)),
    "detached feed-forward": Fault(
        "GRD001",
        built(GPT),
        wrapped(second_feed_forward, lambda forward, *rest: forward(*rest).detach()),
    ),
    "dead units": Fault("GRD002", _with_relu, _no_grad(_dead)),
    "frozen block": Fault("GRD003", built(GPT), _frozen_block),
    "gradients left": Fault("GRD004", built(GPT), _gradients_left),
    "weights not in the optimiser": Fault("OPT001", with_optimizer(GPT), _half_of_the_weights),
    "vanishing rate": Fault("OPT002", with_optimizer(GPT), _rate(1e-30)),
    "another model's optimiser": Fault("OPT003", with_optimizer(GPT), _another_models),
    "rate of zero": Fault("OPT004", with_optimizer(GPT), _rate(0.0)),
    "capped logits": Fault(
        "LRN001", built(LLAMA), lambda case: setattr(case.model.output_head, "soft_cap", 0.1)
    ),
    "head is a copy": Fault("TIE001", built(GPT, tied=True), _untied),
    "head is shared": Fault("TIE002", built(LLAMA, tied=False), _tied),
    "NaN in a weight": Fault(
        "WGT001",
        built(LLAMA),
        _no_grad(lambda m: m.stack.blocks[0].attention.query.weight[0, :1].fill_(math.nan)),
    ),
    "matrix never loaded": Fault("WGT002", learnt, _no_grad(_zero_matrix)),
    "rows never loaded": Fault("WGT003", learnt, _no_grad(_zero_rows)),
    "weights never loaded": Fault("WGT004", learnt, _no_grad(_redraw)),
    "outputs transposed": Fault("WGT005", learnt, _no_grad(_transpose_one_role)),
    "same batch": Fault("DAT001", _batches, _same_batch),
    "same rows": Fault("DAT002", _batches, _same_rows),
    "ids beyond the vocabulary": Fault(
        "DAT003", with_data(GPT), lambda case: case.ids[0, 3:4].fill_(VOCAB)
    ),
    "unknown tokens": Fault("DAT004", with_tokenizer, _unknown),
    "end is padding": Fault("DAT005", with_tokenizer, _pad_is_eos),
    "padding supervised": Fault("DAT006", with_tokenizer, _pad_supervised),
    "tokenizer too large": Fault(
        "DAT007", with_tokenizer, lambda case: setattr(case.tokenizer, "size", VOCAB + 9)
    ),
    "bf16 weights": Fault("NUM001", with_optimizer(GPT), _bf16_adam),
    "large in float16": Fault(
        "NUM002", _half(torch.float16), wrapped(second_feed_forward, _massive)
    ),
    "eps in float16": Fault("NUM003", _half(torch.float16), _tiny_eps),
    "overflow": Fault("NUM004", built(LLAMA), _no_grad(_overflowing)),
    "float16 trained": Fault(
        "NUM005",
        _half(torch.float16),
        _set("optimizer", lambda case: torch.optim.AdamW(case.model.parameters())),
    ),
    "tables in bf16": Fault(
        "NUM006", _half(torch.bfloat16), lambda case: case.model.to(torch.bfloat16)
    ),
    "dropout in evaluation": Fault("RND001", built(GPT), wrapped(attentions, _dropping)),
    "seed in the forward pass": Fault("RND002", with_dropout, _seeded),
}
