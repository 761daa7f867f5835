"""What curves show by themselves is said by its code; healthy curves are passed in silence."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pellucid.diagnosis import Finding, diagnose, history_of_log, read_codes
from support.foreign_logs import Curves, healthy, trainer_state

Break = Callable[[Curves], dict[str, Any] | None]


def findings_in(made: Curves, tmp_path: Path, **more: Any) -> dict[str, Finding]:
    state = trainer_state(tmp_path / "trainer_state.json", made)
    return {each.code: each for each in history_of_log(state, **more).findings}


def _nan(made: Curves) -> None:
    made.losses[60:] = [math.nan] * 60
    made.norms[57:60] = [80.0, 300.0, 900.0]
    made.norms[60:] = [math.nan] * 60


def _hidden(made: Curves) -> None:
    made.losses[60:] = [0.0] * 60
    made.norms[60:] = [math.nan] * 60


def _diverge(made: Curves) -> None:
    for i in range(60, 120):
        made.losses[i] = min(7.9, 3.5 + (i - 60) * 0.3)


def _jump(made: Curves) -> None:
    for i in (50, 80, 100):
        made.losses[i] += 2.5


def _swing(made: Curves) -> None:
    made.losses[::2] = [4 * loss for loss in made.losses[::2]]


def _guess(made: Curves) -> None:
    draws = random.Random(1)
    made.losses[:] = [math.log(4096) + draws.gauss(0.01, 0.02) for _ in made.losses]


def _stand(made: Curves) -> None:
    draws = random.Random(1)
    made.losses[:] = [6.1 + draws.gauss(0, 0.05) for _ in made.losses]


def _none(made: Curves) -> None:
    _stand(made)
    made.norms[:] = [0.0] * 120


def _vanish(made: Curves) -> None:
    made.losses[:] = [max(6.0, 8.3 - i / 10) for i in range(120)]
    made.norms[:] = [6 * 0.9**i for i in range(120)]


def _grow(made: Curves) -> None:
    for i in range(105, 120):
        made.norms[i] = 30.0 * (1 + i - 105)


def _cut(made: Curves) -> None:
    made.norms[:] = [1.0 + 1e-6 * i for i in range(120)]


def _by_heart(made: Curves) -> None:
    made.epochs = 8.0
    made.held_out[:] = [(100 * i, 3.4 + 0.1 * abs(i - 4)) for i in range(1, 13)]


def _fall(made: Curves) -> None:
    made.losses[60:] = [0.6 + 0.001 * (i % 7) for i in range(60)]


def _copy(made: Curves) -> None:
    made.losses[:] = [8.3 * 0.9**i + 0.003 for i in range(120)]


def _spent(made: Curves) -> None:
    made.rates[90:] = [0.0] * 30


def _zero(made: Curves) -> None:
    made.rates[:] = [0.0] * 120


def _sum(made: Curves) -> None:
    made.losses[:] = [8 * loss for loss in made.losses]


def _negative(made: Curves) -> None:
    made.losses[:] = [-loss for loss in made.losses]


def _large(made: Curves) -> None:
    made.losses[:] = [27.4 - i / 30 for i in range(120)]


def _nothing(made: Curves) -> None:
    made.losses[:] = [0.0] * 120
    made.norms[:] = [0.0] * 120


def _at_chance(made: Curves) -> None:
    made.losses[:] = [math.log(10) * (1 + 0.004 * math.sin(i)) for i in range(120)]


def _known(made: Curves) -> None:
    made.losses[:] = [0.004 + 1e-5 * i for i in range(120)]


SEEN: dict[str, tuple[str, Break, dict[str, Any]]] = {
    "no number": ("LOG001", _nan, {}),
    "no number, written as 0": ("LOG001", _hidden, {}),
    "diverged": ("LOG002", _diverge, {}),
    "jumps": ("LOG003", _jump, {}),
    "swings": ("LOG003", _swing, {}),
    "at guessing": ("LOG004", _guess, {"vocab_size": 4096}),
    "no move": ("LOG005", _stand, {}),
    "at guessing among ten": ("LOG005", _at_chance, {}),
    "no gradient": ("LOG006", _none, {}),
    "gradients vanish": ("LOG007", _vanish, {}),
    "gradients grow": ("LOG008", _grow, {}),
    "clipped before it is logged": ("LOG009", _cut, {}),
    "by heart": ("LOG010", _by_heart, {}),
    "a fall": ("LOG011", _fall, {}),
    "too low": ("LOG012", _copy, {}),
    "exactly 0": ("LOG015", _nothing, {}),
    "known before": ("LOG016", _known, {}),
    "rate spent": ("LOG014", _spent, {}),
    "rate 0": ("OPT004", _zero, {}),
    "summed, beside held-out losses": ("LOS007", _sum, {}),
    "summed, beside ln V": ("LOS007", _sum, {"vocab_size": 4096}),
    "negative": ("LOS009", _negative, {}),
    "larger than any guess": ("INI001", _large, {}),
    "larger than guessing": ("INI001", _large, {"vocab_size": 50257}),
}


@pytest.mark.parametrize("name", SEEN)
def test_what_a_curve_shows_is_said_by_its_code(name: str, tmp_path: Path) -> None:
    code, spoil, more = SEEN[name]
    made = healthy()
    spoil(made)
    seen = findings_in(made, tmp_path, **more)
    assert code in seen, f"only {sorted(seen)}"
    assert "what to do:" in seen[code].text()


@pytest.mark.parametrize("seed", range(25))
def test_healthy_curves_are_passed_in_silence(seed: int, tmp_path: Path) -> None:
    draws = random.Random(seed)
    made = healthy(
        seed, rows=draws.randint(25, 400), first=draws.uniform(4, 11), last=draws.uniform(0.7, 3.5)
    )
    made.epochs = draws.choice([0.5, 1.0, 3.0])
    vocab = draws.choice([None, round(math.exp(made.losses[0]))])
    assert [each.text() for each in findings_in(made, tmp_path, vocab_size=vocab).values()] == []


def test_fine_tuning_that_is_noisy_and_hardly_moves_is_no_alarm(tmp_path: Path) -> None:
    draws = random.Random(3)
    made = healthy(rows=200)
    made.losses[:] = [2.1 * math.exp(draws.gauss(0, 0.3)) - 0.001 * i for i in range(200)]
    made.held_out[:] = [(100 * i, 1.95 - 0.002 * i) for i in range(1, 20)]
    seen = findings_in(made, tmp_path)
    assert {each.severity for each in seen.values()} <= {"note"}


def test_a_resumed_training_that_lost_its_moments_is_seen(tmp_path: Path) -> None:
    made = healthy(rows=60, first=4.0, last=3.0)
    rows = [*zip(made.steps, made.losses, made.rates, strict=True)]
    again = [(s, loss + 0.8, 3e-4) for s, loss, _ in rows[40:]]
    file = tmp_path / "log.csv"
    lines = [f"{s},{loss},{rate}" for s, loss, rate in [*rows[:50], *again]]
    file.write_text("step,loss,lr\n" + "\n".join(lines))
    seen = {each.code: each for each in history_of_log(file).findings}
    assert seen["LOG013"].where == "update 410"
    assert "learning rate went from" in seen["LOG013"].cause
    quiet = [f"{s},{loss},{rate}" for s, loss, rate in [*rows[:50], *rows[40:]]]
    file.write_text("step,loss,lr\n" + "\n".join(quiet))
    assert history_of_log(file).findings == ()


def test_cause_of_a_nan_says_what_came_before(tmp_path: Path) -> None:
    made = healthy()
    _nan(made)
    assert "gradients grew first" in findings_in(made, tmp_path)["LOG001"].cause
    made.norms[57:60] = [0.6, 0.6, 0.6]
    assert "there was no warning" in findings_in(made, tmp_path)["LOG001"].cause
    made.losses[:] = [math.nan] * 120
    assert "it was never finite" in findings_in(made, tmp_path)["LOG001"].cause


def test_losses_of_preferences_are_not_compared_with_guessing(tmp_path: Path) -> None:
    made = healthy(first=0.69, last=0.3)
    made.losses[:] = [loss - 1 for loss in made.losses]
    state = trainer_state(tmp_path / "trainer_state.json", made)
    text = state.read_text().replace('"loss":', '"rewards/chosen": 0.1, "loss":')
    state.write_text(text)
    assert "LOS009" not in {each.code for each in history_of_log(state).findings}


def test_curves_of_other_lengths_and_noises_raise_no_alarm(tmp_path: Path) -> None:
    """Alarms are what is worse than a note."""
    alarms: list[str] = []
    for seed in range(60):
        draws = random.Random(1000 + seed)
        made = healthy(seed, draws.randint(5, 200), draws.uniform(0.7, 12), draws.uniform(0.3, 0.7))
        spread = draws.choice([0.02, 0.1, 0.3])
        made.losses[:] = [loss * math.exp(draws.gauss(0, spread)) for loss in made.losses]
        made.epochs = draws.choice([0.3, 2.0])
        alarms += [e.text() for e in findings_in(made, tmp_path).values() if e.severity != "note"]
    assert alarms == []


@pytest.mark.parametrize(
    ("name", "codes"),
    [
        ("no number", {"NUM008"}),
        ("at guessing", {"LOG004"}),
        ("by heart", {"LOG010"}),
        ("rate spent", {"OPT013"}),
        ("rate 0", {"OPT013"}),
        ("summed, beside ln V", {"LOS007"}),
        ("negative", {"LOS009"}),
    ],
)
def test_causes_and_curves_say_one_thing_once(name: str, codes: set[str], tmp_path: Path) -> None:
    made = healthy()
    _, spoil, more = SEEN[name]
    spoil(made)
    state = trainer_state(tmp_path / "trainer_state.json", made)
    assert {each.code for each in diagnose(history_of_log(state, **more))} == codes


def test_causes_find_nothing_worse_than_notes_in_healthy_logs(tmp_path: Path) -> None:
    alarms: list[str] = []
    for seed in range(40):
        draws = random.Random(seed)
        first = draws.uniform(3, 11)
        made = healthy(seed, draws.randint(5, 300), first, first * draws.uniform(0.3, 0.8))
        made.every = draws.choice([1, 10, 500])
        spread = draws.choice([0.0, 0.1, 0.3])
        made.losses[1:] = [v * math.exp(draws.gauss(0, spread)) for v in made.losses[1:]]
        state = trainer_state(tmp_path / "trainer_state.json", made)
        history = history_of_log(state, vocab_size=draws.choice([None, round(math.exp(first))]))
        alarms += [each.text() for each in diagnose(history) if each.severity != "note"]
    assert alarms == []


def test_every_code_of_logs_is_seen_in_a_log() -> None:
    codes = {code for code, _, _ in SEEN.values()} | {"LOG013"}
    assert {code for code in read_codes() if code.startswith("LOG")} <= codes


def test_zeros_after_a_loss_that_is_none_are_no_recovery(tmp_path: Path) -> None:
    made = healthy()
    made.losses[60:] = [math.nan] + [0.0] * 59
    made.norms[60:] = [0.0] * 60
    seen = findings_in(made, tmp_path)["LOG001"]
    assert seen.severity == "fatal"
    assert seen.where == f"update {seen.step}"


def test_findings_of_a_log_say_when_and_nothing_where_no_update_is_meant(tmp_path: Path) -> None:
    one = healthy()
    one.losses[100] += 8
    jump = findings_in(one, tmp_path)["LOG003"]
    assert jump.what.startswith("One jump in")
    assert jump.where == f"update {jump.step}"
    still = healthy()
    _stand(still)
    assert findings_in(still, tmp_path)["LOG005"].step is None


def test_a_loss_that_does_not_come_back_is_no_jump(tmp_path: Path) -> None:
    made = healthy()
    made.losses[90:] = [9.0 + i / 10 for i in range(30)]
    assert {"LOG002"} <= set(findings_in(made, tmp_path)) <= {"LOG002", "LOG010", "LOS007"}
    made.losses[50] = 9.0
    assert "at update " + str(made.steps[50]) in findings_in(made, tmp_path)["LOG003"].what


def test_a_loss_of_nan_that_is_written_as_0_is_not_solved(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    rows = [{"loss": 2.3, "grad_norm": 1.2}] * 3 + [{"loss": 0.0, "grad_norm": math.nan}] * 40
    file.write_text("\n".join(map(str, rows)), encoding="utf-8")
    assert [finding.code for finding in diagnose(history_of_log(file))] == ["LOG001"]


def test_what_is_learnt_by_heart_is_named_once(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    rows = [
        f"step {row} train loss {2 * math.exp(-row / 3)}, val loss {0.8 + abs(row - 4) / 10}"
        for row in range(30)
    ]
    file.write_text("\n".join(rows), encoding="utf-8")
    assert [finding.code for finding in diagnose(history_of_log(file))] == ["LOG010"]
