"""Compiled code writes what the model itself would."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, product
from typing import Any

import pytest
import torch

from pellucid import config
from pellucid.generation import (
    Beams,
    Reader,
    SampledToken,
    Sampling,
    beam_search_ids,
    continue_tokens,
)
from pellucid.generation.decoding import decoder
from pellucid.model import Transformer, Weights, narrow
from pellucid.model.trainable import add_lora, merge
from pellucid.native import Kernel, kernels
from support.models import BASE, PAIRS, VARIANTS, build, random_ids, with_stack
from support.nightly import sampled

pytestmark = pytest.mark.usefixtures("native")

GREEDY = Sampling(temperature=0.0)
#: the types of matrices that compiled code reads
COMPILED: tuple[Weights, ...] = ("float32", "bfloat16", "int8", "int4")
#: What no instruction says, and so only the model itself does.
WITHOUT = {
    "latent",
    "latent, of queries too",
    "latent with a bias on scores",
    "alibi, rounded",
    "clipped, gate of each head",
    "gate of each feature",
    "qk-norm after rotation",
    "dynamic rotary",
    "longrope",
    "shaw",
    "shaw with values",
    "disentangled",
    "disentangled with own projections",
    "positions that take turns",
    "linear",
    "linear with learned positions",
    "linear beside softmax",
    "memory",
    "memory with a bias on scores",
    "clamped units",
    "experts",
    "experts with weighted inputs",
    "grouped experts and a shared one",
    "weight norm",
    "spectral norm",
}


def ready(model: config.Transformer, weights: Weights = "float32") -> Transformer:
    built = build(model, double=False)
    narrow(built, weights)
    return built


def read(model: Transformer, ids: torch.Tensor) -> Iterator[tuple[torch.Tensor, bool]]:
    """Logits after each further column, and whether compiled code gave them."""
    reader = Reader(model)
    reader.next_logits(ids[:, :4])
    for length in range(5, ids.shape[1] + 1):
        logits = reader.next_logits(ids[:, :length])
        yield logits, reader._decoder is not None


def token_ids(rows: Iterable[Sequence[SampledToken | None]]) -> list[list[int | None]]:
    return [[None if token is None else token.token_id for token in row] for row in rows]


def tokens(model: Transformer, prompts: list[list[int]], how: Sampling, n: int = 30) -> list[Any]:
    return token_ids(islice(continue_tokens(model, prompts, how), n))


def test_only_what_is_known_to_have_no_tape_has_none() -> None:
    assert {name for name, model in VARIANTS.items() if decoder(ready(model)) is None} == WITHOUT
    assert all(decoder(ready(model)) is None for model in PAIRS.values())


@pytest.mark.parametrize(
    ("name", "weights"), sampled(product(sorted(VARIANTS.keys() - WITHOUT), COMPILED), 7)
)
def test_logits_are_those_of_the_model(name: str, weights: Weights) -> None:
    model = ready(VARIANTS[name], weights)
    ids = random_ids(3, 16)
    # what integers are multiplied with has 16 bits
    bound = 1e-3 if weights in ("int8", "int4") else 1e-5
    for length, (logits, compiled) in enumerate(read(model, ids), start=5):
        assert compiled
        expected = model(ids[:, :length])[:, -1]
        assert (logits - expected).abs().max() <= bound * expected.abs().max()


@pytest.mark.parametrize(
    ("name", "weights"),
    sampled(product(sorted(VARIANTS.keys() - {"weight norm", "spectral norm"}), COMPILED), 5),
)
def test_tokens_are_those_of_the_model_past_its_context_too(
    name: str, weights: Weights, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ready(VARIANTS[name], weights)
    prompts = [[3], random_ids(1, 6)[0].tolist(), random_ids(1, 11)[0].tolist()]
    random = Sampling(temperature=1.0, top_k=9, seed=3)
    compiled = [list(islice(continue_tokens(model, prompts, how), 30)) for how in (GREEDY, random)]
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    own = [list(islice(continue_tokens(model, prompts, how), 30)) for how in (GREEDY, random)]
    assert token_ids(compiled[1]) == token_ids(own[1])
    if weights not in ("int8", "int4"):
        assert token_ids(compiled[0]) == token_ids(own[0])
        return
    # what integers are multiplied with has 16 bits: of two tokens that are as likely, either comes.
    # logits of a size of 5 at most may be 5e-3 off (see above), and so twice that each log P
    for row, own_row in zip(zip(*compiled[0], strict=True), zip(*own[0], strict=True), strict=True):
        for token, own_token in zip(row, own_row, strict=True):
            assert token.log_p == pytest.approx(own_token.log_p, abs=1e-2)
            if token.token_id != own_token.token_id:
                break


def test_a_model_in_float16_writes_without_compiled_code() -> None:
    model = ready(BASE, "float16")
    assert decoder(model) is None
    ids = random_ids(3, 16)
    for length, (logits, compiled) in enumerate(read(model, ids), start=5):
        assert not compiled
        expected = model(ids[:, :length])[:, -1]
        assert (logits - expected).abs().max() <= 1e-3 * expected.abs().max()


@pytest.mark.parametrize("d_model", [16, 72, 300])
@pytest.mark.parametrize("weights", COMPILED)
def test_widths_that_fill_no_vector_are_summed_to_their_end(d_model: int, weights: Weights) -> None:
    model = ready(
        config.Transformer(
            **{
                **{name: getattr(BASE, name) for name in BASE.__slots__},
                "d_model": d_model,
                "decoder": with_stack(
                    feed_forward=config.GatedMLP(d_ff=d_model + 1, activation="silu", bias=True)
                ).decoder,
            }
        ),
        weights,
    )
    ids = random_ids(2, 12)
    for length, (logits, compiled) in enumerate(read(model, ids), start=5):
        assert compiled
        expected = model(ids[:, :length])[:, -1]
        assert (logits - expected).abs().max() <= 1e-3 * expected.abs().max()


def test_neighbours_and_threads_do_not_change_a_bit() -> None:
    model = ready(BASE)
    ids = random_ids(3, 14)
    before = torch.get_num_threads()
    first_logits: list[torch.Tensor] = []
    try:
        for threads in (1, 2, 5):
            # torch reads the prompt: on some processors its products differ with the threads
            torch.set_num_threads(1)
            readings = read(model, ids)
            all_logits = [next(readings)[0]]
            torch.set_num_threads(threads)
            all_logits += [logits for logits, _ in readings]
            first_logits = first_logits or all_logits
            assert all(map(torch.equal, first_logits, all_logits))
    finally:
        torch.set_num_threads(before)


def test_all_kernels_that_multiply_4_bits_give_the_same_bits() -> None:
    model = ready(BASE, "int4")
    ids = random_ids(3, 1)[:, 0]
    logits_by_kernel = []
    for kernel in kernels():
        compiled = decoder(model)
        assert compiled is not None
        compiled.kernel = kernel
        caches = model.new_caches()
        compiled.make_rooms(caches, len(ids))
        logits_by_kernel.append(compiled.logits(ids, caches))
    assert Kernel.PLAIN in kernels()
    assert all(torch.equal(logits_by_kernel[0], other) for other in logits_by_kernel[1:])


def test_beam_search_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    model, beams = ready(BASE), Beams(n_beams=4, n_best=4, max_new_tokens=10)
    prompts = [[3, 4], [5, 6, 7]]
    searches = beam_search_ids(model, prompts, beams, end_id=2)
    monkeypatch.setenv("PELLUCID_NATIVE", "off")
    expected = beam_search_ids(model, prompts, beams, end_id=2)
    assert [[text.ids for text in texts_found] for texts_found in searches] == [
        [text.ids for text in texts_found] for texts_found in expected
    ]


def test_whoever_watches_with_hooks_sees_every_token() -> None:
    model = ready(BASE)
    ids = random_ids(1, 12)
    reader, calls = Reader(model), []
    reader.next_logits(ids[:, :4])
    reader.next_logits(ids[:, :5])
    layer = model.stack.blocks[1].feed_forward
    handle = layer.register_forward_hook(lambda *_: calls.append(1) or torch.zeros(()))
    ablated = reader.next_logits(ids[:, :6])
    assert calls == [1]
    handle.remove()
    new_reader = Reader(model)
    new_reader.next_logits(ids[:, :5])
    assert not torch.allclose(ablated, new_reader.next_logits(ids[:, :6]))


def test_methods_put_on_a_module_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    model = ready(BASE)
    layer = model.stack.blocks[0].feed_forward
    monkeypatch.setattr(layer, "forward", lambda x: torch.zeros_like(x))
    assert decoder(model) is None


def test_other_dtypes_are_the_models_own_affair() -> None:
    assert decoder(build(BASE)) is None
    model = ready(BASE)
    ids = random_ids(1, 6)
    with torch.autocast("cpu", torch.bfloat16):
        reader = Reader(model)
        reader.next_logits(ids[:, :5])
        assert reader.caches is not None
        logits = reader.next_logits(ids)
        caches = model.new_caches()
        with torch.inference_mode():
            model.hidden_states(ids[:, :5], caches)
            expected = model.logits(model.hidden_states(ids[:, 5:], caches)[:, -1]).float()
    assert torch.equal(logits, expected)


def test_id_that_is_no_token_is_refused_and_not_looked_up() -> None:
    model = ready(BASE)
    token_rows = continue_tokens(model, [[3], [4, 5, BASE.vocab_size, 1]], GREEDY)
    with pytest.raises(IndexError):
        list(islice(token_rows, 4))


def test_adapters_are_written_down_once_they_are_merged() -> None:
    model = ready(BASE)
    add_lora(model, rank=2, alpha=4.0, dropout=0.0, targets=["*.query", "*.up"], seed=1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_up" in name:
                parameter.fill_(0.3)
    assert decoder(model) is None
    merge(model)
    ids = random_ids(2, 9)
    for length, (logits, compiled) in enumerate(read(model, ids), start=5):
        assert compiled
        expected = model(ids[:, :length])[:, -1]
        assert torch.allclose(logits, expected, atol=1e-4)


def test_rounded_matrices_that_were_written_to_are_not_read_from_their_few_bits() -> None:
    model = ready(BASE, "int8")
    assert decoder(model) is not None
    with torch.no_grad():
        model.stack.blocks[0].feed_forward.up.weight.mul_(2)
    assert decoder(model) is None
    assert decoder(copy.deepcopy(ready(BASE, "int8"))) is None


def test_what_no_instruction_says_is_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        decoder(ready(VARIANTS["shaw"]))
    assert "no instruction for ShawRelative" in caplog.text
