"""Chapters: every receipt recomputes, every operand is where it says, every number is finite."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import pellucid
from pellucid import config
from pellucid.explain import Trace
from pellucid.explain.addresses.syntax import split_index
from pellucid.explain.chapter_json import plain_chapter
from pellucid.explain.chapter_types import Chapter, Matrix, Place, Tokens
from pellucid.explain.chapters import CHAPTERS, build_chapter
from pellucid.explain.expressions import Number, Vector
from pellucid.model import assemble, assemble_trained
from support.models import BASE, VARIANTS, build, with_stack
from support.nightly import sampled
from support.traced import MODELS, operands, traced

SOURCE = Path(pellucid.__file__).parent.parent
PLACES = (Place(), Place(token=4, other=2, layer=1, head=1, feature=3))
#: of everything that the trace's own tests go through, one of each kind
NAMES = [
    "preset gpt2",
    "preset gemma2-2b",
    "preset olmo2-1b",
    "preset qwen3-0.6b",
    "preset bert-base",
    "preset t5-small",
    "preset pythia-70m",
    "preset minilm-l6",
    "alibi",
    "shaw with values",
    "partial rotary",
    "interleaved rotary",
    "sinks",
    "window",
    "grouped",
    "linear",
    "linear with learned positions",
    "memory",
    "group norm",
    "deep norm",
    "no residual",
    "busy head",
    "squared relu",
    "weight norm",
    "tied and scaled",
    "input norm",
    "encoder bert",
    "pair original",
]


def all_chapters(trace: Trace) -> Iterator[Chapter]:
    """Every chapter at two places, and for a pair also at its other stacks."""
    places = list(PLACES)
    if len(trace.sides) == 2:
        places += [Place(layer=1, head=2, cross=True, other=3), Place(stack="encoder", token=3)]
    for entry in CHAPTERS:
        for place in places[1:2] if entry.at_one_place else places:
            if entry.id == "lens" and (place.stack == "encoder" or not trace.model.has_head):
                continue
            if entry.id == "probabilities" and not trace.model.has_head:
                continue
            yield build_chapter(trace, entry.id, place)


class Stands:
    """The tensors of a trace, each made once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.made: dict[str, torch.Tensor] = {}

    def __getitem__(self, address: str) -> torch.Tensor:
        name, index = split_index(address)
        if name not in self.made:
            self.made[name] = self.trace[name]
        return self.made[name][index] if index else self.made[name]


def check(trace: Trace, chapter: Chapter) -> None:
    """Receipts agree; operands and sources are where they say; JSON holds all of it."""
    tensor_at = Stands(trace)
    for receipt in chapter.receipts:
        difference = receipt.recomputed - receipt.model
        assert receipt.agrees, (receipt.title, receipt.formula, difference, receipt.tolerance)
        tensor = tensor_at[receipt.address]
        if not tensor.ndim:
            assert float(tensor) == receipt.model
        for operand in operands(receipt.expression):
            if operand.address:
                values_there = tensor_at[operand.address].double()
                operand_value = operand.value if isinstance(operand, Number) else operand.values
                torch.testing.assert_close(
                    values_there, torch.tensor(operand_value, dtype=torch.float64)
                )
        file, _, line = receipt.source.rpartition(":")
        assert (SOURCE / file).is_file()
        assert (SOURCE / file).read_text("utf-8").splitlines()[int(line) - 1].strip()
    json.dumps(plain_chapter(chapter), allow_nan=False)
    assert chapter.sentence.endswith(".")
    assert all("—" not in operand_value for operand_value in (chapter.sentence, *chapter.notes))
    for picture in chapter.pictures:
        if isinstance(picture, Matrix):
            check_matrix(trace, picture)


def check_matrix(trace: Trace, picture: Matrix) -> None:
    """A map that is not pooled shows the very numbers at its address."""
    assert len(picture.values) == len(picture.rows)
    assert {len(row) for row in picture.values} == {len(picture.columns)}
    if not picture.address or picture.pooled.startswith("pooled"):
        return
    tensor_at = Stands(trace)
    for i, row in enumerate(picture.values):
        for j, cell in enumerate(row):
            address = f"{picture.address}[{i + picture.first_row}, {j + picture.first_column}]"
            assert cell is None or cell == pytest.approx(float(tensor_at[address]), rel=1e-6)


