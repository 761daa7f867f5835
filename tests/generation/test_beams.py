from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.errors import ConfigError
from pellucid.generation import Beams, Search

END = 0


def log(shares: list[list[float]]) -> torch.Tensor:
    return torch.tensor(shares, dtype=torch.float64).log()


# -- the published search of fairseq


@pytest.fixture(scope="module")
def reference(shared_data: Path) -> dict[str, Any]:
    file = shared_data / "reference-vectors" / "beam_search_fairseq.json"
    if not file.is_file():
        pytest.skip(f"{file} is not there")
    return json.loads(file.read_text("utf-8"))


@pytest.mark.parametrize(
    ("case", "penalty"), [("normalized", 1.0), ("unnormalized", 0.0), ("len_penalty_0.6", 0.6)]
)
def test_the_search_of_fairseq_is_reproduced(
    reference: dict[str, Any], case: str, penalty: float
) -> None:
    columns, n = reference["columns"], reference["beam_size"]
    beams = Beams(n_beams=n, n_best=n, length_penalty=penalty, early_stopping=True)
    for sentence, name in enumerate(("s1", "s2")):
        search = Search(beams, end_id=columns.index("eos"))
        for step in reference["step_probs"]:
            rows = step[sentence * n : sentence * n + search.n_alive]
            search.advance(log(rows))
            if search.finished:
                break
        if name not in reference["expected"][case]:
            continue
        expected = reference["expected"][case][name]
        assert [[columns[i] for i in text.ids] for text in search.best] == [
            words.split() for words, _ in expected
        ]
        for text, (_, shares) in zip(search.best, expected, strict=True):
            assert [math.exp(log_p) for log_p in text.log_p] == pytest.approx(shares)
            total = sum(math.log(share) for share in shares)
            assert text.score == pytest.approx(total / len(shares) ** penalty)


# -- by hand


def test_the_likeliest_text_is_found_where_the_likeliest_token_misleads() -> None:
    beams = Beams(n_beams=2, max_new_tokens=2, length_penalty=0.0)
    search = Search(beams, end_id=END)
    assert search.advance(log([[0.0, 0.6, 0.4]])) == [0, 0]
    assert search.tokens == [1, 2]
    search.advance(log([[0.4, 0.3, 0.3], [1.0, 0.0, 0.0]]))
    assert search.finished
    (best,) = search.best
    assert best.ids == (2, END)
    assert best.score == pytest.approx(math.log(0.4))


def test_a_text_that_ends_beyond_the_first_beams_is_not_whole() -> None:
    search = Search(Beams(n_beams=1), end_id=END)
    search.advance(log([[0.4, 0.6]]))
    assert not search.finished
    assert search.best == []
    assert search.tokens == [1]


SAME = [0.5, 0.3, 0.2]


def steps_until_done(beams: Beams, shares: list[float]) -> int:
    """How long the search continues if every next token is as likely as every other time."""
    search = Search(beams, end_id=END)
    for step in range(1, beams.max_new_tokens + 1):
        search.advance(log([shares] * search.n_alive))
        if search.finished:
            return step
    raise AssertionError("not over after the most tokens that it may write")


def test_early_stopping_has_three_meanings() -> None:
    # two whole texts after two tokens; a longer one can still score better, for it is not
    # yet known how long it gets: true stops, false compares as it is, "never" as it could be
    shares = [0.3, 0.69, 0.01]
    ends = [
        steps_until_done(
            Beams(n_beams=2, early_stopping=stopping, max_new_tokens=12, length_penalty=2.0), shares
        )
        for stopping in (True, False, "never")
    ]
    assert ends[0] < ends[1] <= ends[2] == 12


def test_without_a_length_penalty_never_stops_once_nothing_better_can_come() -> None:
    beams = Beams(n_beams=2, early_stopping="never", length_penalty=0.0, max_new_tokens=50)
    assert steps_until_done(beams, SAME) < 10


def test_a_text_has_at_least_as_many_tokens_as_asked_for() -> None:
    for least in (0, 1, 3):
        search = Search(Beams(n_beams=2, min_new_tokens=least), end_id=END)
        while not search.finished:
            search.advance(log([[0.8, 0.1, 0.1]] * search.n_alive))
        (best,) = search.best
        assert len(best.ids) == least + 1
        assert best.ended


