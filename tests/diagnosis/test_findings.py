"""Findings, their register, and the assertions made of them."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Formatter
from typing import Any, cast

import pytest
import torch
from torch import nn

import pellucid
from pellucid import diagnosis
from pellucid.diagnosis import (
    SEVERITIES,
    assert_all_parameters_learn,
    assert_causal,
    build_finding,
    check,
    declare,
    drop_ignored,
    evidence,
    read_codes,
)
from pellucid.diagnosis.finding import read_words
from pellucid.errors import ConfigError, PellucidError
from pellucid.model import assemble
from support.faults import FAULTS, text, tiny

OF_PROBES = {fault.code for fault in FAULTS.values()}


def test_every_code_is_described() -> None:
    for code, told in read_codes().items():
        assert re.fullmatch(r"[A-Z]{3}\d{3}", code)
        assert told.severity in SEVERITIES
        assert all((told.title, told.explanation, told.threshold, told.source, told.fix))


def test_finding_says_itself_as_json_and_as_text() -> None:
    one = build_finding("ATT001", "It sees.", evidence("ATT001", "change", 0.5), where="block 1")
    told = json.loads(one.to_json())
    assert told["code"] == "ATT001"
    assert told["evidence"][0]["value"] == 0.5
    assert told["docs"] == "docs/diagnosis.md#att001"
    assert "where: block 1" in one.text()


def test_worst_comes_first_and_ignored_codes_are_left_out() -> None:
    findings = [build_finding(code, "") for code in ("GRD003", "LOS004", "ATT001", "ATT003")]
    kept = drop_ignored(findings, ["ATT003"])
    assert [each.code for each in kept] == ["ATT001", "LOS004", "GRD003"]
    with pytest.raises(ConfigError, match="no finding has the code XYZ001"):
        drop_ignored([], ["XYZ001"])


def test_assertion_fails_with_the_words_of_the_finding() -> None:
    fault = FAULTS["no causal mask"]
    case = fault.healthy()
    assert_causal(case.model)
    fault.inject(case)
    with pytest.raises(AssertionError, match=r"(?s)ATT001.*what to do: add the causal mask"):
        assert_causal(case.model)


def test_what_is_declared_is_no_finding() -> None:
    frozen = FAULTS["frozen block"]
    case = frozen.healthy()
    frozen.inject(case)
    assert check(case.model, declared=declare(frozen=[r"blocks\.0"])) == []
    blind = FAULTS["rotation forgotten"]
    case = blind.healthy()
    blind.inject(case)
    assert check(case.model, declared=declare(no_positions=True)) == []


class Own(nn.Module):
    """As people write them: a tuple, learned positions, the last place alone without targets."""

    def __init__(self, *, causal: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.block_size, self.causal = 32, causal
        self.tokens, self.places = nn.Embedding(64, 32), nn.Embedding(32, 32)
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=True, norm_first=True)
        self.head = nn.Linear(32, 64, bias=False)

    def forward(self, ids: torch.Tensor, targets: torch.Tensor | None = None) -> Any:
        """Logits and a loss."""
        time = ids.shape[1]
        x = self.tokens(ids) + self.places.weight[:time]
        mask = torch.full((time, time), float("-inf")).triu(1) if self.causal else None
        x = self.layer(x, src_mask=None if mask is None else mask.to(x))
        if targets is None:
            return self.head(x[:, -1:]), None
        logits = self.head(x)
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def test_module_of_ones_own_is_checked_as_it_is() -> None:
    assert [each.text() for each in check(Own(), text())] == []
    assert {each.code for each in check(Own(causal=False))} == {"ATT001"}
    assert check(Own(causal=False), declared=declare(causal=False)) == []
    assert_all_parameters_learn(Own())


def test_module_without_logits_is_refused() -> None:
    with pytest.raises(PellucidError, match="does not map"):
        check(nn.Sequential(nn.Embedding(9, 4), nn.Flatten()))


def test_room_is_there_from_the_root() -> None:
    assert pellucid.diagnosis is diagnosis


def test_numbers_that_are_judged_by_are_those_of_the_words() -> None:
    """Both ways, but for counts that are none or one by definition."""
    number = r"(?<![\w.-])\d+(?:\.\d+)?(?:e-?\d+)?(?![\w.]*\w)"
    for code, told in read_codes().items():
        said = {float(each) for each in re.findall(number, told.threshold)}
        known = set(told.limits.values())
        if code in OF_PROBES or code.startswith("LOG"):
            assert known <= said, f"{code}: {known - said} is not in {told.threshold!r}"
            assert said - known <= {0.0, 1.0, 2.0}, f"{code}: {said - known}"


def test_every_limit_is_read_by_somebody() -> None:
    """A number in the register that no line reads would be a second truth."""
    room = Path(diagnosis.__file__).parent
    lines = "".join(path.read_text("utf-8") for path in room.rglob("*.py"))
    for code, told in read_codes().items():
        for name in told.limits if code in OF_PROBES else ():
            assert f'"{name}"' in lines or f"'{name}'" in lines, f"{code}: {name}"


@pytest.mark.parametrize(
    ("said", "meant"), [("OPT01", "OPT010"), ("att007", "ATT007"), ("LSO002", "LOS002")]
)
def test_code_that_there_is_not_is_told_what_may_be_meant(said: str, meant: str) -> None:
    with pytest.raises(
        ConfigError, match=f"no finding has the code {said}; did you mean"
    ) as refused:
        drop_ignored([], [said])
    assert meant in str(refused.value)
    assert len(str(refused.value)) < 160


@pytest.mark.parametrize("ids", ["x", 3, [[1, 2]], {"input_ids": 1}])
def test_data_that_are_no_tensors_are_refused(ids: Any) -> None:
    with pytest.raises(PellucidError, match="tensors of whole numbers"):
        check(assemble(tiny("nano"), seed=0), ids)
    with pytest.raises(PellucidError, match="must be tensors"):
        check(assemble(tiny("nano"), seed=0), torch.ones(1, 4, dtype=torch.long), ids)


# the sentences in findings.toml

CONTROLS = {"code", "place", "cause", "confidence", "severity", "step", "rivals", "likely"}


def calls() -> Iterator[tuple[str, set[str], bool]]:
    """The keys of each call with literal keys, its values by name, and whether it has others."""
    for file in Path(diagnosis.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="describe" | "suspect" | "Comparison" as name)):
                    values = {word.arg for word in node.keywords if word.arg} - CONTROLS
                    is_open = any(word.arg is None for word in node.keywords)
                    if name == "Comparison":
                        values = {"value"} | {
                            str(key.value)
                            for word in node.keywords
                            if isinstance(word.value, ast.Dict)
                            for key in word.value.keys
                            if isinstance(key, ast.Constant)
                        }
                    for constant in ast.walk(node.args[0]):
                        match constant:
                            case ast.Constant(value=str(key)) if key in read_words():
                                yield key, values, is_open
                            case _:
                                pass
                case _:
                    pass


def fields(text: str) -> set[str]:
    return {re.split(r"[.\[]", field)[0] for _, field, _, _ in Formatter().parse(text) if field}


@pytest.mark.parametrize(("key", "values", "is_open"), list(calls()))
def test_a_call_gives_every_value_of_its_sentences(
    key: str, values: set[str], is_open: bool
) -> None:
    words = read_words()[key]
    texts = [words.message, words.place or "", words.cause]
    needed = set(words.signs).union(*map(fields, (*texts, *words.expected.values())))
    assert is_open or needed <= values | {"step"}
    assert values - {"value"} <= needed.union(*map(fields, words.causes.values()))
    if not is_open:
        assert set().union(*map(fields, words.causes.values())) <= values | {"step"}


def test_every_sentence_is_used_and_belongs_to_a_code() -> None:
    sources = [p.read_text(encoding="utf-8") for p in Path(diagnosis.__file__).parent.rglob("*.py")]
    for key in read_words():
        assert key.partition("/")[0] in read_codes()
        assert any(f'"{key}"' in source for source in sources), key


def test_what_is_no_history_is_refused_with_what_makes_one() -> None:
    with pytest.raises(ConfigError, match=r"got str.*history_of_log\(path\)"):
        diagnosis.diagnose(cast("Any", "train.log"))
