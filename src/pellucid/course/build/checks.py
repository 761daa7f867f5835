"""The check of each file of the track: what it computes, against pellucid's equations and model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from pellucid import config, maths
from pellucid.model import assemble
from pellucid.presets import find

#: How far results may differ: in float64, and for a whole model in float32.
_CLOSE, _CLOSE_MODEL = 1e-8, 1e-4


class Different(Exception):  # noqa: N818  a result, not an error of reference
    """A result that is not the expected one."""


def _random(*shape: int) -> Tensor:
    count = int(torch.tensor(shape).prod())
    # the same numbers every time, and no generator of the reader's is moved
    return (torch.arange(count, dtype=torch.float64) * 0.7390851).sin().reshape(shape) * 1.5


def _compare(name: str, result: Any, expected: Any, close: float = _CLOSE) -> None:
    if not isinstance(result, Tensor | float | int):
        raise Different(
            f"{name} is {type(result).__name__}: expected numbers; is a return missing?"
        )
    result, expected = torch.as_tensor(result), torch.as_tensor(expected)
    if result.shape != expected.shape:
        raise Different(f"{name} has shape {tuple(result.shape)}: expected {tuple(expected.shape)}")
    furthest = float((result.double() - expected.double()).abs().max())
    if not furthest <= close:
        raise Different(f"{name} is not right: it is off by up to {furthest:.3g}")


def _tokenizer(module: ModuleType) -> None:
    ids = list(b"abababcbcbc")
    if module.most_frequent_pair(ids) != (97, 98) or module.most_frequent_pair([5, 5, 5]) != (5, 5):
        counts = Counter(pairwise(ids)).most_common(2)
        raise Different(f"most_frequent_pair is not right: in 'abababcbcbc' they are {counts}")
    if module.merge([1, 2, 1, 2, 2, 1], (1, 2), 9) != [9, 9, 2, 1]:
        raise Different("merge([1, 2, 1, 2, 2, 1], (1, 2), 9) has to be [9, 9, 2, 1]")
    if module.merge([1, 1, 1], (1, 1), 9) != [9, 1]:
        raise Different("merge([1, 1, 1], (1, 1), 9) has to be [9, 1]: pairs do not overlap")
    text = "low lower lowest, naïve 低い " * 4
    merges = module.train_merges(text, 20)
    ids = module.encode(text, merges)
    if module.decode(ids, merges) != text or len(ids) >= len(text.encode()) / 2:
        raise Different("encode and decode do not give the text back in fewer tokens")


def _embedding(module: ModuleType) -> None:
    weight, ids = _random(7, 3), torch.tensor([[2, 0, 2], [6, 1, 1]])
    _compare("embedding", module.embedding(weight, ids), maths.embedding(weight, ids))


def _positions(module: ModuleType) -> None:
    places, x = torch.arange(3, 8), _random(2, 2, 5, 6)
    expected = maths.rotary_angles(places.double(), d_head=6, base=100.0)
    _compare("angles", torch.as_tensor(module.angles(places, 6, 100.0)).double(), expected, 1e-5)
    rotated = maths.rotate(x, expected, pairing="half_split")
    _compare("rotate", module.rotate(x, places, 100.0), rotated, 1e-5)


def _attention(module: ModuleType) -> None:
    q, k, v = _random(2, 3, 5, 4), _random(2, 3, 5, 4).cos(), _random(2, 3, 5, 4).flip(2)
    mask = torch.ones(5, 5, dtype=torch.bool).tril()
    expected = maths.attention(q, k, v, mask=mask)
    _compare("attention", module.attention(q, k, v), expected)
    last = module.attention(q[..., 3:, :], k, v)
    _compare("attention of the last two queries", last, expected[..., 3:, :])


def _norm(module: ModuleType) -> None:
    x, gain = _random(2, 3, 6), _random(6)
    expected = maths.layer_norm(x, gain, torch.zeros(6, dtype=x.dtype), eps=1e-3)
    _compare("layer_norm", module.layer_norm(x, gain, 1e-3), expected)


def _feed_forward(module: ModuleType) -> None:
    x, up, down = _random(2, 3, 4), _random(8, 4), _random(4, 8)
    _compare("gelu", module.gelu(x), maths.gelu(x))
    expected = maths.gelu(x @ up.T) @ down.T
    _compare("feed_forward", module.feed_forward(x, up, down), expected)


def _block(module: ModuleType) -> None:
    x = _random(2, 3, 4)
    result = module.block(x, torch.sin, torch.exp, torch.tanh, torch.sigmoid)
    middle = x + torch.sin(torch.tanh(x))
    _compare("block", result, middle + torch.exp(torch.sigmoid(middle)))


def _loss(module: ModuleType) -> None:
    logits, targets = _random(5, 7), torch.tensor([0, 3, 6, 2, 2])
    expected = maths.cross_entropy(logits, targets).mean()
    _compare("cross_entropy", module.cross_entropy(logits, targets), expected)
    large = module.cross_entropy(logits * 1e4, targets)
    _compare(
        "cross_entropy of large logits", large, maths.cross_entropy(logits * 1e4, targets).mean()
    )


def _backward(module: ModuleType) -> None:
    states, weight, targets = _random(5, 3), _random(7, 3), torch.tensor([0, 3, 6, 2, 2])
    by_states, by_weight = module.head_gradients(states, weight, targets)
    bias = torch.zeros(7, dtype=states.dtype)
    expected = maths.linear_head_grads(states, weight, bias, targets)
    _compare("the gradient by the states", by_states, expected[0])
    _compare("the gradient by the weight", by_weight, expected[1])


def _adamw(module: ModuleType) -> None:
    tensors = (_random(4), _random(4).cos(), _random(4).tanh(), _random(4) ** 2)
    numbers = {"learning_rate": 0.1, "beta1": 0.9, "beta2": 0.99, "eps": 1e-3, "weight_decay": 0.1}
    for step in (1, 3):
        expected = maths.adamw_step(*tensors, step=step, **numbers)
        result = module.adamw_step(*tensors, step=step, **numbers)
        for name, new, expected_new in zip(("w", "m", "v"), result, expected, strict=True):
            _compare(f"{name} after step {step}", new, expected_new)


def _schedule(module: ModuleType) -> None:
    for step in (0, 2, 4, 7, 10, 13):
        expected = maths.cosine(step, warm_up=4, total=10, final=0.1)
        result = module.cosine(step, warm_up=4, total=10, final=0.1)
        _compare(f"cosine at step {step}", result, expected)


def _sampling(module: ModuleType) -> None:
    logits = _random(9)
    for temperature, top_k in ((1.0, None), (0.5, 3), (2.0, 1)):
        cut_logits = logits if top_k is None else maths.keep_top_k(logits, top_k)
        expected = maths.softmax(cut_logits, temperature=temperature)
        result = module.next_token_probabilities(logits, temperature=temperature, top_k=top_k)
        _compare(f"temperature {temperature} and top_k {top_k}", result, expected)


def _lora(module: ModuleType) -> None:
    x, weight, down, up = _random(2, 3, 5), _random(4, 5), _random(2, 5), _random(4, 2)
    expected = x @ (weight + 4.0 / 2 * up @ down).T
    _compare("lora", module.lora(x, weight, down, up, alpha=4.0), expected)
    merged = module.merged(weight, down, up, alpha=4.0)
    _compare("merged", merged, weight + 4.0 / 2 * up @ down)


def _dpo(module: ModuleType) -> None:
    logits, targets = _random(5, 7), torch.tensor([0, 3, 6, 2, 2])
    is_answer = torch.tensor([False, False, True, True, True])
    expected = maths.sequence_log_likelihood(logits[2:], targets[2:])
    result = module.answer_log_probability(logits, targets, is_answer)
    _compare("answer_log_probability", result, expected)
    pairs = (_random(4) - 9, _random(4).cos() - 9, _random(4).tanh() - 9, _random(4).sin() - 9)
    expected = maths.dpo_loss(*pairs, beta=0.3)
    _compare("dpo_loss", module.dpo_loss(*pairs, beta=0.3), expected)


def _small_model() -> Any:
    """A model of nano's kind, in two small layers."""
    settings = ["vocab_size=50", "context_length=16", "d_model=32", "decoder.n_layers=2"]
    settings += ["decoder.attention.d_head=16", "decoder.feed_forward.d_ff=64", "decoder.dropout=0"]
    run = config.run_from_table(
        {"base": "nano"}, find, [f"model.{setting}" for setting in settings]
    )
    return assemble(run.model, seed=0)


