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


@pytest.mark.parametrize("name", MODELS)
def test_each_address_holds_what_is_listed_and_torch_was_asked_for_it(name: str) -> None:
    model = build(MODELS[name])
    found = traced(model)
    listed = found.addresses()
    assert {at: tuple(found[at].shape) for at in listed} == listed
    seen = BlockRecord(model)
    with Witness() as witness, seen:
        logits = forward(found)
    assert torch.equal(found["logits" if model.has_head else "final_norm"], logits)
    for at, said in seen.tensors.items():
        torch.testing.assert_close(found[at], said[0], rtol=1e-9, atol=1e-9)
    of_heads = [at for at in listed if ".H" in at]  # a router has scores and weights, too
    for at in of_heads:
        if at.endswith(".weights"):
            check_head(found, at.removesuffix(".weights"))
    squares = [w for w in witness.weights if w.shape[-2] in (7, 9)]
    attentions = dict.fromkeys(
        (at.split(".")[0], ".cross." in at) for at in of_heads if at.endswith(".scores")
    )
    if len(squares) == len(attentions):
        for (layer, cross), said in zip(in_order(attentions), squares, strict=True):
            for head, expected in enumerate(said):
                at = f"{layer}.H{head}.{'cross.' if cross else ''}weights"
                weights = found[at].double()
                torch.testing.assert_close(weights, expected[:, : weights.shape[1]])
    else:
        assert "window" in name or name in (*WITHOUT_SOFTMAX, "alternating")


def in_order(attentions: dict[tuple[str, bool], None]) -> list[tuple[str, bool]]:
    """The encoder's first, and in a layer what looks across last, as they run."""
    return sorted(attentions, key=lambda at: (at[0][0], int(at[0][1:]), at[1]))


def check_head(found: Trace, at: str) -> None:
    """Weights are shares of what is seen, and the values they weigh are what the head found."""
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
    near = weights @ found[f"{at}.v"]
    near = attention.positions.add_values(near[None, None], weights[None, None], attention.view)[
        0, 0
    ]
    if kind == "NeuralMemory":
        share = found[f"{at}.gate"][:, None]
        near = (1 - share) * near + share * found[f"{at}.memory"]
    if f"{at}.output_gate" in found.addresses():
        near = near * found[f"{at}.output_gate"]
    return _close(near, found[f"{at}.out"])


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
                at = f"{letter}{number}"
                self._hear(block, f"{at}.residual", f"{letter}{number + 1}.residual")
                self._hear(block.attention, f"{at}.attention.in", f"{at}.attention")
                self._hear(block.feed_forward, f"{at}.feed_forward.in", f"{at}.feed_forward")
                if block.cross_attention is not None:
                    self._hear(
                        block.cross_attention, f"{at}.cross_attention.in", f"{at}.cross_attention"
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
    found = traced(build(TWINS[name], double=False))
    assert torch.equal(found["logits"], forward(found))
    torch.testing.assert_close(found["probabilities"], forward(found).softmax(-1))
    for at in found.addresses():
        if at.endswith(".weights"):
            check_head(found, at.removesuffix(".weights"))


def test_scores_are_scaled_and_capped_and_biased_and_not_yet_masked() -> None:
    found = traced(build(VARIANTS["alibi"]))
    at = "L1.H2"
    slopes = found.attention("decoder", 1).positions.slopes
    far = (torch.arange(7) - torch.arange(7)[:, None]).abs()
    _close(found[f"{at}.bias"], -slopes[2].double() * far)
    plain = found[f"{at}.q"] @ found[f"{at}.k"].mT / 4**0.5
    _close(found[f"{at}.scores"], plain + found[f"{at}.bias"])
    capped = traced(build(VARIANTS["soft cap"]))
    plain = capped[f"{at}.q"] @ capped[f"{at}.k"].mT * 0.3
    _close(capped[f"{at}.scores"], 2 * torch.tanh(plain / 2))


def test_queries_are_those_that_scores_are_made_of() -> None:
    turned = traced(build(VARIANTS["rotary"]))
    assert not torch.allclose(turned["L0.H0.q"], turned["L0.H0.q_plain"])
    assert torch.allclose(turned["L0.H0.q"][0], turned["L0.H0.q_plain"][0])
    assert "L0.H0.q_plain" not in traced(build(VARIANTS["learned"])).addresses()
    grouped = traced(build(VARIANTS["grouped"]))
    assert torch.equal(grouped["L0.H0.k"], grouped["L0.H1.k"])
    assert not torch.equal(grouped["L0.H1.k"], grouped["L0.H2.k"])


def test_loss_and_surprisal_are_of_the_token_that_came() -> None:
    found = traced(build(BASE))
    log_p = forward(found).log_softmax(-1)
    expected = -log_p[torch.arange(6), found.ids[1:]]
    torch.testing.assert_close(found["surprisal"], expected)
    torch.testing.assert_close(found["loss"], expected.mean())


def test_an_encoder_has_probabilities_and_no_surprisal() -> None:
    found = traced(build(ENCODERS["bert"]))
    assert found["E0.H1.weights"].shape == (7, 7)
    assert found["E0.H1.mask"].all()
    assert found["probabilities"].shape == (7, 23)
    with pytest.raises(pellucid.PellucidError, match="An encoder sees every token"):
        found["surprisal"]


def test_an_encoder_decoder_has_three_stacks_of_attention() -> None:
    found = traced(build(PAIRS["original"]))
    assert found["E0.H1.weights"].shape == (9, 9)
    assert found["L0.H1.weights"].shape == (7, 7)
    assert found["L0.H1.cross.weights"].shape == (7, 9)
    assert found["encoder.final_norm"].shape == (9, 16)


def test_weights_in_bfloat16_and_adapters_are_followed() -> None:
    narrow = assemble(BASE, seed=0).eval().bfloat16()
    found = traced(narrow)
    assert found.dtype == "bfloat16"
    assert torch.equal(found["logits"], forward(found))
    assert found["L1.H0.weights"].sum(-1).allclose(torch.ones(7), atol=1e-2)
    adapted = build(BASE)
    before = traced(adapted)["L1.H0.q"]
    lora = config.LoRA(rank=2, alpha=4.0, dropout=0.5, targets=("*.query",))
    assemble_trained(adapted, lora, seed=0)
    adapted.decoder.blocks[1].attention.query.lora_up.data.fill_(0.5)
    found = traced(adapted)
    assert not torch.allclose(found["L1.H0.q"], before)
    adapted.eval()
    torch.testing.assert_close(found["logits"], forward(found))


def test_one_changed_weight_changes_what_comes_after_it_and_nothing_before() -> None:
    model = build(BASE)
    before = traced(model)
    old = {at: before[at] for at in ("L1.residual", "L1.H0.q", "L1.H0.k", "logits")}
    model.decoder.blocks[1].attention.query.weight.data[0, 0] += 0.5
    now = traced(model)
    changed = {at for at, value in old.items() if not torch.equal(now[at], value)}
    assert changed == {"L1.H0.q", "logits"}


def test_the_model_is_left_as_it_was() -> None:
    model = build(with_stack(dropout=0.5)).train()
    model.decoder.blocks[0].eval()
    modes = [module.training for module in model.modules()]
    found = traced(model).with_heads({(0, 1): 0.0})
    assert torch.equal(found["L1.H0.out"], found["L1.H0.out"])
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_hooks for module in model.modules())
    assert not any(module._forward_pre_hooks for module in model.modules())
    assert not found["logits"].requires_grad


