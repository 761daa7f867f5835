from __future__ import annotations

import io
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pellucid
from pellucid.cli import main
from pellucid.config import parse_toml, run_from_table
from pellucid.presets import FAMILIES, OBJECTIVES, PRESETS, find
from pellucid.runs import read_events
from pellucid.training import to_record
from support.published import write
from support.tiny import TEXT, TINY, train_tiny, write_text

#: A short and certain continuation.
SHORT = ("--max-new-tokens", "6", "--greedy")


# -- train


def test_train_prints_its_folder_and_held_out_numbers_as_json(json_of: Any, tmp_path: Path) -> None:
    settings = [f"--set={setting}" for setting in TINY]
    text = write_text(tmp_path / "text")
    result = json_of("train", text, "--out", tmp_path / "run", "--steps", 5, "--seed", 3, *settings)
    assert result["run"] == str(tmp_path / "run")
    assert result["checkpoint"] == str(tmp_path / "run/checkpoints/step-5")
    assert result["step"] == 5
    assert result["sentence"] == "the"
    run = pellucid.load(tmp_path / "run")
    assert run.config.seed == 3
    assert 0 < result["held_out_loss_nats"] < 10
    assert result["held_out_bits_per_byte"] > result["held_out_loss_nats"]
    assert result["train_loss_nats"] > 0


def test_train_shows_its_course_and_says_what_can_be_done_next(
    stdout_of: Any, tmp_path: Path
) -> None:
    settings = [f"--set={setting}" for setting in TINY]
    folder = tmp_path / "a run; rm"
    text = write_text(tmp_path / "text")
    settings.append("--set=training.sentence=it's")
    printed = stdout_of("train", text, "--out", folder, "--steps", 4, *settings)
    before, after = printed.split("what next")
    for words in (
        "guessing     5.5530 nats/token",
        f"folder       {folder}",
        "step 4/4 100.0% loss ",
        "step 4 held-out loss ",
        'step 0 "it\'s" → ',
        "finished after step 4",
        "bits per byte on held-out text",
    ):
        assert words in before
    commands = [shlex.split(line) for line in after.splitlines() if line.strip()]
    assert commands[0] == ["pellucid", "generate", str(folder), "--prompt", "it's"]
    assert ["pellucid", "evaluate", str(folder), "PATH"] in commands
    assert stdout_of(*commands[0][1:], *SHORT).startswith("it's")


