"""Every fault is found by its code, and its healthy twin does not have that code."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pellucid.diagnosis import read_codes
from support.faults import FAULTS, Case
from support.nightly import sampled

#: What only a call of a loop's own shows: `tests/vitals/call` and `test_check_call.py` have them.
OF_CALLS = {
    "ATT008",
    "ATT009",
    "ATT010",
    "ATT011",
    "ATT012",
    *(f"DAT0{number}" for number in range(13, 25)),
    "DAT030",
    "DAT031",
    "DAT032",
    "DAT036",
    "GRD005",
    "LOS014",
    "LOS015",
    "LOS016",
    "LOS017",
    "LOS018",
    "LOS019",
    "LOS030",
    "POS003",
    "POS004",
}


@pytest.mark.parametrize("name", sampled(FAULTS, 2))
def test_fault_is_found_by_its_code(name: str) -> None:
    fault = FAULTS[name]
    case = fault.healthy()
    fault.inject(case)
    found = {each.code: each for each in case.check()}
    assert fault.code in found, f"found only {sorted(found)}"
    text = found[fault.code].text()
    assert max(map(len, text.splitlines())) <= 80
    assert "what to do:" in text
    assert "why it matters:" in text


#: Many faults have the same healthy twin; each has the name of the first.
TWINS = {fault.healthy: name for name, fault in reversed(FAULTS.items())}


@pytest.mark.parametrize("make", TWINS, ids=TWINS.get)
def test_healthy_twin_of_a_fault_is_silent(make: Callable[[], Case]) -> None:
    assert [finding.text() for finding in make().check()] == []


def test_every_code_of_the_register_has_a_fault_that_it_names() -> None:
    codes = list(read_codes())
    before_training = codes[: codes.index("RND002") + 1]  # then come those of causes
    of_probes = {code for code in before_training if not code.startswith("LOG")}
    assert {fault.code for fault in FAULTS.values()} == of_probes - OF_CALLS