def _batches() -> list[Tensor]:
    return [(torch.arange(32) * (3 + step) + step).reshape(2, 16) % 50 for step in range(8)]


def _train(module: ModuleType) -> None:
    """The reader's loop against torch's own loss and optimiser."""
    own_model, reference = _small_model(), _small_model()
    first = torch.nn.functional.cross_entropy(
        reference(_batches()[0][:, :-1]).flatten(0, 1), _batches()[0][:, 1:].flatten()
    )
    loss = module.next_token_loss(own_model, _batches()[0]).detach()
    _compare("next_token_loss", loss, first.detach(), _CLOSE_MODEL)
    result = module.train(own_model, _batches(), learning_rate=0.01, warm_up=2)
    optimiser = torch.optim.AdamW(reference.parameters(), weight_decay=0.0)
    expected: list[float] = []
    for step, ids in enumerate(_batches()):
        factor = maths.cosine(step, warm_up=2, total=8, final=0.0)
        for group in optimiser.param_groups:
            group["lr"] = 0.01 * factor
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(
            reference(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten()
        )
        loss.backward()  # pyright: ignore[reportUnknownMemberType]
        optimiser.step()  # pyright: ignore[reportUnknownMemberType]
        expected.append(float(loss.detach()))
    _compare("the losses of train", torch.tensor(result), torch.tensor(expected), 1e-3)


def _parts(module: ModuleType) -> None:
    """A whole model of the reader's parts against pellucid's own: the same loss."""
    own_model, reference = _small_model(), _small_model()
    for model in (own_model, reference):
        model.load_state_dict({k: w + 0.1 * w.cos() for k, w in model.state_dict().items()})
    module.inject(own_model)
    ids = _batches()[0]
    with torch.no_grad():
        losses = [
            maths.cross_entropy(model(ids)[:, :-1], ids[:, 1:]).mean()
            for model in (own_model, reference)
        ]
    _compare("the loss of your model", losses[0], losses[1], _CLOSE_MODEL)


CHECKS: dict[str, Callable[[ModuleType], None]] = {
    "tokenizer": _tokenizer,
    "embedding": _embedding,
    "positions": _positions,
    "attention": _attention,
    "norm": _norm,
    "feed_forward": _feed_forward,
    "block": _block,
    "loss": _loss,
    "backward": _backward,
    "adamw": _adamw,
    "schedule": _schedule,
    "sampling": _sampling,
    "lora": _lora,
    "dpo": _dpo,
    "train": _train,
    "parts": _parts,
}
