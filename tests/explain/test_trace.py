"""Every number of a trace is the model's own; torch's own calls and hooks are the witness."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import pellucid
from pellucid import config
from pellucid.explain import Trace, trace
from pellucid.model import Transformer, assemble, assemble_trained
from support.models import BASE, ENCODERS, PAIRS, VARIANTS, build, with_stack
from support.nightly import sampled
from support.traced import MODELS, TWINS, traced
from support.witness import Witness

#: their products have no softmax
WITHOUT_SOFTMAX = ("linear", "linear with learned positions", "memory")


def forward(found: Trace) -> Tensor:
    """The model's own logits of a trace's ids, or its states where it has no head."""
    model, source = found.model, found.sentence.source_ids
    encoded = None if source is None else model.encode(torch.tensor([source]))
    with torch.no_grad():
        read = model if model.has_head else model.states
        return read(found.ids[None], encoded=encoded)[0]


@pytest.mark.parametrize("name", sampled(MODELS))
def test_each_address_holds_what_is_listed_and_torch_was_asked_for_it(name: str) -> None:
    model = build(MODELS[name])
    text_trace = traced(model)
    shapes = text_trace.addresses()
    assert {address: tuple(text_trace[address].shape) for address in shapes} == shapes
    record = BlockRecord(model)
    with Witness() as witness, record:
        logits = forward(text_trace)
    assert torch.equal(text_trace["logits" if model.has_head else "final_norm"], logits)
    for address, expected_values in record.tensors.items():
        torch.testing.assert_close(text_trace[address], expected_values[0], rtol=1e-9, atol=1e-9)
    of_heads = [
        address for address in shapes if ".H" in address
    ]  # a router has scores and weights, too
    for address in of_heads:
        if address.endswith(".weights"):
            check_head(text_trace, address.removesuffix(".weights"))
    squares = [w for w in witness.weights if w.shape[-2] in (7, 9)]
    attentions = dict.fromkeys(
        (address.split(".")[0], ".cross." in address)
        for address in of_heads
        if address.endswith(".scores")
    )
    if len(squares) == len(attentions):
        for (layer, cross), expected_values in zip(in_order(attentions), squares, strict=True):
            for head, expected in enumerate(expected_values):
                address = f"{layer}.H{head}.{'cross.' if cross else ''}weights"
                weights = text_trace[address].double()
                torch.testing.assert_close(weights, expected[:, : weights.shape[1]])
    else:
        assert "window" in name or name in (*WITHOUT_SOFTMAX, "alternating")


def in_order(attentions: dict[tuple[str, bool], None]) -> list[tuple[str, bool]]:
    """The encoder's first, and in a layer what looks across last, as they run."""
    return sorted(attentions, key=lambda key: (key[0][0], int(key[0][1:]), key[1]))


def check_head(found: Trace, at: str) -> None:
    """Weights are shares of the visible tokens, and the weighted values are the head's output."""
    weights, mask = found[f"{at}.weights"], found[f"{at}.mask"]
    assert not weights[~mask].any()
    from pellucid.explain.addresses.syntax import parse_head

    place = parse_head(at)
    attention = found.attention(place.side, place.layer, cross=place.cross)
    kind = type(attention.layer).__name__
    if kind == "LinearAttention":
        with pytest.raises(pellucid.PellucidError, match="no scores and no softmax"):
            found[f"{at}.scores"]
        return _close(weights @ found[f"{at}.v"], found[f"{at}.out"])
    if getattr(attention.layer, "sinks", None) is None:
        _close(weights.sum(-1), torch.ones(len(weights)).to(weights))
    mixed = weights @ found[f"{at}.v"]
    mixed = attention.positions.add_values(mixed[None, None], weights[None, None], attention.view)[
        0, 0
    ]
    if kind == "NeuralMemory":
        share = found[f"{at}.gate"][:, None]
        mixed = (1 - share) * mixed + share * found[f"{at}.memory"]
    if f"{at}.output_gate" in found.addresses():
        mixed = mixed * found[f"{at}.output_gate"]
    return _close(mixed, found[f"{at}.out"])


def _close(one: Tensor, other: Tensor) -> None:
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


class BlockRecord:
    """What hooks hear of the parts of a model, by the address it has in a trace."""

    def __init__(self, model: Transformer) -> None:
        self.model = model
        self.tensors: dict[str, Tensor] = {}
        self.handles: list[Any] = []

    def __enter__(self) -> None:
        for letter, stack in (("E", self.model.encoder), ("L", self.model.decoder)):
            for number, block in enumerate(() if stack is None else stack.blocks):
                prefix = f"{letter}{number}"
                self._hear(block, f"{prefix}.residual", f"{letter}{number + 1}.residual")
                self._hear(block.attention, f"{prefix}.attention.in", f"{prefix}.attention")
                self._hear(
                    block.feed_forward, f"{prefix}.feed_forward.in", f"{prefix}.feed_forward"
                )
                if block.cross_attention is not None:
                    self._hear(
                        block.cross_attention,
                        f"{prefix}.cross_attention.in",
                        f"{prefix}.cross_attention",
                    )
        self._hear(self.model.stack.final_norm, "", "final_norm")

    def __exit__(self, *_: Any) -> None:
        for handle in self.handles:
            handle.remove()

    def _hear(self, part: Any, given: str, made: str) -> None:
        def hook(_: Any, arguments: Any, output: Tensor) -> None:
            self.tensors |= {given: arguments[0], made: output} if given else {made: output}

        self.handles.append(part.register_forward_hook(hook))


