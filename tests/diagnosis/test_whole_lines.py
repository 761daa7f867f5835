"""Rows that terminals and tools break or abbreviate, and what their curves show."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from pellucid.diagnosis import diagnose, history_of_log
from pellucid.diagnosis.logs.lines import join_records
from pellucid.diagnosis.logs.parsers import rows_in

MEGATRON = "iteration {n}/ 99 | consumed samples: 9 | {loss}loss scale: 1.0 | grad norm: {norm} | "


def alarms(rows: list[str], folder: Path) -> dict[str, str]:
    """The text of each finding that is worse than a note, by its code."""
    file = folder / "log.txt"
    file.write_text("\n".join(rows))
    findings = diagnose(history_of_log(file))
    return {finding.code: finding.text() for finding in findings if finding.severity != "note"}


# ---- rows


def test_a_record_that_a_terminal_broke_is_one_row() -> None:
    text = "{'loss': 0.4, 'rewards/chosen': 1.19\n40, 'rewards/rejected': -\n2.5, 'epoch': 1}\n"
    (row,) = rows_in(f"some words\n{text}")
    assert row["rewards/chosen"] == 1.194
    assert row["rewards/rejected"] == -2.5
    unclosed = ["{'loss': 1", *(f"line {n}" for n in range(60))]
    assert join_records(unclosed) == unclosed


def test_numbers_below_a_header_of_olmo_are_its_row() -> None:
    block = (
        "INFO [step={n}/99,epoch=0]\n    optim/total_grad_norm=2.5\n    train/CrossEntropyLoss={n}"
    )
    first, second = rows_in("\n".join(block.format(n=n) for n in (1, 2)))
    assert first == {"total_grad_norm": 2.5, "loss": 1, "step": 1, "epoch": 0}
    assert second["loss"] == second["step"] == 2


def test_a_row_of_verl_that_a_terminal_broke_is_one_with_its_policys_norm() -> None:
    text = (
        "step:7 - critic/grad_norm:65.5 - actor/pg_loss:0.25 - actor/ppo_kl:0.0\n"
        "00 - actor/grad_norm:0.5 - critic/score/mean:0.104 - c\n"
        "ritic/rewards/mean:0.1 - x/y:1"
    )
    (row,) = rows_in(text)
    assert (row["step"], row["grad_norm"], row["critic/rewards/mean"]) == (7, 0.5, 0.1)


def test_names_above_numbers_name_them() -> None:
    text = "Epoch: 01 | 0m 57s\n***train_loss,train_acc,valid_loss***\n5.5\t2.75\t4.5\n"
    (row,) = rows_in(text)
    assert row == {"train_loss": 5.5, "val_loss": 4.5}
    table = "epoch train_loss valid_loss time\n0 3.5 2.5 00:12\n1 3.25 2.25 00:12"
    assert [row["val_loss"] for row in rows_in(f"words of a page: 1\n{table}")] == [2.5, 2.25]


def test_numbers_before_their_names_are_read_and_a_product_is_no_row() -> None:
    (row,) = rows_in("3 7.34 s run, 11.8750 loss, 0.000002 LR, 1454.57 GB used")
    assert row == {"loss": 11.875, "lr": 2e-6}
    product = rows_in("Iteration 20, loss = 4.5\nTrain net: loss_cls = 87.3 (* 1 = 87.3 loss)")
    assert product == [{"loss": 4.5, "step": 20}]


def test_names_with_words_in_brackets_are_read() -> None:
    text = "iter 4 | step 1: loss train (curr): 1.585, val (prev val iter): {} | time: 1.34 ms"
    assert rows_in(text.format("None")) == [{"train_loss": 1.585, "step": 4}]
    assert rows_in(text.format("1.5"))[0]["val_loss"] == 1.5


def test_the_held_out_cross_entropy_of_marian_is_no_training_loss_and_no_entropy() -> None:
    (row,) = rows_in("[2019] [valid] Ep. 2 : Up. 80000 : cross-entropy : 53.9433 : new best")
    assert row == {"val_loss": 53.9433, "step": 80000}


def test_held_out_losses_of_fairseq_become_nats_as_its_training_losses_do() -> None:
    line = "| valid_loss 8 | valid_nll_loss 4 | valid_ppl 16 | num_updates 9 | best 2"
    (row,) = rows_in(line)
    assert row["val_loss"] == pytest.approx(8 * math.log(2))
    assert row["best_val_loss"] == pytest.approx(2 * math.log(2))


# ---- what they show


def test_megatron_leaves_out_a_loss_that_is_not_a_number(tmp_path: Path) -> None:
    rows = [MEGATRON.format(n=n, loss="lm loss: 7.3E-01 | ", norm=0.7) for n in (1, 2)]
    lost = MEGATRON.format(n=3, loss="", norm=0.7)
    assert "NUM008" in alarms([*rows, lost + "number of skipped iterations:   0 |"], tmp_path)
    assert not alarms([*rows, lost + "number of skipped iterations:   1 |"], tmp_path)
    assert not alarms([lost, *rows], tmp_path)  # before the first loss, none is left out


def test_one_lost_norm_is_the_end_where_no_scaler_skips_updates(tmp_path: Path) -> None:
    rows = [MEGATRON.format(n=1, loss="lm loss: 1.19E+01 | ", norm="nan")]
    assert "LOG001" in alarms(rows, tmp_path)
    assert not alarms([rows[0].replace("scale: 1.0", "scale: 65536.0")], tmp_path)


def test_a_log_without_losses_is_not_told_that_its_loss_is_not_finite(tmp_path: Path) -> None:
    file = tmp_path / "log.txt"
    file.write_text("iteration 5/50 | learning rate: 1e-4 | grad norm: nan")
    (finding,) = history_of_log(file).findings
    assert "From update 5 on no gradient norm is finite" in finding.text()


def test_a_held_out_loss_that_is_not_a_number_is_named(tmp_path: Path) -> None:
    rows = ["{'loss': 1.5, 'epoch': 1}", "{'eval_loss': nan}", "{'loss': 1.25, 'epoch': 2}"]
    assert "held-out loss is not a number" in alarms(rows, tmp_path)["LOG001"]
    assert not alarms([*rows, "{'eval_loss': 1.5}"], tmp_path)


def test_losses_that_come_back_digit_by_digit_are_of_weights_that_stand_still(
    tmp_path: Path,
) -> None:
    losses = [0.9741, 1.3742, 1.239, 0.967, 1.0386, 1.1681, 1.224, 0.961]
    rows = [
        f"Epoch {epoch}, Step {step}, Loss: {loss}"
        for epoch in (1, 2)
        for step, loss in enumerate(losses)
    ]
    assert "exactly those of 8 rows before" in alarms(rows, tmp_path)["LOG005"]
    assert not alarms(rows[:12], tmp_path)  # four are too few
    assert not alarms([*rows[:-1], rows[-1] + "1"], tmp_path)
    assert not alarms([row for row in rows[:8] for _ in range(2)], tmp_path)


def test_a_fall_over_rows_that_are_missing_is_not_all_at_once(tmp_path: Path) -> None:
    def log(second: int) -> list[str]:
        starts = [(1, 3.3), (second, 0.3)]
        return [
            f"iter {start + n}: loss {level + 0.01 * (n % 3)}"
            for start, level in starts
            for n in range(21)
        ]

    assert "LOG011" in alarms(log(22), tmp_path)
    assert not alarms(log(99), tmp_path)


@pytest.mark.parametrize("losses", [[-1.0] * 6, [-0.006, -0.006, -0.005, -0.004]])
def test_a_filler_and_a_policys_loss_have_no_wrong_sign(
    losses: list[float], tmp_path: Path
) -> None:
    assert not alarms([f"step: {n} loss: {v:.4f}" for n, v in enumerate(losses, 1)], tmp_path)
    turned = [f"step: {n} loss: {-10 - n}" for n in range(6)]
    assert "LOS009" in alarms(turned, tmp_path)


def test_a_held_out_loss_far_above_its_lowest_is_no_over_fitting(tmp_path: Path) -> None:
    valid = "[valid] Ep. 2 : Up. {n} : cross-entropy : {value}"
    values = (5.39, 5.30, 5.21, 5.23, 7.52)
    rows = [valid.format(n=n, value=value) for n, value in enumerate(values)]
    assert "is 7.520 at update 4" in alarms(rows, tmp_path)["LOG002"]
    assert not alarms(rows[:-1], tmp_path)
    for slope, is_named in ((0.1, True), (-0.1, False)):  # by heart, the training loss falls
        training = [f"Up. {n} : loss : {6 + slope * n}" for n in range(5)]
        assert ("LOG002" in alarms([*rows, *training], tmp_path)) is is_named
    fairseq = "| loss {} | num_updates 9\n| valid_loss 8.3 | num_updates 9 | best 4.4"
    assert "LOG002" in alarms(fairseq.format(6.3).split("\n"), tmp_path)
    assert not alarms(fairseq.format(4.8).split("\n"), tmp_path)
