"""Records of a split, made in several processes; existing records are not made again.

Comes in: a split and a folder. Goes out: a file for each job. What fails is written down too.
"""

from __future__ import annotations

import multiprocessing
import time
import traceback
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path

import torch

from benchmarks.diagnosis import pretrain
from benchmarks.diagnosis.jobs import Job, Split, build_training, header, jobs
from benchmarks.diagnosis.record import record, write
from benchmarks.diagnosis.rows import Corpus, corpus_at
from benchmarks.workers import print_progress


def record_split(split: Split, folder: Path, processes: int) -> None:
    """Make every record of a split that is not there yet."""
    _ready(folder.parent)
    split_jobs = jobs(split)
    open_ones = [job for job in split_jobs if not file_of(folder, job).exists()]
    print_progress(
        f"{split}: {len(split_jobs)} trainings, {len(split_jobs) - len(open_ones)} are there"
    )
    started, failed = time.monotonic(), 0
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn) as pool:
        running = [pool.submit(make, job, folder) for job in open_ones]
        for count, future in enumerate(as_completed(running), start=1):
            error = future.result()
            failed += error is not None
            if error is not None:
                print_progress(error)
            if count % 10 == 0 or count == len(running):
                left = (time.monotonic() - started) / count * (len(running) - count)
                print_progress(
                    f"{count} of {len(running)} done, {failed} failed, {left / 60:.1f} min left"
                )


def file_of(folder: Path, job: Job) -> Path:
    """Where a job's record is."""
    return folder / f"{job.name}.json"


def make(job: Job, folder: Path) -> str | None:
    """Make one record; what went wrong, where something did."""
    torch.set_num_threads(1)
    try:
        result = record(build_training(job, _ready(folder.parent)))
    except Exception:
        failed = folder / "failed" / f"{job.name}.txt"
        failed.parent.mkdir(parents=True, exist_ok=True)
        failed.write_text(traceback.format_exc(), encoding="utf-8")
        return f"{job.name}: {traceback.format_exc(limit=-1).splitlines()[-1]}"
    write(header(job) | result, file_of(folder, job))
    return None


@cache
def _ready(folder: Path) -> Corpus:
    corpus = corpus_at(folder / "text")
    pretrain.ready(folder / "text", corpus)
    return corpus
