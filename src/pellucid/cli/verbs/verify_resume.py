"""`pellucid verify-resume`: proof that resuming a run changes nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pellucid.cli.flags.numbers import KILLS, SEED, STEPS_VERIFIED
from pellucid.cli.flags.shared import finish_parser
from pellucid.cli.output.printing import print_result
from pellucid.errors import RunError

if TYPE_CHECKING:
    from pellucid.runs import KillProof, ResumeProof


def add_to(verbs: Any) -> None:
    """The verb and its flags."""
    parser = verbs.add_parser(
        "verify-resume",
        help="prove that resuming a run changes nothing",
        description="Continue from a checkpoint twice, on copies: once straight, and once stopped "
        "half-way and resumed in another process. Compare losses and weights bit for bit. With "
        "--kills, kill a copy at random moments instead. The run stays unchanged.",
    )
    parser.add_argument("run", metavar="RUN", help="a run's folder")
    parser.add_argument(
        "--steps", type=STEPS_VERIFIED, default=10, metavar="N", help="number of updates (10)"
    )
    parser.add_argument(
        "--kills", type=KILLS, metavar="N", help="kill a copy N times at random moments"
    )
    parser.add_argument(
        "--seed", type=SEED, default=1337, metavar="S", help="seed of these moments (default: 1337)"
    )
    parser.add_argument("--reward", metavar="M:F", help="the reward that the run is trained for")
    finish_parser(parser, call, force=True)


def call(arguments: argparse.Namespace) -> None:
    """Print the comparison, and whether all was equal."""
    from dataclasses import asdict

    from pellucid import runs

    if arguments.kills is not None:
        proof = runs.verify_kills(
            arguments.run,
            kills=arguments.kills,
            steps=arguments.steps,
            seed=arguments.seed,
            reward=arguments.reward,
            force=arguments.force,
        )
    else:
        proof = runs.verify_resume(
            arguments.run, steps=arguments.steps, reward=arguments.reward, force=arguments.force
        )
    print_result(arguments, asdict(proof) | {"holds": proof.is_equal}, _format(proof))
    if not proof.is_equal:
        raise RunError(
            "resuming changes this run on this machine; torch_version and device_name in "
            "plan.json describe the machine it was computed on"
        )


def _format(proof: ResumeProof | KillProof) -> Iterator[str]:
    from pellucid.runs import ResumeProof

    stretch = f"from step {proof.from_step} to {proof.to_step}"
    if isinstance(proof, ResumeProof):
        yield f"{stretch}, stopped and resumed at {proof.stopped_at}"
    else:
        n_kills = len(proof.kills)
        yield f"{stretch}, killed {n_kills} times at random moments (seed {proof.seed})"
        for number, kill in enumerate(proof.kills, start=1):
            equality = _format_equality(kill.equal)
            yield (
                f"kill {number:<3} after step {kill.step}, resumed from step {kill.saved}: "
                f"{equality}"
            )
    yield f"losses   {_format_equality(proof.losses_equal)}"
    yield f"weights  {_format_equality(proof.weights_equal)} (and the optimiser's memory)"


def _format_equality(equal: bool) -> str:
    return "equal, bit for bit" if equal else "DIFFERENT"
