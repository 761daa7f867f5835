"""Files, flags and scripts for pellucid 0.1 work in 0.2, with exactly one warning line."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pellucid import config
from pellucid.cli.main import main
from pellucid.config import decode, encode, run_from_table
from pellucid.config.old_names import FLAGS, KINDS, OBJECTIVES, with_new_flags
from pellucid.errors import ConfigError
from pellucid.old_names import OldNameWarning
from pellucid.presets import find, find_objective
from pellucid.saved_runs.load import read_toml

DATA = Path(__file__).parent / "data_0_1"
FILES = {
    "masked_tokens.toml": config.MLM(chosen=0.2, masked=0.8, replaced=0.1),
    "sequence_to_sequence.toml": config.Seq2Seq(label_smoothing=0.2),
    "supervised_fine_tuning.toml": config.SFT(label_smoothing=0.1, packed=False),
    "direct_preference.toml": config.DPO(beta=0.2, loss="hinge", label_smoothing=0.0),
    "run.toml": config.MLM(chosen=0.15, masked=0.8, replaced=0.1),
}


def test_there_is_a_file_of_0_1_for_each_old_kind() -> None:
    texts = [(DATA / name).read_text("utf-8") for name in FILES]
    assert all(any(f'"{old}"' in text for text in texts) for old in KINDS)
    assert "format = 1" in texts[-1]


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_0_1_is_read_with_one_warning(name: str) -> None:
    with pytest.warns(OldNameWarning) as warned:
        run = run_from_table(read_toml(DATA / name), find)
    assert run.objective == FILES[name]
    (warning,) = warned
    assert str(warning.message).startswith(f"{DATA / name}: kind ")
    assert f" is {type(run.objective).__name__} now; pellucid 0.3 will" in str(warning.message)


@pytest.mark.parametrize("name", FILES)
def test_a_table_of_0_1_is_read_with_one_warning(name: str) -> None:
    table = tomllib.loads((DATA / name).read_text("utf-8"))
    before = repr(table)
    with pytest.warns(OldNameWarning, match="the config: kind ") as warned:
        run = run_from_table(table, find)
    assert len(warned) == 1
    assert run.objective == FILES[name]
    assert repr(table) == before


@pytest.mark.parametrize("path", ["objective", "objective.kind"])
@pytest.mark.parametrize(
    ("preset", "old"), [("nano-encoder", "MaskedTokens"), ("nano-pair", "SequenceToSequence")]
)
def test_the_old_kind_alone_keeps_the_numbers_of_the_preset(
    preset: str, old: str, path: str
) -> None:
    with pytest.warns(OldNameWarning, match=f"--set {path}={old}: kind {old} is") as warned:
        run = run_from_table({"base": preset}, find, [f"{path}={old}"])
    assert len(warned) == 1
    assert run == find(preset)


def test_what_a_checkpoint_of_0_1_holds_is_read_in_silence() -> None:
    table = encode(find("nano-encoder"))
    table["objective"]["kind"] = "MaskedTokens"
    assert decode(config.Run, table) == find("nano-encoder")


def test_a_new_config_has_new_names_and_the_new_format() -> None:
    text = config.run_to_toml(find("nano-encoder"))
    assert text.startswith("format = 2\n")
    assert not any(old in text for old in KINDS)


def test_text_that_is_called_like_an_old_kind_stays() -> None:
    run = run_from_table({"base": "nano"}, find, ["training.sentence=MaskedTokens"])
    assert run.training.sentence == "MaskedTokens"


@pytest.mark.parametrize("old", OBJECTIVES)
def test_an_objective_of_0_1_is_todays_with_one_warning(old: str) -> None:
    with pytest.warns(OldNameWarning, match=f"objective {old} is {OBJECTIVES[old]} now") as warned:
        preset = find_objective(old)
    assert len(warned) == 1
    assert preset is find_objective(OBJECTIVES[old])


def test_no_old_name_is_a_name_of_today() -> None:
    for table in (KINDS, OBJECTIVES, FLAGS):
        assert not table.keys() & set(table.values())
    for new in KINDS.values():
        assert isinstance(getattr(config, new), type)
    with pytest.raises(ConfigError, match="objectives: next-token, mlm, span-corruption, seq2seq"):
        find_objective("reading")


def test_a_flag_of_0_1_is_todays_with_one_warning() -> None:
    words = ["explain", "run", "the", "--without", "L0.H0", "--without=L1.H0=mean"]
    with pytest.warns(OldNameWarning, match="--without is --ablate now"):
        renamed = with_new_flags(words)
    assert renamed == ["explain", "run", "the", "--ablate", "L0.H0", "--ablate=L1.H0=mean"]


def test_the_command_line_warns_in_one_line(tmp_path: Path) -> None:
    words = ["explain", str(tmp_path), "the", "--without", "L0.H0", "--without=L1.H0"]
    code, _, errors = _run("-m", "pellucid", *words)
    assert code == 2
    warning, error, *other_lines = errors.splitlines()
    assert warning == "warning: --without is --ablate now; pellucid 0.3 will refuse the old name"
    assert error.startswith("error: ")
    assert not any("warning" in line for line in other_lines)
    code, output, errors = _run(
        *("-m", "pellucid", "presets", "count", "nano-encoder", "--json"),
        *("--set", "objective.kind=MaskedTokens"),
    )
    assert code == 0
    assert '"parameters"' in output
    assert errors == (
        "warning: --set objective.kind=MaskedTokens: kind MaskedTokens is MLM now; pellucid 0.3 "
        "will refuse the old name\n"
    )


def test_a_script_of_0_1_runs_with_one_warning() -> None:
    code, output, errors = _run(str(DATA / "script.py"))
    assert code == 0
    assert 'kind = "MLM"\nchosen = 0.2' in output
    assert errors.count("Warning: ") == 1
    name = "pellucid.config.MaskedTokens is pellucid.config.MLM now"
    assert f"script.py:7: OldNameWarning: {name}" in errors


def test_other_warnings_keep_their_place(capsys: pytest.CaptureFixture[str]) -> None:
    import warnings

    python_format = warnings.formatwarning
    assert main(["presets", "show", "nano"]) == 0
    assert warnings.formatwarning is python_format
    capsys.readouterr()


def _run(*words: str) -> tuple[int, str, str]:
    process = subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)
    return process.returncode, process.stdout, process.stderr
