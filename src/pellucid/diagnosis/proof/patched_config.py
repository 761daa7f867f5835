"""Write the config that a proof recommends, and the command that trains with it."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

from pellucid import config
from pellucid.config import run_to_toml
from pellucid.diagnosis.fixes.propose import apply_assignments
from pellucid.diagnosis.proof.proof import Proof
from pellucid.disk import free_name, write_output
from pellucid.saved_runs.folder import RunFolder


def write_fixed(
    proof: Proof,
    folder: RunFolder,
    run: config.Run,
    *,
    reward: str | None,
    path: str | Path | None,
) -> Proof:
    """Write the patched config if a fix helped; the proof with its path and its command.

    Args:
        proof: the proof.
        folder: the run's folder.
        run: the run's config.
        reward: the `--reward` of the run, if it has one.
        path: the path of the config; by default next to the run's folder.
    """
    best = proof.best
    if best is None:
        return proof
    name = folder.path.resolve().name
    file = folder.path.parent / f"{name}-fixed.toml" if path is None else Path(path)
    if path is None:
        file = free_name(file)
    comments = [
        f"# {name} with {best.fix.change}, for {', '.join(best.codes)}:",
        f"# {best.fix.reason}",
        f"# Measured on {len(best.pairs)} pairs of forks of {best.pairs[0][1].steps} updates: "
        f"{best.words}.",
    ]
    text = run_to_toml(apply_assignments(run, best.fix.assignments))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_output(file, "\n".join([*comments, "", text]))
    flag = "" if reward is None else f" --reward {shlex.quote(reward)}"
    start = best.pairs[0][1].start
    command, checkpoint = f"pellucid train --config {shlex.quote(str(file))}{flag}", ""
    if start:
        checkpoint = str(folder.shelf.path(start))
        target = shlex.quote(str(file.with_suffix("")))
        command = (
            f"pellucid train --resume {shlex.quote(checkpoint)} --config {shlex.quote(str(file))} "
            f"--out {target}{flag}"
        )
    return replace(proof, file=str(file), command=command, checkpoint=checkpoint)