def test_a_text_that_is_cut_has_not_ended() -> None:
    search = Search(Beams(n_beams=2, n_best=2, max_new_tokens=3), end_id=END)
    while not search.finished:
        search.advance(log([[0.0, 0.9, 0.1]] * search.n_alive))
    first, second = search.best
    assert (first.ids, first.ended) == ((1, 1, 1), False)
    assert second.ids.count(2) == 1
    assert not second.ended


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"n_beams": 0}, "n_beams must be at least 1"),
        ({"n_beams": 2, "n_best": 3}, "n_best must be 1 to n_beams, which is 2; was 3"),
        ({"n_best": 0}, "n_best must be 1 to n_beams"),
        ({"length_penalty": math.nan}, "length_penalty must be finite"),
        ({"length_penalty": 500.0}, "length_penalty must be finite, and 200.length_penalty too"),
        ({"early_stopping": "sometimes"}, "early_stopping must be true, false"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1"),
        ({"max_new_tokens": 3, "min_new_tokens": 4}, "min_new_tokens must be 0 to max"),
    ],
)
def test_numbers_out_of_range_are_refused(wrong: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Beams(**wrong)


# -- against the definition, for scripts of any kind

VOCAB = 4
#: Log-probabilities of the next token depend on the tokens before it, through these.
TABLES = st.lists(
    st.lists(st.floats(0.01, 1.0), min_size=VOCAB, max_size=VOCAB), min_size=5, max_size=5
)


class Script:
    """A distribution of the next token for each text."""

    def __init__(self, table: list[list[float]]) -> None:
        self.log_p = log(table)
        self.log_p = self.log_p - self.log_p.logsumexp(dim=-1, keepdim=True)

    def after(self, ids: tuple[int, ...]) -> torch.Tensor:
        return self.log_p[sum((place + 2) * token for place, token in enumerate(ids)) % 5]

    def total(self, ids: tuple[int, ...]) -> float:
        return sum(float(self.after(ids[:place])[token]) for place, token in enumerate(ids))


def searched(script: Script, beams: Beams) -> Search:
    """A search that is over; at each step its beginnings are what the definition says."""
    search = Search(beams, end_id=END)
    alive: list[tuple[int, ...]] = [()]
    while not search.finished:
        parents = search.advance(torch.stack([script.after(ids) for ids in alive]))
        if search.finished:
            break
        extended = [(*ids, token) for ids in alive for token in range(VOCAB)]
        extended.sort(key=lambda ids: -script.total(ids))
        continued = [ids for ids in extended[: 2 * beams.n_beams] if ids[-1] != END][
            : beams.n_beams
        ]
        alive = [
            (*alive[parent], token) for parent, token in zip(parents, search.tokens, strict=True)
        ]
        for beam_ids, expected in zip(
            alive, continued, strict=True
        ):  # ties may be either way round
            assert script.total(beam_ids) == pytest.approx(script.total(expected))
    return search


@settings(max_examples=60)
@given(
    table=TABLES,
    n=st.integers(1, 4),
    penalty=st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0]),
    early=st.sampled_from([True, False, "never"]),
    most=st.integers(1, 6),
)
def test_every_text_found_is_scored_by_its_own_probability_and_they_are_in_order(
    table: list[list[float]], n: int, penalty: float, early: Any, most: int
) -> None:
    script = Script(table)
    beams = Beams(
        n_beams=n, n_best=n, length_penalty=penalty, early_stopping=early, max_new_tokens=most
    )
    best = searched(script, beams).best
    assert best
    assert [text.score for text in best] == sorted((t.score for t in best), reverse=True)
    assert len({text.ids for text in best}) == len(best)
    for text in best:
        assert text.ended == (text.ids[-1] == END)
        assert text.ended or len(text.ids) == most
        assert END not in text.ids[:-1]
        assert text.score == pytest.approx(script.total(text.ids) / len(text.ids) ** penalty)
        assert sum(text.log_p) == pytest.approx(script.total(text.ids))


def every_text(most: int) -> list[tuple[int, ...]]:
    """All texts of at most `most` tokens that end, or are as long as they may be."""
    complete: list[tuple[int, ...]] = []
    open_ones: list[tuple[int, ...]] = [()]
    for length in range(1, most + 1):
        longer = [(*ids, token) for ids in open_ones for token in range(VOCAB)]
        complete += [ids for ids in longer if ids[-1] == END or length == most]
        open_ones = [ids for ids in longer if ids[-1] != END]
    return complete


@settings(max_examples=40)
@given(table=TABLES, penalty=st.sampled_from([-0.5, 0.0, 0.6, 1.0, 2.0]))
def test_a_search_as_wide_as_there_are_texts_finds_the_best_of_all(
    table: list[list[float]], penalty: float
) -> None:
    script, n_most = Script(table), 4
    beams = Beams(
        n_beams=VOCAB**n_most,
        n_best=3,
        length_penalty=penalty,
        early_stopping="never",
        max_new_tokens=n_most,
    )
    scores = sorted(
        (script.total(ids) / len(ids) ** penalty for ids in every_text(n_most)), reverse=True
    )
    found_scores = [text.score for text in searched(script, beams).best]
    assert found_scores == pytest.approx(scores[:3])
