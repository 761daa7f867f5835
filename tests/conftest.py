"""What every test gets: shapes checked at run time, small models, a run that is already trained."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from getpass import getuser
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from support.shapes import check_at_run_time

# Shapes in annotations are inert in use and checked here. Rooms whose annotations name types that
# exist for the type checker alone are left out.
check_at_run_time()

# Child processes of the tests must not fight over the cores, nor tests that run side by side.
if "PYTEST_XDIST_WORKER" in os.environ:
    # whatever is set: the process that started this one has come past the line below
    os.environ["OMP_NUM_THREADS"] = "1"
    torch.set_num_threads(1)
else:
    os.environ.setdefault("OMP_NUM_THREADS", "2")
# A busy machine is no fault.
hypothesis.settings.register_profile("busy", deadline=None)
hypothesis.settings.load_profile("busy")
# A suite that runs in the background was started with Ctrl-C ignored, and that would stay so.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# Tests neither find nor leave prepared text; tests of the cache choose a folder of their own.
os.environ["PELLUCID_CACHE"] = "off"
# C is compiled once for all processes; the name of a library is a hash of what it was made of.
os.environ["PELLUCID_NATIVE"] = str(Path(tempfile.gettempdir()) / f"pellucid-tests-{getuser()}")


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their argument: a zipped file holds the second at which it was made.

    Processes that run side by side have to find the same names.
    """
    return argname if isinstance(val, bytes) else None


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Generator[None, Any, None]:
    """With PELLUCID_EXTRAS=all, a test that is skipped for want of a package has failed."""
    outcome = yield
    report = outcome.get_result()
    if os.environ.get("PELLUCID_EXTRAS") != "all" or not report.skipped:
        return
    reason = str(report.longrepr)
    if "could not import" in reason or "is not installed" in reason:
        report.outcome = "failed"
        report.longrepr = f"skipped, though PELLUCID_EXTRAS=all: {reason}"


@pytest.fixture
def native() -> None:
    """Skips a test of compiled code if there is no compiler."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        pytest.skip("there is no C compiler")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real text and reference values in a folder next to the checkout, if they exist."""
    folder = Path(__file__).parents[2] / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the reference data is not at {folder}")
    return folder


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny run that is finished: 12 steps, a checkpoint every 4."""
    from support.tiny import train_tiny

    folder = tmp_path_factory.mktemp("trained") / "run"
    train_tiny(folder)
    return folder