@pytest.mark.parametrize("name", ["gpt2", "gemma2-2b", "t5-small", "bert-base"])
def test_in_float32_too_every_number_is_torchs(name: str) -> None:
    text_trace = traced(build(TWINS[name], double=False))
    assert torch.equal(text_trace["logits"], forward(text_trace))
    torch.testing.assert_close(text_trace["probabilities"], forward(text_trace).softmax(-1))
    for address in text_trace.addresses():
        if address.endswith(".weights"):
            check_head(text_trace, address.removesuffix(".weights"))


def test_scores_are_scaled_and_capped_and_biased_and_not_yet_masked() -> None:
    text_trace = traced(build(VARIANTS["alibi"]))
    prefix = "L1.H2"
    slopes = text_trace.attention("decoder", 1).positions.slopes
    distances = (torch.arange(7) - torch.arange(7)[:, None]).abs()
    _close(text_trace[f"{prefix}.bias"], -slopes[2].double() * distances)
    plain = text_trace[f"{prefix}.q"] @ text_trace[f"{prefix}.k"].mT / 4**0.5
    _close(text_trace[f"{prefix}.scores"], plain + text_trace[f"{prefix}.bias"])
    capped = traced(build(VARIANTS["soft cap"]))
    plain = capped[f"{prefix}.q"] @ capped[f"{prefix}.k"].mT * 0.3
    _close(capped[f"{prefix}.scores"], 2 * torch.tanh(plain / 2))


def test_queries_are_those_that_scores_are_made_of() -> None:
    rotary_trace = traced(build(VARIANTS["rotary"]))
    assert not torch.allclose(rotary_trace["L0.H0.q"], rotary_trace["L0.H0.q_plain"])
    assert torch.allclose(rotary_trace["L0.H0.q"][0], rotary_trace["L0.H0.q_plain"][0])
    assert "L0.H0.q_plain" not in traced(build(VARIANTS["learned"])).addresses()
    grouped = traced(build(VARIANTS["grouped"]))
    assert torch.equal(grouped["L0.H0.k"], grouped["L0.H1.k"])
    assert not torch.equal(grouped["L0.H1.k"], grouped["L0.H2.k"])


def test_loss_and_surprisal_are_of_the_token_that_came() -> None:
    text_trace = traced(build(BASE))
    log_p = forward(text_trace).log_softmax(-1)
    expected = -log_p[torch.arange(6), text_trace.ids[1:]]
    torch.testing.assert_close(text_trace["surprisal"], expected)
    torch.testing.assert_close(text_trace["loss"], expected.mean())


def test_an_encoder_has_probabilities_and_no_surprisal() -> None:
    text_trace = traced(build(ENCODERS["bert"]))
    assert text_trace["E0.H1.weights"].shape == (7, 7)
    assert text_trace["E0.H1.mask"].all()
    assert text_trace["probabilities"].shape == (7, 23)
    with pytest.raises(pellucid.PellucidError, match="An encoder sees every token"):
        text_trace["surprisal"]


def test_an_encoder_decoder_has_three_stacks_of_attention() -> None:
    text_trace = traced(build(PAIRS["original"]))
    assert text_trace["E0.H1.weights"].shape == (9, 9)
    assert text_trace["L0.H1.weights"].shape == (7, 7)
    assert text_trace["L0.H1.cross.weights"].shape == (7, 9)
    assert text_trace["encoder.final_norm"].shape == (9, 16)


def test_weights_in_bfloat16_and_adapters_are_followed() -> None:
    narrow = assemble(BASE, seed=0).eval().bfloat16()
    text_trace = traced(narrow)
    assert text_trace.dtype == "bfloat16"
    assert torch.equal(text_trace["logits"], forward(text_trace))
    assert text_trace["L1.H0.weights"].sum(-1).allclose(torch.ones(7), atol=1e-2)
    adapted = build(BASE)
    before = traced(adapted)["L1.H0.q"]
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.5, targets=("*.query",))
    assemble_trained(adapted, lora, seed=0)
    adapted.decoder.blocks[1].attention.query.lora_up.data.fill_(0.5)
    text_trace = traced(adapted)
    assert not torch.allclose(text_trace["L1.H0.q"], before)
    adapted.eval()
    torch.testing.assert_close(text_trace["logits"], forward(text_trace))


