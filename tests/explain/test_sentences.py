"""What the model reads of a sentence, told in pieces; trees spelled; heads compared."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import tokenizers
import torch
from hypothesis import given
from hypothesis import strategies as st

import pellucid
from pellucid.explain.ablation import change
from pellucid.explain.chapter_types import Place
from pellucid.explain.chapters import build_chapter
from pellucid.explain.chapters.heads import repeats
from pellucid.explain.equations.equation import source_line
from pellucid.explain.expressions import Apply, Number, Vector, evaluate
from pellucid.explain.receipt_text import format_expression
from pellucid.explain.receipts.builder import magnitude
from pellucid.explain.sentence import Spelling, _unread  # pyright: ignore[reportPrivateUsage]
from pellucid.model.scores import scores_of
from pellucid.tokenizers import Tokenizer, llama2c_tokenizer_from, tokenizer_from, train_bytes
from pellucid.tokenizers.train import train_characters
from pellucid.tokenizers.vocabulary import unread
from support.models import BASE, build, random_ids


def test_a_sentence_is_traced_by_the_name_at_the_root(trained: Path) -> None:
    run = pellucid.load(trained)
    trace = pellucid.trace(run, "the fox")
    ids = torch.tensor([[run.tokenizer.begin_id, *run.tokenizer.encode("the fox")]])
    assert torch.equal(trace["logits"], run.model(ids)[0])
    assert trace["L1.H1.scores"][7, 1].shape == ()
    assert trace["L1.H1.scores[7, 1]"] == trace["L1.H1.scores"][7, 1]
    assert torch.equal(trace["L1.H1.v[:, 3]"], trace["L1.H1.v"][:, 3])
    assert torch.equal(trace["L1.H1.v[2, 1:4]"], trace["L1.H1.v"][2, 1:4])
    assert "".join(trace.pieces("decoder")[1:]) == "the fox"
    weight = trace["decoder.blocks.1.attention.query.weight"]
    assert torch.equal(weight, run.model.decoder.blocks[1].attention.query.weight)
    with pytest.raises(pellucid.PellucidError, match=r"lies outside.* has the shape \(8, 8\)"):
        trace["L1.H1.scores[7, 8]"]


def test_bytes_of_a_split_character_are_spelled() -> None:
    tokenizer = train_bytes()
    spelling = Spelling(tokenizer)
    assert [spelling.piece(i) for i in tokenizer.encode("é x")] == ["<0xC3>", "<0xA9>", " ", "x"]


def test_pieces_have_the_blank_before_a_word(shared_data: Path) -> None:
    stories = llama2c_tokenizer_from(shared_data / "stories260K" / "tok512.bin", 512)
    text = "the cat sat"
    pieces = [Spelling(stories).piece(i) for i in stories.encode(text)]
    assert "".join(pieces) == f" {text}"
    words = tokenizer_from(shared_data / "tokenizer-bert" / "bert_base_uncased_vocab.txt")
    assert [Spelling(words).piece(i) for i in words.encode("the embeddings")] == [
        "the",
        "em",
        "##bed",
        "##ding",
        "##s",
    ]


def test_merges_of_the_chosen_word_are_replayed(shared_data: Path, trained: Path) -> None:
    from dataclasses import replace

    from pellucid import config
    from pellucid.model import assemble

    run = pellucid.load(trained)
    tokenizer = tokenizer_from(shared_data / "tokenizer-gpt2" / "tokenizer.json")
    sized: config.Transformer = replace(run.config.model, vocab_size=tokenizer.vocab_size)
    run = replace(run, tokenizer=tokenizer, model=assemble(sized, seed=0).eval())
    chapter = build_chapter(pellucid.trace(run, "a lowered 日"), "tokens", Place(token=2))
    merges = chapter.pictures[1]
    assert merges.rows[0][0] == "Ġ l o w e r e d"
    assert merges.rows[-1][0] == "Ġlowered"
    ranks = tokenizer.merges()
    assert all(ranks[tuple(row[2].split(" + "))] == row[1] for row in merges.rows[1:])
    split = chapter.pictures[2]
    assert bytes.fromhex("".join(row[2] for row in split.rows).replace(" ", "")).strip() == (
        "日".encode()
    )


def test_taking_a_head_away_changes_what_torch_says_it_changes() -> None:
    model = build(BASE)
    before = pellucid.trace(model, ids=random_ids(1, 7))
    ablation = change(before, before.with_heads({(1, 2): 0.0}), 4)
    log_p = model(before.ids[None])[0, 4].log_softmax(-1)
    model.decoder.blocks[1].attention.output.weight.data[:, 8:12] = 0
    log_q = model(before.ids[None])[0, 4].log_softmax(-1)
    kl = (log_p.exp() * (log_p - log_q)).sum()
    assert ablation.kl == pytest.approx(float(kl.detach()))
    assert ablation.after == pytest.approx(log_q.exp().detach()[list(ablation.words)].tolist())
    assert ablation.kls[0] > 0
    assert len(ablation.kls) == 7
    assert change(before, before).kl == 0
    other = pellucid.trace(model, ids=random_ids(1, 6, seed=2))
    with pytest.raises(pellucid.PellucidError, match="different numbers of tokens"):
        change(before, other)


def test_the_mean_of_a_head_is_its_mean_over_the_sentence() -> None:
    model = build(BASE)
    before = pellucid.trace(model, ids=random_ids(1, 7))
    after = before.with_heads({(1, 2): "mean"})
    head_mean = before["L1.H2.out"].mean(0)
    assert torch.allclose(after["L1.H2.out"], head_mean.expand(7, -1), atol=1e-6)
    assert torch.equal(after["L1.H1.out"], before["L1.H1.out"])
    output = model.decoder.blocks[1].attention.output.weight[:, 8:12]
    difference = (head_mean - before["L1.H2.out"]) @ output.T
    assert torch.allclose(after["L1.attention"], before["L1.attention"] + difference, atol=1e-5)
    chapter = build_chapter(after, "softmax", Place(layer=1, head=2))
    assert all(receipt.agrees for receipt in chapter.receipts)
    for wrong in (math.nan, "zero"):
        with pytest.raises(pellucid.PellucidError, match="finite number or by"):
            before.with_heads({(0, 0): wrong})


def test_induction_is_the_share_of_what_came_after_the_same_token() -> None:
    assert repeats([5, 6, 7, 5, 6]) == ((3, 1), (4, 2))
    assert repeats([5, 5, 5]) == ()
    trace = pellucid.trace(build(BASE), ids=[5, 6, 7, 5, 6])
    chapter = build_chapter(trace, "heads", Place())
    grid = next(p for p in chapter.pictures if p.title.startswith("induction"))
    weights = trace["L1.H2.weights"]
    assert grid.values[1][2] == pytest.approx(float((weights[3, 1] + weights[4, 2]) / 2))
    ranking = next(p for p in chapter.pictures if p.kind == "table")
    place = ranking.columns.index("induction")
    shares = [float(row[place].split()[1]) for row in ranking.rows]
    assert shares == sorted(shares, reverse=True)
    single_chapter = build_chapter(pellucid.trace(build(BASE), ids=[5, 6, 7]), "heads", Place())
    assert any("no induction score" in note for note in single_chapter.notes)


def test_what_a_tokenizer_does_not_know_is_named_and_nothing_is_dropped() -> None:
    characters = train_characters(["abc "])
    assert unread(characters, "a日b日é c") == (("日", "é"), ())
    inner = json.loads(characters.to_json())
    inner["model"]["unk_token"] = None
    dropping = Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(inner)))
    assert unread(dropping, "a日b c") == ((), ("日",))
    assert unread(train_bytes(), "a日\n") == ((), ())
    with pytest.raises(pellucid.PellucidError, match=r"drops '日'.* delete"):
        _unread(dropping, "a日b", tuple(dropping.encode("a日b")), "sentence")


def test_sources_are_found_and_not_typed_in() -> None:
    source = source_line(scores_of, "* scoring.scale")
    file, line = source.split(":")
    lines = (Path(pellucid.__file__).parents[1] / file).read_text("utf-8").splitlines()
    assert "* scoring.scale" in lines[int(line) - 1]
    with pytest.raises(LookupError):
        source_line(scores_of, "a line that there is not")


def test_trees_are_spelled_with_their_numbers_and_brackets() -> None:
    a, b = Number(2.0, "a"), Number(-3.0, "b")
    tree = Apply("mul", (Apply("sub", (a, b)), Apply("add", (a, b))))
    assert format_expression(tree, 4) == "(2 - (-3)) × (2 + (-3))"
    assert format_expression(Apply("exp", (Apply("neg", (a,)),)), 4) == "exp(-2)"
    assert (
        format_expression(Apply("dot", (Vector((1.0, 2.0)), Vector((3.0, 4.0)))), 4) == "1·3 + 2·4"
    )
    long = Apply("sum", (Vector(tuple(map(float, range(30)))),))
    assert format_expression(Apply("div", (long, a)), 4) == "(0 + 1 + 434 (28 more)) / 2"
    long_sum = Apply("sum", (a, a, a, a, Number(7.0, "90 more")))
    assert format_expression(long_sum, 4) == "2 + 2 + 11 (92 more)"


numbers = st.floats(-5, 5).filter(lambda x: abs(x) > 1e-3).map(Number)
trees = st.recursive(
    numbers,
    lambda inner: st.builds(
        Apply, st.sampled_from(["add", "sub", "mul", "div"]), st.tuples(inner, inner)
    ),
    max_leaves=12,
)


@given(trees)
def test_what_is_spelled_can_be_typed_into_a_calculator(tree: Apply | Number) -> None:
    try:
        expected = evaluate(tree)
    except ZeroDivisionError:
        return
    typed = format_expression(tree, 17).replace("×", "*")
    try:
        result = eval(typed)
    except ZeroDivisionError:
        return
    scale = magnitude(tree)
    if math.isfinite(scale):
        assert result == pytest.approx(expected, rel=1e-9, abs=1e-9 * scale)


@given(trees)
def test_no_result_is_larger_than_what_was_added_on_the_way(tree: Apply | Number) -> None:
    try:
        assert magnitude(tree) >= abs(evaluate(tree)) * (1 - 1e-9)
    except (ZeroDivisionError, OverflowError):
        return
