"""What a chapter says in words is computed again, for every kind of part: it holds, or it fails."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import pellucid
from pellucid import config
from pellucid.explain import Trace, trace
from pellucid.explain.chapter_types import Chapter, Place
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.explain.norms import describe_leak
from pellucid.explain.optimiser_step import list_left_out
from pellucid.model import assemble
from pellucid.model.facts import norm_facts
from support.models import BASE, ENCODERS, VARIANTS, build, random_ids, with_attention, with_stack
from support.tiny import TINY
from support.traced import traced

NORMS: dict[str, config.Norm] = {
    "LayerNorm": config.LayerNorm(eps=1e-5, bias=True),
    "RMSNorm": config.RMSNorm(eps=1e-6),
    "GroupNorm": config.GroupNorm(eps=1e-6, n_groups=4),
    "BatchNorm": config.BatchNorm(eps=1e-5, momentum=0.1),
    "InstanceNorm": config.InstanceNorm(eps=1e-5),
}


def of(model: config.Transformer, name: str, place: Place | None = None) -> Chapter:
    return build_chapter(traced(build(model)), name, place or Place())


def words(chapter: Chapter) -> str:
    return " ".join((chapter.sentence, *chapter.notes))


def sees_others(norm: torch.nn.Module) -> bool:
    """Whether a token after the norm changes where only another token is changed."""
    x = torch.randn(1, 5, 16, generator=torch.Generator().manual_seed(0))
    edited = x.clone()
    edited[0, 4] += 1.0
    return not torch.allclose(norm(x)[0, 0], norm(edited)[0, 0], atol=1e-6)


@pytest.mark.parametrize("kind", NORMS)
def test_units_are_said_to_be_given_one_token_alone_where_they_are(kind: str) -> None:
    norm = assemble(with_stack(norm=NORMS[kind]), seed=0).decoder.blocks[0].feed_forward_norm  # type: ignore[union-attr]
    chapter = of(with_stack(norm=NORMS[kind]), "feed-forward")
    assert ("no other token in sight" in chapter.sentence) == (not sees_others(norm.eval()))


@pytest.mark.parametrize("kind", NORMS)
def test_a_norm_is_said_to_look_at_other_tokens_where_it_does(kind: str) -> None:
    model = assemble(with_stack(norm=NORMS[kind]), seed=0)
    norm = model.get_submodule("decoder.blocks.0.attention_norm")
    sees_others_in = {
        mode: sees_others(norm.train(mode == "training")) for mode in ("training", "use")
    }
    leak = describe_leak(norm_facts(norm), causal=True)
    assert (leak is not None) == any(sees_others_in.values())
    if leak is not None:
        assert "leaks the future" in leak
        assert ("in training" in leak) == (not sees_others_in["use"])
        assert "future" not in (describe_leak(norm_facts(norm), causal=False) or "")
    chapter = of(with_stack(norm=NORMS[kind]), "norm")
    assert ("other tokens" in words(chapter)) is False
    assert (leak in chapter.notes) is (leak is not None)


@pytest.mark.parametrize("kind", NORMS)
def test_what_a_final_norm_keeps_from_being_taken_apart_is_what_it_does(kind: str) -> None:
    chapter = of(with_stack(norm=NORMS[kind]), "residual")
    if kind in ("LayerNorm", "RMSNorm"):
        assert "so they add up to the logit" in words(chapter)
    else:
        assert f"{kind} is the final norm: it takes its means and variances" in words(chapter)
        assert "other tokens" not in words(chapter)


def test_the_lens_ends_at_the_models_own_prediction_whatever_its_norm_is() -> None:
    for kind in NORMS.values():
        text_trace = traced(build(with_stack(norm=kind)))
        (table, *_) = build_chapter(text_trace, "lens", Place()).pictures
        last = table.rows[-1]  # pyright: ignore[reportAttributeAccessIssue]
        best = text_trace["probabilities"][-1].max()
        assert last[2] == pytest.approx(float(best), rel=1e-5)


def test_the_scale_of_scores_is_given_its_reason_where_that_is_the_reason() -> None:
    assert "wide heads do not shout" in words(of(BASE, "scores"))
    for scale in (1.0, 0.3):
        chapter_words = words(of(with_attention(scale=scale), "scores"))
        assert "shout" not in chapter_words
        assert f"times {scale:g}." in chapter_words
    assert "between -2 and 2" in words(of(VARIANTS["soft cap"], "scores"))
    assert "a bias to each score" in words(of(VARIANTS["alibi"], "scores"))
    assert "bias" not in words(of(BASE, "scores"))


def test_positions_are_said_to_do_what_they_do() -> None:
    bare = replace(ENCODERS["rotary"], encoder=with_stack(positions=config.NoPositions()).decoder)
    assert "mask" in words(of(VARIANTS["no positions"], "positions"))
    assert "mask" not in words(of(bare, "positions"))
    assert "without its order" in words(of(bare, "positions"))
    assert "2 of the 4 features of queries" in words(of(VARIANTS["partial rotary"], "positions"))
    assert "of the" not in of(BASE, "positions").sentence.partition("pair by pair")[0]
    for name, adds in (("shaw", False), ("shaw with values", True)):
        assert ("to each value" in words(of(VARIANTS[name], "positions")).lower()) is adds
        assert ("to each value" in words(of(VARIANTS[name], "softmax"))) is adds


@pytest.mark.parametrize("name", ["rotary", "sinks", "linear", "memory", "window"])
def test_the_head_that_looks_most_somewhere_is_the_one_that_is_named(name: str) -> None:
    text_trace = traced(build(VARIANTS[name]))
    sentence = build_chapter(text_trace, "heads", Place()).sentence
    claims = re.findall(r"(L\d\.H\d) looks most at the (.+?): (-?[\d.]+) on average", sentence)
    assert [direction for _, direction, _ in claims] == ["token before", "first token"]
    for head, direction, number in claims:
        shares: dict[str, float] = {}
        for layer in range(2):
            for h in range(4):
                w = text_trace[f"L{layer}.H{h}.weights"].double()
                picked = w.diagonal(-1) if direction == "token before" else w[1:, 0]
                shares[f"L{layer}.H{h}"] = float(picked.mean())
        assert max(shares, key=lambda key: shares[key]) == head
        assert f"{shares[head]:.2f}" == number


def test_a_softmax_is_told_of_where_there_is_one() -> None:
    assert "A softmax gives" in words(of(BASE, "rules"))
    assert "A softmax gives" not in words(of(VARIANTS["linear"], "rules"))
    assert "its rule is not shown" in words(of(VARIANTS["group norm"], "rules"))
    assert "passes nothing on" not in words(of(VARIANTS["group norm"], "rules"))


def test_a_head_that_was_scaled_says_so() -> None:
    text_trace = traced(build(BASE)).with_heads({(1, 1): 0.5})
    assert "multiplied by 0.5" in words(
        build_chapter(text_trace, "softmax", Place(layer=1, head=1))
    )
    assert "multiplied" not in words(build_chapter(text_trace, "softmax", Place(layer=1, head=0)))


def test_without_a_residual_no_sum_is_told_of() -> None:
    chapter_words = words(of(VARIANTS["no residual"], "residual"))
    assert "nothing is carried past a layer" in chapter_words
    assert "rescaled" not in chapter_words
    bare = with_stack(final_norm=False)
    assert "final norm" not in words(of(bare, "residual"))
    assert "The head is applied" in of(bare, "lens").sentence


def test_what_is_frozen_is_not_said_to_have_no_loss() -> None:
    model = build(replace(BASE, embedding=config.Embedding(tied=False, scaled=False)))
    model.head_weight.requires_grad_(False)
    sentence = build_chapter(trace(model, ids=random_ids(1, 6)), "head-gradient", Place()).sentence
    assert sentence == "The matrix of the head is frozen: nothing moves it."


OPTIMISERS: dict[str, tuple[str, ...]] = {
    "Muon": (),
    "AdamW": (
        "optimiser={kind='AdamW', learning_rate=1e-3, betas=[0.9, 0.95], eps=1e-8,"
        " weight_decay=0.1}",
    ),
    "SGD": ("optimiser={kind='SGD', learning_rate=1.0, momentum=0.9, l2=0.0}",),
}
WEIGHT = "attention.query.weight"


def step_parameter(tmp_path: Path, *settings: str) -> Trace:
    file = tmp_path / "text.txt"
    file.write_text("the cat sat on the mat, the dog ran off. " * 30)
    folder = tmp_path / "run"
    all_settings = [*TINY, "text.held_out=0.2", *settings]
    run = pellucid.train([file], out=folder, steps=3, settings=all_settings, show=False)
    return trace(run, "the cat sat")


def test_muon_says_where_the_singular_values_really_are(tmp_path: Path) -> None:
    step_trace = step_parameter(tmp_path)
    chapter = build_chapter(step_trace, "update", Place(weight=WEIGHT))
    match = re.search(
        r"between ([\d.]+) and ([\d.]+), (\d+) of (\d+) within 0.3 of one", chapter.sentence
    )
    assert match is not None
    name = f"decoder.blocks.0.{WEIGHT}"
    values = torch.linalg.svdvals(step_trace[f"{name}.direction"].double())
    assert (match[1], match[2]) == (f"{float(values.min()):.3f}", f"{float(values.max()):.3f}")
    n_near = int(((values - 1).abs() <= 0.3).sum())
    assert (int(match[3]), int(match[4])) == (n_near, len(values))
    # label smoothing, dropout: the notes name the other parts of the run's loss
    assert list_left_out(step_trace) == [
        "left out of this step, and part of the run's training: dropout"
    ]


@pytest.mark.parametrize("kind", OPTIMISERS)
def test_a_step_names_two_numbers_that_differ_where_the_weight_moves(
    kind: str, tmp_path: Path
) -> None:
    step_trace = step_parameter(tmp_path, *OPTIMISERS[kind])
    chapter = build_chapter(step_trace, "update", Place(weight=WEIGHT))
    number = r"(-?\d[\d.]*(?:e-?\d+)?)"
    match = re.search(rf" (up|down), from {number} to {number}[,:]", chapter.sentence)
    assert match is not None, chapter.sentence
    before, after = float(match[2]), float(match[3])
    assert before != after
    assert (after > before) == (match[1] == "up")
    assert ("AdamW" in chapter.sentence.partition(":")[0]) == (kind == "AdamW")


def test_a_run_with_label_smoothing_is_explained_with_it(tmp_path: Path) -> None:
    step_trace = step_parameter(
        tmp_path, "objective.label_smoothing=0.1", "model.decoder.dropout=0"
    )
    assert list_left_out(step_trace) == []
    smoothed = F.cross_entropy(step_trace["logits"][:-1], step_trace.ids[1:], label_smoothing=0.1)
    assert float(step_trace["loss"]) == pytest.approx(float(smoothed), rel=1e-6)
    assert f"{float(smoothed):.4f}" in build_chapter(step_trace, "loss", Place()).sentence


def test_no_chapter_says_that_a_part_looks_at_other_tokens_which_does_not() -> None:
    for name in ("group norm", "rms-norm", "unit offset"):
        text_trace = traced(build(VARIANTS[name]))
        for entry in CHAPTERS:
            if not entry.walks:
                chapter_words = words(build_chapter(text_trace, entry.id, Place()))
                assert "leaks the future" not in chapter_words, (name, entry.id)


def test_only_pieces_of_the_text_are_counted_as_its_pieces(trained: Path) -> None:
    run_trace = trace(pellucid.load(trained), "the fox sat")
    assert run_trace.run is not None
    n = len(run_trace.run.require_tokenizer().encode("the fox sat"))
    special = len(run_trace.ids) - n
    assert special > 0
    sentence = build_chapter(run_trace, "tokens", Place()).sentence
    assert f"cut into {n} pieces" in sentence
    words = "one special token" if special == 1 else f"{special} special tokens"
    assert f"besides {words}" in sentence