@pytest.mark.parametrize("name", sampled(NAMES))
def test_every_receipt_of_every_chapter_recomputes_from_operands_of_the_trace(name: str) -> None:
    trace = traced(build(MODELS[name]))
    chapters = list(all_chapters(trace))
    assert sum(len(chapter.receipts) for chapter in chapters) >= 12
    for chapter in chapters:
        check(trace, chapter)


@pytest.mark.parametrize("name", ["preset gpt2", "preset gemma2-2b", "preset t5-small"])
def test_receipts_of_float32_agree_within_a_hundred_thousandth_of_their_scale(name: str) -> None:
    trace = traced(build(MODELS[name], double=False))
    for chapter in all_chapters(trace):
        for receipt in chapter.receipts:
            assert receipt.agrees
            allowed = receipt.tolerance * max(1.0, abs(receipt.model))
            # gradients are small, and judged by their own size
            assert (1e-5 if chapter.part == "forward" else 0) <= allowed < 1e-3


def test_in_bfloat16_the_tolerance_is_its_own_and_said() -> None:
    trace = traced(assemble(BASE, seed=0).eval().bfloat16())
    receipts = [receipt for chapter in all_chapters(trace) for receipt in chapter.receipts]
    assert {receipt.dtype for receipt in receipts} == {"bfloat16"}
    assert all(receipt.agrees for receipt in receipts)
    assert any(abs(r.recomputed - r.model) > 1e-5 * max(1, abs(r.model)) for r in receipts)


def test_an_update_beside_a_matrix_is_part_of_its_receipt() -> None:
    model = build(BASE)
    assemble_trained(
        model, config.LoRA(rank=2, alpha=4.0, dropout=0.0, targets=("*.query",)), seed=0
    )
    model.decoder.blocks[1].attention.query.lora_up.data.normal_()
    chapter = build_chapter(traced(model), "qkv", PLACES[1])
    assert "lora_scale" in chapter.receipts[0].formula
    check(traced(model), chapter)


def test_a_receipt_can_differ() -> None:
    trace = traced(build(BASE))
    receipt = build_chapter(trace, "scores", PLACES[1]).receipts[0]
    from dataclasses import replace

    assert not replace(receipt, model=receipt.model + 1e-6).agrees


def test_one_changed_weight_changes_the_chapters_and_the_receipts_still_agree() -> None:
    model = build(BASE)
    before = build_chapter(traced(model), "scores", PLACES[1]).receipts[0]
    model.decoder.blocks[1].attention.query.weight.data[4, 0] += 0.25
    trace = traced(model)
    after = build_chapter(trace, "scores", PLACES[1])
    assert after.receipts[0].model != before.model
    check(trace, after)


def test_a_taken_away_head_is_taken_away_in_its_receipt_too() -> None:
    trace = traced(build(BASE)).with_heads({(1, 1): 0.5})
    chapter = build_chapter(trace, "softmax", PLACES[1])
    assert "ablation" in chapter.receipts[-1].formula
    check(trace, chapter)


def test_numbers_of_chapters_are_their_places_in_the_one_list() -> None:
    trace = traced(build(BASE))
    built_chapters = [build_chapter(trace, entry.id, Place()) for entry in CHAPTERS]
    assert [chapter.number for chapter in built_chapters] == list(range(1, len(built_chapters) + 1))
    assert [(e.id, e.title, e.part) for e in CHAPTERS] == [
        (c.id, c.title, c.part) for c in built_chapters
    ]


@pytest.mark.parametrize("name", ["rotary", "preset gpt2", "preset gemma2-2b", "parallel"])
def test_contributions_add_up_to_the_logit(name: str) -> None:
    trace = traced(build(MODELS[name]))
    chapter = build_chapter(trace, "residual", Place(token=3))
    bars = chapter.pictures[0]
    total = sum(bars.values)
    cap = trace.model.soft_cap
    logit = float(trace["logits"][3, int(trace.ids[4])])
    assert (cap * torch.tanh(torch.tensor(total / cap)) if cap else total) == pytest.approx(logit)
    assert "scale fixed at the one" in " ".join(chapter.notes)


