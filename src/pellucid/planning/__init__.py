"""Predict a training on other machines: memory, time, transport and cost, from the config alone.

    layout = Layout(devices=8, shard="full", gather="bfloat16")
    plan = pellucid.planning.plan_training(run, "h100", layout)
    plan.memory_per_device, plan.step_seconds, plan.tokens_per_second, plan.mfu

`counting` has the one model of memory. This room adds the kinds of device, the time of the work on
them, and what they send each other.

Must not know: torch, `model`, a second model of memory.
"""

from pellucid.counting import Layout
from pellucid.planning.kinds import Kind, find_kind, kinds
from pellucid.planning.plan import Plan, TimeRow, plan_training, predict
from pellucid.planning.propose import propose
from pellucid.planning.setting import Assumptions, Setting, layout_of, make_setting
from pellucid.planning.transport import Collective
from pellucid.planning.work import Work

__all__ = [
    "Assumptions",
    "Collective",
    "Kind",
    "Layout",
    "Plan",
    "Setting",
    "TimeRow",
    "Work",
    "find_kind",
    "kinds",
    "layout_of",
    "make_setting",
    "plan_training",
    "predict",
    "propose",
]