class Sizes(TorchDispatchMode):
    """How many numbers torch made."""

    def __init__(self) -> None:
        super().__init__()
        self.made = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        self.made += made.numel() if isinstance(made, Tensor) else 0
        return made


def test_opening_one_head_costs_the_same_however_many_layers_there_are() -> None:
    costs: list[int] = []
    for n_layers in (2, 12):
        found = traced(build(with_stack(n_layers=n_layers), double=False), time=16)
        with Sizes() as sizes:
            found["L1.H0.weights"]
        costs.append(sizes.made)
    assert costs[0] == costs[1]


def test_only_the_stream_and_the_last_opened_layers_are_kept() -> None:
    found = traced(build(with_stack(n_layers=12), double=False), time=16)
    stack_pass = found.stack_pass("decoder")
    assert [state.shape for state in stack_pass.states] == [(1, 16, 16)] * 13
    for number in range(12):
        found[f"L{number}.H0.weights"]
    kept = list(found._open)
    assert kept == [("decoder", number) for number in range(4, 12)]
    tensors = [t for record_block in found._open.values() for t in record_block.tensors.values()]
    assert max(t.numel() for t in tensors) <= 16 * 32  # no square of queries and keys, by head


def test_a_head_without_a_say_is_a_head_whose_projection_is_zero() -> None:
    model = build(BASE)
    found = traced(model)
    silent = found.with_heads({(1, 2): 0.0})
    model.decoder.blocks[1].attention.output.weight.data[:, 8:12] = 0
    _close(silent["logits"], forward(found))
    assert not silent["L1.H2.out"].any()
    assert torch.equal(found["L1.H2.weights"], silent["L1.H2.weights"])
    same = traced(build(BASE)).with_heads({"L1.H2": 1.0})
    assert torch.equal(same["logits"], found["logits"])
    half = silent.with_heads({(0, 0): 0.5})
    assert len(half.scales) == 2


def test_heads_that_look_at_an_encoder_can_be_taken_away_too() -> None:
    found = traced(build(PAIRS["original"]))
    silent = found.with_heads({"L0.H1.cross": 0.0, "E1.H0": 2.0})
    assert not silent["L0.H1.cross.out"].any()
    _close(silent["E1.H0.out"], 2 * found["E1.H0.out"])
    assert not torch.allclose(silent["logits"], found["logits"])


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
    for given, said in (
        ({}, "a bare model has no tokenizer"),
        ({"ids": [1, 99]}, "between 0 and 22"),
        ({"ids": []}, "ids of one text"),
        ({"ids": [1] * 17}, "reads at most 16"),
        ({"ids": [1], "source_ids": [1]}, "source_ids were given"),
    ):
        with pytest.raises(pellucid.PellucidError, match=said):
            trace(model, **given)
    with pytest.raises(pellucid.PellucidError, match="no head 4"):
        traced(model).with_heads({(0, 4): 0.0})
    with pytest.raises(pellucid.PellucidError, match="no layer 2"):
        traced(model).with_heads({(2, 0): 0.0})
    with pytest.raises(pellucid.PellucidError, match="source_ids are missing"):
        trace(build(PAIRS["original"]), ids=[1, 2])