def test_one_changed_weight_changes_what_comes_after_it_and_nothing_before() -> None:
    model = build(BASE)
    before = traced(model)
    old = {address: before[address] for address in ("L1.residual", "L1.H0.q", "L1.H0.k", "logits")}
    model.decoder.blocks[1].attention.query.weight.data[0, 0] += 0.5
    now = traced(model)
    changed_addresses = {
        address for address, value in old.items() if not torch.equal(now[address], value)
    }
    assert changed_addresses == {"L1.H0.q", "logits"}


def test_the_model_is_left_as_it_was() -> None:
    model = build(with_stack(dropout=0.5)).train()
    model.decoder.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    text_trace = traced(model).with_heads({(0, 1): 0.0})
    assert torch.equal(text_trace["L1.H0.out"], text_trace["L1.H0.out"])
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert not text_trace["logits"].requires_grad


class Sizes(TorchDispatchMode):
    """How many numbers torch made."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.made += result.numel() if isinstance(result, Tensor) else 0
        return result


def test_opening_one_head_costs_the_same_however_many_layers_there_are() -> None:
    costs: list[int] = []
    for n_layers in (2, 12):
        text_trace = traced(build(with_stack(n_layers=n_layers), double=False), time=16)
        with Sizes() as sizes:
            text_trace["L1.H0.weights"]
        costs.append(sizes.made)
    assert costs[0] == costs[1]


def test_only_the_stream_and_the_last_opened_layers_are_kept() -> None:
    text_trace = traced(build(with_stack(n_layers=12), double=False), time=16)
    stack_pass = text_trace.stack_pass("decoder")
    assert [state.shape for state in stack_pass.states] == [(1, 16, 16)] * 13
    for number in range(12):
        text_trace[f"L{number}.H0.weights"]
    open_layers = list(text_trace._open)
    assert open_layers == [("decoder", number) for number in range(4, 12)]
    tensors = [
        t for record_block in text_trace._open.values() for t in record_block.tensors.values()
    ]
    assert max(t.numel() for t in tensors) <= 16 * 32  # no square of queries and keys, by head


def test_a_head_without_a_say_is_a_head_whose_projection_is_zero() -> None:
    model = build(BASE)
    text_trace = traced(model)
    silent = text_trace.with_heads({(1, 2): 0.0})
    model.decoder.blocks[1].attention.output.weight.data[:, 8:12] = 0
    _close(silent["logits"], forward(text_trace))
    assert not silent["L1.H2.out"].any()
    assert torch.equal(text_trace["L1.H2.weights"], silent["L1.H2.weights"])
    unscaled = traced(build(BASE)).with_heads({"L1.H2": 1.0})
    assert torch.equal(unscaled["logits"], text_trace["logits"])
    half = silent.with_heads({(0, 0): 0.5})
    assert len(half.scales) == 2


def test_heads_that_look_at_an_encoder_can_be_taken_away_too() -> None:
    text_trace = traced(build(PAIRS["original"]))
    silent = text_trace.with_heads({"L0.H1.cross": 0.0, "E1.H0": 2.0})
    assert not silent["L0.H1.cross.out"].any()
    _close(silent["E1.H0.out"], 2 * text_trace["E1.H0.out"])
    assert not torch.allclose(silent["logits"], text_trace["logits"])


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("L9.H0.scores", "there is no 'L9.H0.scores'"),
        ("L0.H9.scores", "there is no 'L0.H9.scores'"),
        ("L0.H0.score", "did you mean L0.H0.scores"),
        ("E0.H0.q", "there is no"),
        ("nonsense", "lists all there is"),
    ],
)
def test_an_address_that_there_is_not_is_refused_with_those_near(address: str, said: str) -> None:
    with pytest.raises(pellucid.PellucidError, match=said):
        traced(build(BASE))[address]


def test_what_cannot_be_traced_is_refused_in_plain_words() -> None:
    model = build(BASE)
    for arguments, message in (
        ({}, "a bare model has no tokenizer"),
        ({"ids": [1, 99]}, "between 0 and 22"),
        ({"ids": []}, "ids of one text"),
        ({"ids": [1] * 17}, "reads at most 16"),
        ({"ids": [1], "source_ids": [1]}, "source_ids were given"),
    ):
        with pytest.raises(pellucid.PellucidError, match=message):
            trace(model, **arguments)
    with pytest.raises(pellucid.PellucidError, match="no head 4"):
        traced(model).with_heads({(0, 4): 0.0})
    with pytest.raises(pellucid.PellucidError, match="no layer 2"):
        traced(model).with_heads({(2, 0): 0.0})
    with pytest.raises(pellucid.PellucidError, match="source_ids are missing"):
        trace(build(PAIRS["original"]), ids=[1, 2])
