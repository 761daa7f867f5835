"""Lines as people paste them: other names for the loss, curly quotes, tables of a page."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from pellucid.diagnosis import diagnose, history_of_log
from pellucid.diagnosis.logs.parsers import rows_in


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("step 16 - loss        nan - moving ave loss        nan", {"step": 16, "loss": math.nan}),
        ("Loss is nan, stopping training", {"loss": math.nan}),
        ("Loss error: 1.03", {"loss": 1.03}),
        ("[Epoch 1] Batch[2] Speed: 6.4 samples/sec, IDLoss=46.0", {"loss": 46.0}),
        ("Epoch[1] Train-CrossEntropy=2.5", {"train_loss": 2.5}),
        ("Epoch[1] Dev-CrossEntropy=2.6", {"val_loss": 2.6}),
        ("iteration : 4, losses : 1266.86", {"loss": 1266.86}),
        ("Epoch: 0010 cost = 15.2", {"loss": 15.2}),
        ("iteration 5 loss 2.5 time cost: 3.1", {"loss": 2.5}),
        ("epoch 3: cost 4.2 s, loss 2.5", {"loss": 2.5}),
        ("loss cost = 37.4, reg cost = 0.1", {"loss": 37.4}),
        ("Step 50/900; acc: 51.2; ppl: 8.415; xent: 2.13; lr: 0.5", {"loss": 2.13, "lr": 0.5}),
        ("global step 100 lr 1 ppl 20.0855369 bleu 0.00", {"loss": 3.0, "lr": 1.0}),
        ("Iter 50/213 ; LR 1.0 ; PPL nan ;", {"loss": math.nan, "lr": 1.0}),
        ("step 9 loss 2.5 ppl 99", {"loss": 2.5}),
        ("Validation perplexity: 20.0855369", {"val_loss": 3.0}),
        (
            "71%|###| 5/8 [04:01<01:39, v_num=0, train_loss_step=nan.0",
            {"train_loss_step": math.nan},
        ),
        ("epoch 1 val_loss_epoch=2.5", {"val_loss": 2.5}),
        ("4/8 [00:01, train_loss=2.5, lr-AdamW=0.5]", {"train_loss": 2.5, "lr_adamw": 0.5}),
        (
            "Training Loss: 0.5  Validation Loss: 0.6",
            {"train_loss": 0.5, "val_loss": 0.6},
        ),
        (
            "validation loss at iteration 9 | lm loss value: 3.5E+00 | lm loss PPL: 3.3E+01",
            {"val_loss": 3.5},
        ),
        (
            "Epoch 1 | iter 4 step 1 | loss train: 2.5, val: n/a | iter time: 123.45 ms",
            {"step": 4, "train_loss": 2.5},
        ),
        ("step 1 | loss train: 2.5, val: 2.625", {"train_loss": 2.5, "val_loss": 2.625}),
        (
            "step:3 - actor/grad_norm:np.float64(0.25) - critic/rewards/mean:np.float64(0.5)",
            {"step": 3, "grad_norm": 0.25, "critic/rewards/mean": 0.5},
        ),
        (
            "step:3 - actor/pg_loss:0.25 - critic/score/mean:0.5",
            {"step": 3, "actor_pg_loss": 0.25, "critic/score/mean": 0.5},
        ),
        ("step 2 loss -1.#IND gnorm 1.#INF", {"step": 2, "loss": math.nan, "gnorm": math.inf}),
        ("{'loss': tensor(2.5, device='cuda:0'), 'step': 4}", {"loss": 2.5, "step": 4}),
        (
            'INFO | train_inner | {"update": 0.1, "loss": "2.5", "num_updates": "100"}',
            {"loss": 2.5, "step": 100},
        ),
        ("\t Val. Loss: 2.5 |  Val. PPL: 12.182", {"val_loss": 2.5}),
        ("\t Train loss/train/total: 2.5", {"train_loss": 2.5}),
        (
            "\t Train lr-DecoupledAdamW/group0: 0.5, loss 2",
            {"lr_decoupledadamw_group0": 0.5, "loss": 2},
        ),
        ("    optim/total_grad_norm=0.5 loss=2", {"total_grad_norm": 0.5, "loss": 2}),
        ("10: loss=2.5", {"step": 10, "loss": 2.5}),
        ("step 3 | loss 2.5000 | lr 0.0", {"step": 3, "loss": 2.5, "lr": 0.0}),
        ("loss=4.5, nll_loss=4, ppl=16.05, num_updates=9", {"loss": 3.11916, "step": 9}),
        ("loss=4.5, nll_loss=4, ppl=54.60, num_updates=9", {"loss": 4.5, "step": 9}),
        ("loss=4.5, nll_loss=0, ppl=1.00, num_updates=9", {"loss": 4.5, "step": 9}),
        (
            "{\u2018loss\u2019: 1.453, \u2018grad_norm\u2019: 2.5}",
            {"loss": 1.453, "norm": 2.5},
        ),
    ],
)
def test_a_line_of_a_console_is_read(line: str, row: dict[str, float]) -> None:
    (found,) = rows_in(line)
    chosen = {name: value for name, value in found.items() if name in row}
    assert chosen == pytest.approx(row, rel=1e-4, nan_ok=True)
    assert not {name for name in found if "loss" in name} - set(row)


def test_a_table_of_a_page_and_one_without_names_are_read() -> None:
    page = "Step | Training Loss | reward_std\n-- | -- | --\n1 | 0.5 | 1.5\n2 | 0.25 | 1.25\n"
    first, second = [row for row in rows_in(page) if row]
    assert first == {"Step": 1, "Training Loss": 0.5, "reward_std": 1.5}
    assert second["Training Loss"] == 0.25
    assert rows_in("| step | loss |\n|---|---|\n| 3 | 2.5 |")[-1] == {"step": 3, "loss": 2.5}
    bare = rows_in("76930 2.64\n76940 2.59\n76950 nan\n")
    assert [row["step"] for row in bare] == [76930, 76940, 76950]
    assert math.isnan(bare[-1]["loss"])
    fairseq = rows_in("| epoch 001 | loss 3 | lr 0.5\n| epoch 002 | loss 2 | lr 0.5\n")
    assert [row["loss"] for row in fairseq] == [3, 2]


def codes(rows: list[str], folder: Path) -> dict[str, str]:
    file = folder / "log.txt"
    file.write_text("\n".join(rows))
    return {finding.code: finding.text() for finding in diagnose(history_of_log(file))}


def test_gradient_norms_that_stay_nan_are_the_end_and_one_is_not(tmp_path: Path) -> None:
    rows = [f"{{'loss': {4 - i / 10}, 'grad_norm': {1 + i / 10}}}" for i in range(6)]
    lost = "{'loss': 3.5, 'grad_norm': nan}"
    assert not {"LOG001", "NUM008"} & set(codes([*rows, lost], tmp_path))
    assert not {"LOG001", "NUM008"} & set(codes([lost, lost, *rows], tmp_path))
    found = codes([*rows, lost, lost], tmp_path)
    assert "At update 7, gradient was not finite" in found["NUM008"]
    (finding,) = history_of_log(tmp_path / "log.txt").findings
    assert "loss is finite, but no gradient norm is" in finding.text()
    assert "never finite" not in " ".join(codes([lost, lost, lost], tmp_path).values())


def test_a_short_log_that_climbs_row_by_row_is_an_alarm_and_noise_is_none(tmp_path: Path) -> None:
    climbing = (1.45, 1.41, 1.42, 1.46, 1.47, 1.51, 1.57, 1.56, 1.62)
    assert "LOG002" in codes([f"step {i} loss {v}" for i, v in enumerate(climbing)], tmp_path)
    source = random.Random(5)
    alarms = 0
    for _ in range(200):
        noisy = [source.uniform(1, 2) for _ in range(source.randint(6, 19))]
        alarms += "LOG002" in codes([f"step {i} loss {v}" for i, v in enumerate(noisy)], tmp_path)
    assert alarms <= 2


@pytest.mark.parametrize(("first", "is_named"), [(1, True), (10_001, False)])
def test_the_first_row_of_a_later_part_is_no_first_loss(
    first: int, is_named: bool, tmp_path: Path
) -> None:
    file = tmp_path / "log.txt"
    file.write_text("\n".join(f"step {first + i} loss {27.4 - i / 30:.3f}" for i in range(30)))
    codes = [finding.code for finding in diagnose(history_of_log(file))]
    assert ("INI001" in codes) is is_named


EPOCHS = {
    "tutorial": "Epoch [{epoch}/4], Step [{step}/90], Loss: {loss:.4f}",
    "bar": "Epoch {epoch}: 5%|# | {place}/9 [00:01<00:02, 9.3it/s, train_loss_step={loss:.3f}]",
    "one line": "epoch: {epoch} step: {step}, loss is {loss:.4f}",
    "no epoch": "Epoch Step: {step} | Accumulation Step: 7 | Loss: {loss:.2f} | Tokens: 3000",
}


def _epoch_lines(line: str, losses: list[float], n_rows: int) -> str:
    return "\n".join(
        line.format(
            epoch=row // n_rows, place=row % n_rows, step=10 * (row % n_rows + 1), loss=loss
        )
        for row, loss in enumerate(losses)
    )


@pytest.mark.parametrize("style", EPOCHS)
def test_updates_that_are_counted_anew_in_each_epoch_are_counted_through(
    style: str, tmp_path: Path
) -> None:
    losses = [3 + 5 * math.exp(-row / 8) for row in range(27)]
    file = tmp_path / "train.log"
    file.write_text(_epoch_lines(EPOCHS[style], losses, 9), encoding="utf-8")
    history = history_of_log(file)
    assert [loss for _, loss in history.losses] == pytest.approx(losses, abs=0.01)
    steps = [step for step, _ in history.losses]
    first, stride = (0, 1) if style == "bar" else (10, 10)
    assert steps == [first + stride * row for row in range(27)]
    assert not diagnose(history)


def test_a_count_that_begins_anew_with_the_loss_is_another_training(tmp_path: Path) -> None:
    losses = [3 + 5 * math.exp(-row / 3) for row in range(9)]
    file = tmp_path / "train.log"
    file.write_text(_epoch_lines(EPOCHS["no epoch"], losses * 2, 9), encoding="utf-8")
    assert [step for step, _ in history_of_log(file).losses] == [10 * row for row in range(1, 10)]
    again = "step {step} epoch {place} loss {loss}"  # resumed: the epoch falls too
    file.write_text(_epoch_lines(again, losses * 2, 9), encoding="utf-8")
    assert len(history_of_log(file).losses) == 9


def test_numbers_in_front_of_lines_are_ranks_only_if_they_come_again(tmp_path: Path) -> None:
    file = tmp_path / "train.log"
    lines = [f"{row}: loss={9 - row / 10}" for row in range(30)]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert history_of_log(file).losses[-1] == (29, pytest.approx(6.1))
    lines = [f"{rank}: loss={9 - row / 10 + rank}" for row in range(30) for rank in range(3)]
    file.write_text("\n".join(lines), encoding="utf-8")
    assert history_of_log(file).losses[-1] == (30, pytest.approx(6.1))


def test_a_rate_that_a_console_rounds_to_0_is_unknown() -> None:
    (row,) = rows_in("step 3 | loss 2.5000 | lr 0.0000")
    assert row == {"step": 3.0, "loss": 2.5}