def test_a_short_config_file_changes_what_it_says(json_of: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('base = "gpt2"\nseed = 8\n[training]\nclip_norm = 0.5\n')
    settings = [f"--set={setting}" for setting in TINY]
    text = write_text(tmp_path / "text")
    json_of(
        *("train", text, "--config", tmp_path / "mine.toml", "--out", tmp_path / "run"),
        *("--tokens", 65, "--set=model.vocab_size=none", *settings),
    )
    config = pellucid.load(tmp_path / "run").config
    assert (config.seed, config.training.clip_norm) == (8, 0.5)
    assert type(config.model.decoder.positions).__name__ == "Learned"
    assert pellucid.load(tmp_path / "run").checkpoint.name == "step-2"


def test_resuming_a_finished_run_changes_nothing(
    json_of: Any, trained: Path, tmp_path: Path
) -> None:
    run = shutil.copytree(trained, tmp_path / "run")
    weights = (run / "checkpoints/step-12/model.safetensors").read_bytes()
    result = json_of("train", "--resume", run)
    assert result["run"] == str(run)
    assert (run / "checkpoints/step-12/model.safetensors").read_bytes() == weights


# -- generate


def test_generate_writes_the_prompt_and_how_it_goes_on(
    stdout_of: Any, json_of: Any, trained: Path
) -> None:
    (result,) = json_of("generate", trained, "--prompt", "the q", *SHORT)
    assert result["prompt"] == "the q"
    assert (len(result["ids"]), result["stopped"]) == (6, "length")
    text = f"the q{result['text']}\n"
    assert stdout_of("generate", trained, "--prompt", "the q", *SHORT) == text
    assert stdout_of("generate", trained, "--prompt", "the q", *SHORT, "--draft", trained) == text


def test_a_draft_with_another_tokenizer_is_refused(
    trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "dir", vocab_size=258)
    file = tmp_path / "dir" / "tokenizer.json"
    lower_case = {"normalizer": {"type": "Lowercase"}}
    file.write_text(json.dumps(json.loads(file.read_text(encoding="utf-8")) | lower_case))
    assert main(["generate", str(trained), "--prompt", "a", "--draft", str(tmp_path / "dir")]) == 2
    assert "has another tokenizer" in " ".join(capsys.readouterr().err.split())


def test_generate_takes_several_prompts(stdout_of: Any, json_of: Any, trained: Path) -> None:
    results = json_of(
        "generate", trained, "--prompt", "a", "--prompt", "", "--prompt", "the", *SHORT
    )
    assert [result["prompt"] for result in results] == ["a", "", "the"]
    single_results = [
        json_of("generate", trained, "--prompt", r["prompt"], *SHORT)[0] for r in results
    ]
    assert results == single_results
    text = stdout_of("generate", trained, "--prompt", "a", "--prompt", "the", *SHORT)
    assert text == f"a{results[0]['text']}\n\nthe{results[2]['text']}\n\n"


def test_generate_is_the_same_from_the_command_line_and_from_python(
    json_of: Any, trained: Path
) -> None:
    from pellucid.generation import Sampling

    words = ("--temperature", 1.3, "--top-k", 40, "--top-p", 0.9, "--min-p", 0.05, "--seed", 9)
    words = (*words, "--repetition-penalty", 1.2, "--logprobs")
    (result,) = json_of("generate", trained, "--prompt", "cat", "--max-new-tokens", 12, *words)
    sampling = Sampling(
        max_new_tokens=12,
        temperature=1.3,
        top_k=40,
        top_p=0.9,
        min_p=0.05,
        repetition_penalty=1.2,
        seed=9,
    )
    (expected,) = pellucid.generate(pellucid.load(trained), "cat", sampling)
    assert result["text"] == expected.text
    assert result["logprobs"] == pytest.approx(expected.log_p)


def test_generate_shows_the_log_probability_of_what_it_wrote(
    stdout_of: Any, json_of: Any, trained: Path
) -> None:
    words = ("generate", trained, "--prompt", "the", *SHORT)
    (result,) = json_of(*words, "--logprobs")
    assert "logprobs" not in json_of(*words)[0]
    text = stdout_of(*words, "--logprobs")
    assert text.startswith(f"the{result['text']}\n")
    assert all(f"{log_p:>10.4f}  '" in text for log_p in result["logprobs"])
    assert f"{sum(result['logprobs']):.4f}  log P of the text" in text


def test_generate_says_once_that_a_text_outgrew_the_context(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words in (["--json"], [], ["--prompt", "a"], ["--logprobs"]):
        options = ("--prompt", "the", "--max-new-tokens", "40", "--greedy")
        assert main(["generate", str(trained), *options, *words]) == 0
        assert capsys.readouterr().err == (
            "the text outgrew the context of 16 tokens: from here on the model sees the latest 9 "
            "to 16 tokens of it\n"
        )


def test_generate_stops_before_a_stop_text(json_of: Any, trained: Path) -> None:
    (full,) = json_of("generate", trained, "--prompt", "the", *SHORT)
    (cut,) = json_of("generate", trained, "--prompt", "the", *SHORT, "--stop", full["text"][2])
    assert cut["text"] == full["text"][: full["text"].index(full["text"][2])]
    assert cut["stopped"] == "stop"


def test_generate_reads_one_prompt_from_a_pipe(
    stdout_of: Any, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = stdout_of("generate", trained, "--prompt", "the\ncat", *SHORT)
    monkeypatch.setattr(sys, "stdin", io.StringIO("the\ncat\n"))
    assert stdout_of("generate", trained, *SHORT) == expected


def test_control_characters_reach_a_file_but_not_a_terminal(
    stdout_of: Any, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for words in (["--prompt", "a\x1b[2J\tb"], ["--prompt", "a\x1b[2J\tb", "--prompt", "c"]):
        assert "a\x1b[2J\tb" in stdout_of("generate", trained, *words, *SHORT)
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", Terminal())
            assert main(["generate", str(trained), *words, *SHORT]) == 0
            assert "a␛[2J\tb" in sys.stdout.getvalue()  # type: ignore[attr-defined]


def test_generate_can_use_any_checkpoint(json_of: Any, trained: Path) -> None:
    checkpoint = trained / "checkpoints/step-12"
    assert json_of("generate", checkpoint, "--prompt", "a", *SHORT) == json_of(
        "generate", trained, "--prompt", "a", *SHORT
    )


def on_a_console_of_ascii(monkeypatch: pytest.MonkeyPatch, *words: object) -> bytes:
    """What a command writes to a standard output that knows English alone."""
    with io.BytesIO() as raw, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii", write_through=True))
        assert main([str(word) for word in words]) == 0
        return raw.getvalue()


def test_json_is_whole_where_the_output_cannot_spell_it(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("generate", trained, "--prompt", "é→漢", *SHORT, "--json")
    assert json.loads(on_a_console_of_ascii(monkeypatch, *words))[0]["prompt"] == "é→漢"


def test_what_the_output_cannot_spell_becomes_a_question_mark(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("generate", trained, "--prompt", "é→漢", *SHORT)
    assert on_a_console_of_ascii(monkeypatch, *words).startswith(b"?->?")


def test_a_reader_that_has_seen_enough_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stdout", stream)
    assert main(["presets", "show", "gpt2"]) == 0
    with pytest.raises(BrokenPipeError):
        stream.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_generate_converses_on_a_terminal(trained: Path, stdout_of: Any) -> None:
    import pty

    expected = stdout_of("generate", trained, "--prompt", "the cat", *SHORT)
    terminal, child_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "pellucid", "generate", str(trained), *SHORT],
        stdin=child_end,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    os.write(terminal, b"the cat\nthe cat\n\n")
    printed, errors = process.communicate(timeout=60)
    os.close(terminal)
    os.close(child_end)
    assert (process.returncode, errors) == (0, b"")
    text = printed.decode()
    assert text.startswith(
        f"{trained} continues what you write; an empty line ends the session.\n> "
    )
    assert text.count(expected) == 2
    assert text.count("> ") == 3


# -- evaluate


def test_evaluate_gives_one_loss_in_three_units(
    json_of: Any, stdout_of: Any, trained: Path
) -> None:
    file = write_text(trained.parent / "text")
    result = json_of("evaluate", trained, file)
    assert result["bytes"] == len(TEXT.encode())
    assert result["tokens"] == len(TEXT.encode()) + 1  # the end of text is predicted too
    assert result["perplexity"] == pytest.approx(math.exp(result["loss_nats"]))
    bits = result["loss_nats"] / math.log(2) * result["tokens"] / result["bytes"]
    assert result["bits_per_byte"] == pytest.approx(bits)
    assert result["unknown_tokens"] == 0
    text = stdout_of("evaluate", trained, file)
    assert f"{result['loss_nats']:.4f} nats per token" in text
    assert f"{result['bits_per_byte']:.4f}\n" in text
    assert result["bits_per_byte_comparable"]
    assert result["changed_documents"] == 0


@pytest.mark.parametrize(
    ("tokenizer", "page", "unknown", "changed"),
    [
        ('{kind = "WordPiece", vocab_size = 90, lowercase = true}', "The  Cat", 0, 1),
        ('{kind = "WordPiece", vocab_size = 90, lowercase = true}', "the cat", 0, 0),
        ("Characters", "the cat", 0, 0),
        ("Characters", "the cat ж", 1, 1),
    ],
)
def test_evaluate_says_where_bits_per_byte_cannot_be_compared(
    tokenizer: str,
    page: str,
    unknown: int,
    changed: int,
    tmp_path: Path,
    json_of: Any,
    stdout_of: Any,
) -> None:
    train_tiny(tmp_path / "run", steps=1, settings=[f"text.tokenizer={tokenizer}"])
    (tmp_path / "page.txt").write_text(page, encoding="utf-8")
    result = json_of("evaluate", tmp_path / "run", tmp_path / "page.txt")
    assert (result["unknown_tokens"], result["changed_documents"]) == (unknown, changed)
    assert result["bits_per_byte_comparable"] is not bool(changed)
    text = stdout_of("evaluate", tmp_path / "run", tmp_path / "page.txt")
    assert ("not comparable with other tokenizers" in text) is bool(changed)
    assert ("bits per byte flatter the model" in text) is bool(changed)
    assert ("do not come back as they were" in text) is bool(changed)
    assert ("cannot spell" in text) is bool(unknown)
    assert max(map(len, text.splitlines())) <= 80


# -- presets


def test_every_preset_is_listed_and_shown_as_toml_that_gives_it_back(
    stdout_of: Any, json_of: Any
) -> None:
    assert list(json_of("presets", "list")) == list(PRESETS)
    lines = stdout_of("presets", "list").splitlines()
    assert [line for line in lines if not line.startswith("  ")] == list(FAMILIES)
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(PRESETS)
    for name, run in PRESETS.items():
        toml = stdout_of("presets", "show", name)
        assert run_from_table(parse_toml(toml, "shown"), find) == run
        assert run_from_table(json_of("presets", "show", name), find) == run


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("nano", "by tokenizer  decoder          4 layers of 128, context 256"),
        ("bert-base", "110,104,890  encoder          12 layers of 768, context 512"),
        ("t5-small", "60,506,624  encoder-decoder  6 + 6 layers of 512, context 512"),
    ],
)
def test_the_list_says_what_a_preset_is(name: str, said: str, stdout_of: Any) -> None:
    (line,) = (line for line in stdout_of("presets", "list").splitlines() if f" {name} " in line)
    assert line.endswith(f"  {said}")


def test_two_presets_differ_in_a_small_table(stdout_of: Any, json_of: Any) -> None:
    differences = json_of("presets", "diff", "gpt2", "gpt2-medium")
    assert differences["model.d_model"] == [768, 1024]
    assert differences["model.decoder.n_layers"] == [12, 24]
    lines = stdout_of("presets", "diff", "gpt2", "gpt2-medium").splitlines()
    assert lines[0].split() == ["gpt2", "gpt2-medium"]
    assert ["model.d_model", "768", "1024"] in [line.split() for line in lines]
    assert len(lines) == len(differences) + 1 < 12


def test_a_preset_does_not_differ_from_itself(stdout_of: Any, json_of: Any) -> None:
    assert json_of("presets", "diff", "nano", "nano") == {}
    assert stdout_of("presets", "diff", "nano", "nano") == "nano and nano are the same\n"


def test_counting_gpt2_gives_the_published_number(stdout_of: Any, json_of: Any) -> None:
    counts = json_of("presets", "count", "gpt2")
    assert counts["parameters"] == 124_439_808 == sum(counts["parameters_by_part"].values())
    assert counts["memory_bytes"] == sum(counts["memory_by_part"].values())
    assert counts["flops_per_token"] == sum(counts["flops_by_part"].values())
    assert "124,439,808" in stdout_of("presets", "count", "gpt2")


def test_numbers_of_a_table_end_in_one_column_and_formulas_begin_in_one(stdout_of: Any) -> None:
    first = stdout_of("presets", "count", "gpt2").split("\n\n")[0].splitlines()[1:-1]
    counts = [line[: line.index(",", 20) + 4] for line in first]
    rows = [line.split("  ") for line in first]
    formulas = [next(cell for cell in reversed(row) if cell) for row in rows]
    assert len({line.index(f, 20) for line, f in zip(first, formulas, strict=True)}) == 1
    assert counts[0].endswith("38,597")


def test_counting_follows_what_is_set(json_of: Any) -> None:
    plain = json_of("presets", "count", "gpt2")["parameters"]
    less = json_of("presets", "count", "gpt2", "--set", "model.decoder.n_layers=11")["parameters"]
    assert plain - less == 12 * 768**2 + 13 * 768


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_counted(name: str, json_of: Any, stdout_of: Any) -> None:
    # only a text tells how many characters there are
    flags = ("--set", "model.vocab_size=65") if name == "nano-characters" else ()
    counts = json_of("presets", "count", name, *flags)
    assert counts["parameters"] == sum(counts["parameters_by_part"].values()) > 0
    assert counts["flops_per_token"] == sum(counts["flops_by_part"].values()) > 0
    grows = counts["growth_by_part"]
    attention = [part for part in counts["parameters_by_part"] if part.endswith("attention")]
    assert list(grows) == attention
    text = stdout_of("presets", "count", name, *flags)
    for part, row in grows.items():
        assert f"\n{part}: " in text
        assert f"FLOPs of a layer over a text: {row['work_formula']}" in text


def test_counting_says_how_cost_grows_with_the_text(json_of: Any, stdout_of: Any) -> None:
    grows = json_of("presets", "count", "gemma2-2b")["growth_by_part"]
    assert {part: row["work"] for part, row in grows.items()} == {
        "window attention": "O(T w)",
        "global attention": "O(T^2)",
    }
    # 13 layers of 4 key/value heads of 256 and 256 features, 4 bytes each
    assert grows["global attention"]["cache_bytes_per_token"] == 13 * 4 * 512 * 4
    assert "106,496 bytes per token" in stdout_of("presets", "count", "gemma2-2b")


@pytest.mark.parametrize("name", ["minilm-l6", "transformer-base", "nano-pair"])
def test_a_preset_that_cannot_be_trained_as_it_is_is_refused(
    name: str, tmp_path: Path, refused: Any
) -> None:
    message = refused("train", "--preset", name, "--out", tmp_path / "run")
    assert "pellucid presets list --objectives" in message
    assert not (tmp_path / "run").exists()


def test_the_objectives_are_listed_with_what_they_learn_from(stdout_of: Any, json_of: Any) -> None:
    printed = " ".join(stdout_of("presets", "list", "--objectives").split())
    for name, goal in OBJECTIVES.items():
        assert f"{name} {goal.summary}" in printed
    objectives = json_of("presets", "list", "--objectives")
    assert objectives["seq2seq"]["from"] == "Pairs"
    assert {name: facts["preset"] for name, facts in objectives.items()} == {
        name: goal.preset for name, goal in OBJECTIVES.items()
    }


# -- draw


def test_drawing_is_the_same_of_a_preset_of_a_config_and_of_its_settings(
    stdout_of: Any, tmp_path: Path
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('base = "gpt2"\n[model.decoder]\nn_layers = 3\n', encoding="utf-8")
    plain = stdout_of("draw", "gpt2")
    assert plain.startswith("gpt2: a decoder of 12 layers")
    assert stdout_of(
        "draw", "--config", file, "--set", "model.decoder.n_layers=12"
    ) == plain.replace("gpt2: ", "mine: ")
    assert stdout_of("draw", "--config", file).startswith("mine: a decoder of 3 layers")
    assert stdout_of("draw", "gpt2", "--set", "model.decoder.n_layers=3").startswith(
        "gpt2: a decoder of 3 layers"
    )


def test_a_run_is_drawn_as_it_was_built(stdout_of: Any, json_of: Any, trained: Path) -> None:
    model = pellucid.load(trained).model
    drawing = json_of("draw", trained)
    assert drawing["name"] == trained.name
    assert drawing["parameters"] == sum(weight.numel() for weight in model.parameters())
    assert drawing["parameters"] == sum(
        part["parameters_each"] * part["times"] for part in drawing["parts"]
    )
    assert stdout_of("draw", trained).startswith(f"{trained.name}: {drawing['says']}")


def test_an_svg_is_written_where_it_was_asked_for(
    stdout_of: Any, json_of: Any, tmp_path: Path
) -> None:
    file = tmp_path / "gpt2.svg"
    printed = stdout_of("draw", "gpt2", "--svg", file)
    assert printed == (
        f"{file}: gpt2, a decoder of 12 layers, d_model 768, context 1,024: 124,439,808 "
        "parameters\n"
    )
    svg = file.read_text("utf-8")
    assert svg.startswith("<svg ")
    assert json_of("draw", "gpt2", "--svg", file)["file"] == str(file)
    assert file.read_text("utf-8") == svg


@pytest.mark.parametrize(("encoding", "boxed"), [("utf-8", True), ("ascii", False)])
def test_a_terminal_gets_the_boxes_that_it_can_spell(encoding: str, boxed: bool) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "pellucid", "draw", "gpt2"],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": encoding, "FORCE_COLOR": "1"},
        check=True,
    )
    text = process.stdout.decode("utf-8")
    assert "\x1b" not in text
    assert "?" not in text
    assert ("┌" in text) is boxed
    assert ("+--" in text) is not boxed


def test_drawing_a_preset_loads_no_torch() -> None:
    script = (
        "import sys; from pellucid.cli import main; main(['draw', 'gpt2', '--json']); "
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], capture_output=True).returncode == 0


def test_no_cycles_are_looked_for_when_the_process_ends() -> None:
    script = (
        "import atexit, gc, sys\n"
        "atexit.register(lambda: print(gc.get_freeze_count() > 0))\n"  # after main's
        "sys.argv[1:] = ['draw', 'gpt2', '--json']\n"
        "from pellucid.cli import main; main()"
    )
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert process.stdout.endswith(b"True\n")


# -- attach and verify-resume


def test_attach_to_a_finished_run_shows_what_the_run_showed(stdout_of: Any, trained: Path) -> None:
    events = read_events(trained / "metrics.jsonl")
    lines = stdout_of("attach", trained, "--json").splitlines()
    assert [json.loads(line) for line in lines] == [
        json.loads(json.dumps(to_record(event))) for event in events
    ]
    printed = stdout_of("attach", trained)
    assert printed.startswith("run run: 12 steps\n")
    assert printed.splitlines()[-1].startswith("finished after step 12")
    assert printed.count("held-out loss") == 4


def test_attach_to_several_runs_names_each(stdout_of: Any, trained: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(trained, other)
    lines = stdout_of("attach", trained, other).splitlines()
    for name in (trained.name, other.name):
        assert any(line.startswith(f"{name}: step 12/12") for line in lines)
    records = [
        json.loads(line) for line in stdout_of("attach", trained, other, "--json").splitlines()
    ]
    assert {record["run"] for record in records} == {str(trained), str(other)}


def test_attach_leaves_a_finished_run_as_it_was(stdout_of: Any, trained: Path) -> None:
    def files() -> dict[str, int]:
        return {str(p): p.stat().st_mtime_ns for p in trained.rglob("*") if p.name != ".lock"}

    before = files()
    stdout_of("attach", trained)
    assert files() == before


@pytest.mark.slow
def test_resuming_is_proved_to_change_nothing(json_of: Any, trained: Path) -> None:
    proof = json_of("verify-resume", trained, "--steps", 2)
    assert proof == {
        "from_step": 8,
        "stopped_at": 9,
        "to_step": 10,
        "losses_equal": True,
        "weights_equal": True,
        "holds": True,
    }
