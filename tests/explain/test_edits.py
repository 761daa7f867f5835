"""Edits: the requested values are there, and all later values are computed again."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch

import pellucid
from pellucid.errors import PellucidError
from pellucid.explain import Edit, find_paths
from pellucid.explain.addresses.audit import audit
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.explain.edits.grammar import parse_edit
from support.models import BASE, VARIANTS, build, random_ids
from support.nightly import sampled
from support.traced import MODELS, traced

SAMPLE = [name for name in MODELS if name != "preset minilm-l6"]


@pytest.mark.parametrize("name", sampled(SAMPLE, every=16))
def test_an_edit_that_changes_nothing_changes_nothing(name: str) -> None:
    trace = traced(build(MODELS[name]))
    letter = "L" if trace.side == "decoder" else "E"
    addresses = trace.addresses()
    edits = [
        text
        for text, address in (
            (f"{letter}1.residual*=1", f"{letter}1.residual"),
            (f"{letter}0.attention[2]*=1", f"{letter}0.attention"),
            (f"{letter}0.feed_forward[:, 3]+=0", f"{letter}0.feed_forward"),
            (f"{letter}0.feed_forward.units[:, 3]*=1", f"{letter}0.feed_forward.units"),
            (f"{letter}0.H1.out[4]*=1", f"{letter}0.H1.out"),
            (f"{letter}0.H1.weights[4, 2]*=1", f"{letter}0.H1.scores"),
        )
        if address in addresses
    ]
    assert len(edits) >= 3
    edited = trace.edit(*edits)
    torch.testing.assert_close(edited["logits"], trace["logits"], rtol=1e-9, atol=1e-9)


def test_a_head_by_its_name_is_the_head_of_with_heads() -> None:
    trace = traced(build(BASE))
    for value, scale in (("0", 0.0), ("0.5", 0.5), ("mean", "mean")):
        edited = trace.edit(f"L1.H2={value}")
        assert torch.equal(edited["logits"], trace.with_heads({(1, 2): scale})["logits"])
    at_one_token = trace.edit("L1.H2.out[6]*=0")
    assert torch.equal(at_one_token["L1.H2.out"][5], trace["L1.H2.out"][5])
    assert not at_one_token["L1.H2.out"][6].any()
    assert torch.equal(at_one_token["logits"][5], trace["logits"][5])


@pytest.mark.parametrize("name", ["rotary", "sinks", "soft cap", "alibi", "grouped", "latent"])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_an_attention_weight_is_set_and_the_others_keep_their_proportions(
    name: str, share: float
) -> None:
    trace = traced(build(VARIANTS[name]))
    if (name, share) == ("sinks", 1.0):
        with pytest.raises(PellucidError, match="a sink takes a share"):
            trace.edit("L0.H1.weights[5, 2]=1")
        return
    edited = trace.edit(f"L0.H1.weights[5, 2]={share}")
    before, after = trace["L0.H1.weights"], edited["L0.H1.weights"]
    assert float(after[5, 2]) == pytest.approx(share)
    others = [0, 1, 3, 4, 5]
    factor = (1 - share) / (1 - before[5, 2])
    torch.testing.assert_close(after[5, others], before[5, others] * factor)
    assert torch.equal(after[:5], before[:5])
    assert torch.equal(edited["L0.H0.weights"], trace["L0.H0.weights"])
    torch.testing.assert_close(after @ trace["L0.H1.v"], edited["L0.H1.out"])
    torch.testing.assert_close(edited["logits"][4], trace["logits"][4])
    assert float((edited["logits"][5] - trace["logits"][5]).abs().max()) > 1e-3


def test_a_direction_is_added_to_the_stream() -> None:
    trace = traced(build(BASE))
    edited = trace.edit("L1.residual[-1]+=2*word(7)")
    added = edited["L1.residual"] - trace["L1.residual"]
    torch.testing.assert_close(added[-1], 2 * trace.model.head_weight[7])
    assert not added[:-1].any()
    vector = torch.ones(16, dtype=torch.float64)
    steered = trace.edit(Edit(address="L2.residual", operation="add", value=vector))
    torch.testing.assert_close(steered["L2.residual"], trace["L2.residual"] + 1)


def test_a_unit_and_an_expert_are_switched_off() -> None:
    trace = traced(build(BASE))
    edited = trace.edit("L0.feed_forward.units[:, 30]=0")
    assert not edited["L0.feed_forward.units"][:, 30].any()
    down = trace.model.decoder.blocks[0].feed_forward.down.weight[:, 30]
    lost = trace["L0.feed_forward.units"][:, [30]] * down
    torch.testing.assert_close(edited["L0.feed_forward"], trace["L0.feed_forward"] - lost)
    mixture = traced(build(VARIANTS["experts"]))
    expert = int(mixture["L0.feed_forward.chosen"][-1, 0])
    without_expert = mixture.edit(f"L0.feed_forward.experts.{expert}=0")
    written_address = f"L0.feed_forward.experts.{expert}.written"
    assert not without_expert[written_address].any()
    torch.testing.assert_close(
        without_expert["L0.feed_forward"], mixture["L0.feed_forward"] - mixture[written_address]
    )


def test_another_token_is_another_text_and_another_weight_another_model() -> None:
    trace = traced(build(BASE))
    ids = random_ids(1, 7)[0].tolist()
    ids[3] = 11
    edited = trace.edit("tokens[3]=11")
    assert torch.equal(edited["logits"], pellucid.trace(trace.model, ids=ids)["logits"])
    name = "decoder.blocks.0.attention.query.weight"
    before = copy.deepcopy(trace.model.state_dict())
    nudged = trace.edit(f"{name}[3, 4]+=0.5")
    other = copy.deepcopy(trace.model)
    other.get_parameter(name).data[3, 4] += 0.5
    expected = pellucid.trace(other, ids=trace.ids.tolist())["logits"]
    torch.testing.assert_close(nudged["logits"], expected)
    assert not torch.allclose(nudged["logits"], trace["logits"])
    assert all(torch.equal(before[key], value) for key, value in trace.model.state_dict().items())
    shared = nudged.model.get_parameter("decoder.blocks.1.attention.query.weight")
    assert shared is trace.model.get_parameter("decoder.blocks.1.attention.query.weight")


def test_edits_add_up_and_the_trace_before_stays_as_it_was() -> None:
    trace = traced(build(BASE))
    logits = trace["logits"].clone()
    edited = trace.edit("L0.H1=0").edit("L1.residual[2]*=3", "L1.H0.weights[4, 1]=0.9")
    assert edited.scales
    assert len(edited.edits) == 2
    assert float(edited["L1.H0.weights"][4, 1]) == pytest.approx(0.9)
    assert torch.equal(pellucid.trace(trace.model, ids=trace.ids.tolist())["logits"], logits)
    gradient = edited.backward()["L1.residual.grad"]
    assert gradient.shape == edited["L1.residual"].shape
    attribution = edited.why()
    assert attribution.total == pytest.approx(attribution.rivals.difference, abs=1e-9)
    assert find_paths(edited, attribution).total == pytest.approx(
        attribution.rivals.difference, abs=1e-9
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("L1.H1", "is no edit"),
        ("L9.H1.out=0", "no L9.H1.out"),
        ("L1.H1+=2", "whole head"),
        ("L1.H1.weights[2, 5]=0.1", "does not see"),
        ("L1.H1.weights[0, 0]=0.1", "sees no other"),
        ("L1.H1.weights[5, 2]=1.5", "share from 0 to 1"),
        ("L1.H1.weights[5]=1", "no single weight"),
        ("L1.H1.q[5]=1", "cannot be edited"),
        ("L1.feed_forward[90]=1", "do not fit"),
        ("L0.residual[1]=0", "edit tokens"),
        ("L1.residual[1]=nan", "finite number"),
        ("tokens[77]=3", "names no token"),
        ("tokens[3]=99", "no logit 99"),
        ("decoder.nothing=3", "to edit"),
    ],
)
def test_what_cannot_be_edited_is_refused_in_words(text: str, message: str) -> None:
    with pytest.raises(PellucidError, match=message):
        traced(build(BASE)).edit(text)


def test_an_edit_reads_its_three_parts() -> None:
    assert parse_edit("tokens[3]= dog") == Edit(address="tokens[3]", operation="set", value=" dog")
    assert parse_edit("L1.residual[-1] += 4*word(=)").operation == "add"


def test_the_command_shows_the_changed_words_beside_the_old(trained: Path, capsys: Any) -> None:
    from pellucid.cli import main

    assert main(["explain", str(trained), "the fox", "--edit", "L1.H0.out[3]*=0"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("with L1.H0.out[3]*=0, after token")
    assert "p before" in text


EDITED = ("L0.feed_forward[3]*=2", "L1.residual[2, 1]+=1", "L1.H0.weights[4, 2]=0.5", "tokens[1]=3")


def test_what_an_edit_changed_has_no_receipt_and_what_follows_still_has() -> None:
    edited = traced(build(BASE)).edit(*EDITED)
    assert audit(edited).agrees
    for address in ("L0.feed_forward", "L1.residual", "L1.H0.scores"):
        with pytest.raises(PellucidError, match="an edit changed it"):
            edited.receipt(address, 3, 1)
    with pytest.raises(PellucidError, match="an edit changed numbers"):
        edited.receipt("L0.residual.grad", 3, 1)
    for entry in CHAPTERS:
        if entry.id not in ("compare", "over-time"):
            chapter = build_chapter(edited, entry.id, Place(layer=1, token=4, other=2))
            assert all(receipt.agrees for receipt in chapter.receipts), entry.id
            if entry.walks:
                assert not chapter.receipts
                assert any("an edit changed" in note for note in chapter.notes)
