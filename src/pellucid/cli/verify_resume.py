"""`pellucid verify-resume`: proof that resuming a run changes nothing."""

from __future__ import annotations

import argparse
from typing import Any

from pellucid.cli.numbers import STEPS
from pellucid.cli.output import add_json, print_json
from pellucid.errors import RunError


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "verify-resume",
        help="prove that resuming a run changes nothing",
        description="Train on from a checkpoint twice, once straight and once stopped half-way "
        "and resumed in another process, on copies; compare losses and weights bit for bit.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument("--steps", type=STEPS, default=10, metavar="N", help="how far (10)")
    parser.add_argument("--reward", metavar="M:F", help="the reward that it is trained for")
    add_json(parser)
    parser.set_defaults(call=call)


def call(arguments: argparse.Namespace) -> None:
    """Print what was compared and whether it was equal."""
    from dataclasses import asdict

    from pellucid import runs

    proof = runs.verify_resume(arguments.run, steps=arguments.steps, reward=arguments.reward)
    if arguments.json:
        print_json(asdict(proof) | {"holds": proof.holds})
    else:
        print(
            f"from step {proof.from_step} to {proof.to_step}, stopped and resumed at "
            f"{proof.stopped_at}"
        )
        print(f"losses   {_said(proof.losses_equal)}")
        print(f"weights  {_said(proof.weights_equal)} (and the optimiser's memory)")
    if not proof.holds:
        raise RunError(
            "resuming changes this run on this machine; torch_version and device_name in "
            "plan.json say what it was computed with"
        )


def _said(equal: bool) -> str:
    return "equal, bit for bit" if equal else "DIFFERENT"
