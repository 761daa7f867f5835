"""Logs of preferences and rewards: faults by their codes, healthy ones without an alarm."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from pellucid.diagnosis import diagnose, history_of_log, list_unknowns
from pellucid.diagnosis.logs.columns import measures_of
from support.post_training_logs import Row, column, dpo, grpo, state

Log = list[Row]


def _columns(log: Log, **columns: tuple[float, ...]) -> Log:
    for name, values in columns.items():
        log = column(log, name.replace("__", "/"), *values)
    return log


def _stuck() -> Log:
    log = _columns(dpo(), loss=(math.log(2),), rewards__margins=(0.001,))
    return column(log, "rewards/chosen", 0.001)


def _bought() -> Log:
    log = column(grpo(), "rewards/accuracy_reward/mean", 0.6, 0.05)
    return column(column(log, "rewards/format_reward/mean", 0.0, 1.0), "reward", 0.6, 1.05)


def _bought_in_part() -> Log:
    log = column(grpo(), "rewards/accuracy_reward/mean", 0.6, 0.4)
    return column(column(log, "rewards/format_reward/mean", 0.0, 1.0), "reward", 0.6, 1.4)


FAULTS: dict[str, tuple[str, Callable[[], Log]]] = {
    "stays a coin": ("PRF001", _stuck),
    "no tokens": ("PRF003", lambda: _columns(dpo(), logps__chosen=(0,), logps__rejected=(0,))),
    "one text": ("PRF003", lambda: _columns(dpo(), logps__chosen=(-9,), logps__rejected=(-9,))),
    "policy is its reference": (
        "PRF003",
        lambda: _columns(dpo(), rewards__margins=(0,), rewards__chosen=(0,)),
    ),
    "rejected wins": (
        "PRF004",
        lambda: _columns(dpo(), rewards__margins=(0, -3), rewards__accuracies=(0.4, 0.1)),
    ),
    "both unlikely": (
        "PRF005",
        lambda: _columns(dpo(), logps__chosen=(-250, -900), rewards__chosen=(0, -65)),
    ),
    "no doubt": (
        "PRF006",
        lambda: _columns(
            dpo(), rewards__margins=(0, 40), rewards__accuracies=(1,), loss=(0.001, 0)
        ),
    ),
    "another reference": ("REF001", lambda: column(dpo(), "rewards/chosen", 9.0, 9.5)),
    "pairs summed": ("LOS007", lambda: [r | {"loss": 8 * r["loss"]} for r in dpo()]),
    "no spread": ("RLH001", lambda: column(grpo(), "frac_reward_zero_std", 1.0)),
    "cut off": ("RLH002", lambda: column(grpo(), "completions/clipped_ratio", 1.0)),
    "reward falls": ("RLH003", lambda: column(grpo(), "reward", 1.0, 0.1)),
    "hacked by format": ("RLH004", _bought),
    "hacked in part": ("RLH004", _bought_in_part),
    "never pays": ("RLH005", lambda: column(grpo(), "rewards/accuracy_reward/mean", 0.0)),
    "far away": ("REF003", lambda: column(grpo(), "kl", 0.0, 60.0)),
    "negative distance": ("RLH006", lambda: column(grpo(), "objective/kl", 0.0, -9.0)),
    "collapse": (
        "RLH007",
        lambda: [row | {"entropy": 0.5 * 0.9**i} for i, row in enumerate(grpo())],
    ),
    "noise": ("RLH007", lambda: column(grpo(), "entropy", 0.5, 9.0)),
    "length runs away": (
        "RLH008",
        lambda: _columns(grpo(), completions__mean_length=(200, 2000), reward=(0.5,)),
    ),
    "no gradient": ("LOG006", lambda: column(grpo(), "grad_norm", 0.0)),
    "the distance is paid for": (
        "REF004",
        lambda: [
            row | {"kl": 0.1 * (i + 1), "loss": -0.05 * (i + 1)} for i, row in enumerate(grpo())
        ],
    ),
    "the distance is paid for, under noise": (
        "REF004",
        lambda: [
            row | {"kl": 0.1 * (i + 1), "loss": -0.05 * (i + 1) + 0.3 * math.sin(7 * i)}
            for i, row in enumerate(grpo())
        ],
    ),
    "stale": ("RLH009", lambda: column(grpo(), "clip_ratio/region_mean", 0.7)),
    "ratio": ("RLH009", lambda: column(grpo(), "val/ratio", 4.0)),
    "rate 0": ("OPT004", lambda: column(grpo(), "learning_rate", 0.0)),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_after_pre_training_is_named_by_its_code(name: str, tmp_path: Path) -> None:
    code, spoilt = FAULTS[name]
    codes = {finding.code for finding in history_of_log(state(tmp_path, spoilt())).findings}
    codes |= {finding.code for finding in diagnose(history_of_log(tmp_path))}
    assert code in codes


@pytest.mark.parametrize("every", [1, 10])
def test_healthy_preferences_and_rewards_raise_no_alarm(every: int, tmp_path: Path) -> None:
    for seed in range(40):
        for log in (dpo(seed, 12 + seed, 0.2 + seed / 10), grpo(seed, 12 + 3 * seed)):
            findings = diagnose(history_of_log(state(tmp_path, log, every)))
            assert [f.text() for f in findings if f.severity != "note"] == []
            assert "OPT007" not in {finding.code for finding in findings}


def test_log_of_rewards_is_not_asked_for_a_loss_of_tokens(tmp_path: Path) -> None:
    log = [{k: v for k, v in row.items() if k != "loss"} for row in grpo()]
    notes = " ".join(list_unknowns(history_of_log(state(tmp_path, log))))
    assert "training loss" not in notes
    assert "ln V" not in notes


def test_parts_of_an_own_loss_are_the_same_measures() -> None:
    parts = {"margin": (0.1, -0.2), "accuracy": (0.5, 0.25), "chosen_reward": (0.1, math.nan)}
    logged = {name: tuple(enumerate(values, start=1)) for name, values in parts.items()}
    assert measures_of(logged) == {
        "margin": ((1, 0.1), (2, -0.2)),
        "accuracy": ((1, 0.5), (2, 0.25)),
        "chosen_reward": ((1, 0.1),),
    }


#: One row as each tool writes it, and what must be read from it.
CONSOLES = {
    "trl": (
        "{{'loss': 0.5, 'rewards/chosen': 0.25, 'rewards/margins': {0}, 'logps/chosen': -88.5}}",
        {"margin": 0.75, "chosen_reward": 0.25, "chosen_logp": -88.5},
    ),
    "trl with text": (
        "{{'loss': '0.5', 'reward': '{0}', 'frac_reward_zero_std': '0.5', 'kl': '1e-3'}}",
        {"reward": 0.75, "equal_groups": 0.5, "kl": 1e-3},
    ),
    "verl": (
        "(TaskRunner pid=7) step:{1} - actor/entropy:0.22 - actor/pg_clipfrac:0.0008 - "
        "actor/kl_loss:0.001 - critic/score/mean:{0} - critic/score/max:1.0 - "
        "response_length/mean:1267.0 - response_length/clip_ratio:0.05",
        {"reward": 0.75, "entropy": 0.22, "clipped": 8e-4, "length": 1267.0, "cut_off": 0.05},
    ),
    "torchtune": (
        "Step {1} | loss:0.6 rewards/chosen:0.1 rewards/margins:{0} log_probs/chosen:-90.0",
        {"margin": 0.75, "chosen_reward": 0.1, "chosen_logp": -90.0},
    ),
    "openrlhf": (
        "Train epoch [1/1]: 10%|# | {1}/99 [00:01<00:09, policy_loss=0.1, reward={0}, kl=0.02, "
        "response_length=300, ppo_clip_ratio=0.01]",
        {"reward": 0.75, "kl": 0.02, "length": 300.0, "clipped": 0.01},
    ),
    "mlx": (
        "Iter {1}: Train loss 0.5, Chosen reward {0}, Rejected reward -1.5, Learning Rate 1e-05",
        {"chosen_reward": 0.75, "rejected_reward": -1.5},
    ),
}


@pytest.mark.parametrize("tool", CONSOLES)
def test_lines_of_each_tool_are_read_with_their_measures(tool: str, tmp_path: Path) -> None:
    line, expected = CONSOLES[tool]
    file = tmp_path / "console.txt"
    file.write_text("\n".join(["loading", *(line.format(0.75, step) for step in range(1, 9))]))
    measures = history_of_log(file).measures
    for kind, value in expected.items():
        assert [point[1] for point in measures[kind]] == [value] * 8


def test_tables_of_trackers_keep_their_measures(tmp_path: Path) -> None:
    file = tmp_path / "export.csv"
    head = '"_step","run - train/rewards/margins","run - train/loss","run - train/loss__MIN"'
    file.write_text("\n".join([head, *(f"{i},0.{i},0.6,0.6" for i in range(1, 6))]))
    history = history_of_log(file)
    assert history.measures["margin"][-1] == (5, 0.5)
    assert history.facts.objective == "preferences"
    lines = (f'{{"current_steps": {i}, "loss": 2.{i}, "lr": 1e-4}}' for i in range(1, 6))
    (tmp_path / "trainer_log.jsonl").write_text("\n".join(lines))
    assert history_of_log(tmp_path / "trainer_log.jsonl").losses[-1] == (5, 2.5)


@pytest.mark.parametrize("mark", ["[rank{}]: ", "[default{}]: ", "{}: "])
def test_lines_of_ranks_in_any_order_are_those_of_one(mark: str, tmp_path: Path) -> None:
    file = tmp_path / "torchrun.log"
    rows = [(rank, i + 10 * (rank == 2)) for i in range(1, 30) for rank in (2, 0, 1)]
    lines = [f"{mark.format(rank)}step {i} loss {4 - 0.1 * i - rank:.2f}" for rank, i in rows]
    file.write_text("\n".join(lines))
    assert history_of_log(file).losses == tuple((i, round(4 - 0.1 * i, 2)) for i in range(1, 30))


def test_epochs_of_keras_are_read(tmp_path: Path) -> None:
    line = "{}/10\n99/99 [=====] - 5s 50ms/step - loss: {:.4f} - accuracy: 0.5 - val_loss: {:.4f}"
    text = "\n".join(f"Epoch {line.format(i, 4 - i / 4, 4.1 - i / 4)}" for i in range(1, 11))
    (tmp_path / "keras.txt").write_text(text)
    history = history_of_log(tmp_path / "keras.txt")
    assert [loss for _, loss in history.losses] == [4 - i / 4 for i in range(1, 11)]
    assert len(history.held_out) == 10
    assert history.facts.objective is None


def test_a_rate_that_a_log_rounds_to_zero_is_not_zero(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    rates = [1e-4] * 14 + [0.0] * 10

    def write(decimals: int) -> None:
        lines = [
            f"step {5 * at} | loss {3 - at / 31:.{decimals}f} | lr {rate:.{decimals}f}"
            for at, rate in enumerate(rates)
        ]
        log.write_text("\n".join(lines))

    write(4)
    assert "OPT013" not in {finding.code for finding in diagnose(history_of_log(log))}
    write(8)
    assert "OPT013" in {finding.code for finding in diagnose(history_of_log(log))}


@pytest.mark.parametrize(
    ("start", "slope"),
    [(0.0, 0.05), (-3.0, -0.05), (0.0, 0.0)],  # it is charged, it rewards much else, there is none
)
def test_a_distance_that_is_not_paid_for_is_none(
    start: float, slope: float, tmp_path: Path
) -> None:
    rows = [
        row | {"kl": 0.1 * (i + 1), "loss": start + slope * (i + 1) + (0.3 * math.sin(7 * i))}
        for i, row in enumerate(grpo())
    ]
    codes = {finding.code for finding in diagnose(history_of_log(state(tmp_path, rows)))}
    assert "REF004" not in codes
