"""Experiments: claims of the textbook, measured on this machine, with a verdict by a rule.

Comes in: the name of an experiment. Goes out: its numbers with seeds, a picture, a verdict.
"""

from pellucid.course.experiments.catalog import EXPERIMENTS, find
from pellucid.course.experiments.conduct import (
    Result,
    conduct,
    experiment_facts,
    result_facts,
)
from pellucid.course.experiments.page import result_page, result_rows
from pellucid.course.experiments.picture import Bars, Curve, Curves, Picture
from pellucid.course.experiments.record import (
    Check,
    Experiment,
    Number,
    Question,
    Reading,
    Setting,
    Source,
    Verdict,
)
from pellucid.course.experiments.svg_picture import picture_svg
from pellucid.course.experiments.terminal_picture import picture_lines

__all__ = [
    "EXPERIMENTS",
    "Bars",
    "Check",
    "Curve",
    "Curves",
    "Experiment",
    "Number",
    "Picture",
    "Question",
    "Reading",
    "Result",
    "Setting",
    "Source",
    "Verdict",
    "conduct",
    "experiment_facts",
    "find",
    "picture_lines",
    "picture_svg",
    "result_facts",
    "result_page",
    "result_rows",
]