@pytest.mark.parametrize("name", ["post-norm", "deep norm", "no residual", "busy head"])
def test_where_contributions_do_not_add_up_it_is_said_and_none_are_shown(name: str) -> None:
    chapter = build_chapter(traced(build(VARIANTS[name])), "residual", Place())
    assert "do not add up" in " ".join(chapter.notes)
    assert {picture.kind for picture in chapter.pictures} == {"lines"}


def test_a_long_text_is_cut_out_or_pooled_and_said() -> None:
    from dataclasses import replace

    model = build(replace(with_stack(n_layers=1), context_length=128), double=False)
    trace = traced(model, time=100)
    pooled_map, part_map = build_chapter(trace, "scores", Place(token=80, other=60)).pictures[:2]
    assert pooled_map.pooled == "pooled: each cell is the largest of 2 x 2 scores"
    assert len(pooled_map.values) == 50
    assert (part_map.first_row, part_map.first_column) == (52, 36)
    assert "queries 52 to 99 of 100" in part_map.pooled
    check_matrix(trace, part_map)
    small = next(
        picture
        for picture in build_chapter(trace, "heads", Place()).pictures
        if getattr(picture, "pooled", "")
    )
    assert small.pooled == "pooled: each cell is the largest of 7 x 7 weights"
    largest = max(cell for row in small.values for cell in row if cell is not None)
    assert largest == pytest.approx(float(trace["L0.H0.weights"].max()))
    sizes = [len(json.dumps(plain_chapter(build_chapter(trace, e.id, Place())))) for e in CHAPTERS]
    assert max(sizes) < 150_000


def test_of_very_long_rows_the_terms_that_count_are_written_and_the_others_summed() -> None:
    model = build(
        with_stack(n_layers=1, feed_forward=config.MLP(d_ff=3000, activation="gelu", bias=True))
    )
    chapter = build_chapter(traced(model), "feed-forward", Place())
    check(traced(model), chapter)
    receipt = chapter.receipts[-1]
    assert max(len(o.values) for o in operands(receipt.expression) if isinstance(o, Vector)) == 512
    names = [o.name for o in operands(receipt.expression) if isinstance(o, Number)]
    assert names[0] == "2,488 more"


def test_masked_cells_are_left_empty() -> None:
    matrix = build_chapter(traced(build(BASE)), "scores", Place()).pictures[0]
    assert all(
        (cell is None) == (j > i)
        for i, row in enumerate(matrix.values)
        for j, cell in enumerate(row)
    )
    hidden = build_chapter(traced(build(BASE)), "softmax", Place(token=2, other=5))
    assert hidden.receipts[0].model == 0
    assert "hides this key" in hidden.receipts[0].title


def test_surprisals_are_shown_under_the_tokens_they_belong_to() -> None:
    trace = traced(build(BASE))
    tokens = build_chapter(trace, "loss", Place()).pictures[0]
    assert isinstance(tokens, Tokens)
    assert tokens.ids == trace.sentence.ids[1:]
    assert tokens.values == pytest.approx(trace["surprisal"].tolist())


@pytest.mark.parametrize(
    ("place", "said"),
    [
        (Place(layer=2), "no layer 2 of the decoder: there are 2 layers"),
        (Place(token=7), "no token 7: there are 7 tokens"),
        (Place(head=4), "no head 4 of layer 0: there are 4 heads"),
        (Place(other=-8), "no token -8 to look at"),
        (Place(feature=16), "no feature 16"),
        (Place(cross=True), "only the decoder of an encoder-decoder"),
    ],
)
def test_a_place_that_there_is_not_is_refused_with_what_there_is(place: Place, said: str) -> None:
    trace = traced(build(BASE))
    with pytest.raises(pellucid.PellucidError, match=said):
        build_chapter(trace, "scores", place)
    with pytest.raises(pellucid.PellucidError, match="did you mean 'softmax'"):
        build_chapter(trace, "softmx", Place())


def test_a_layer_that_shares_its_weights_shows_those_of_the_first() -> None:
    trace = traced(build(VARIANTS["shared layers"]))
    for layer in (0, 1):
        chapter = build_chapter(trace, "update", Place(layer=layer))
        assert chapter.receipts[0].address.startswith("decoder.blocks.0.")
