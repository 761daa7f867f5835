from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from pellucid.display.tables import class_table, confusion_table


def test_each_class_has_its_line() -> None:
    rows = [("ham", 0.9876, 1.0, 0.99, 4825), ("spam", 0.5, 0.25, 0.3333, 747)]
    assert class_table(rows) == [
        "class  precision  recall      F1    texts",
        "ham       0.9876  1.0000  0.9900    4,825",
        "spam      0.5000  0.2500  0.3333      747",
    ]


def test_what_is_right_stands_in_brackets_on_the_diagonal() -> None:
    assert confusion_table(["ham", "spam"], [[950, 16], [12, 137]]) == [
        "is \\ said    ham   spam",
        "ham        [950]     16",
        "spam          12  [137]",
    ]


@pytest.mark.parametrize("n", [1, 3, 8, 40])
@pytest.mark.parametrize("width", [44, 60, 80])
def test_tables_keep_within_their_columns(n: int, width: int) -> None:
    names = [f"漢字 class\n{i}\x1b[2J with a long name" for i in range(n)]
    counts = [[(i * 7 + j) % 50 * 1000 for j in range(n)] for i in range(n)]
    rows = [(name, 0.1, 0.2, 0.3, 10**5) for name in names]
    for line in (*confusion_table(names, counts, width), *class_table(rows, width)):
        assert cell_len(line) <= width
        assert not re.search(r"[\x00-\x1f\x7f-\x9f]", line)


def test_of_many_classes_the_commonest_mistakes_are_listed_and_all_are_counted() -> None:
    names = [f"class-{i}" for i in range(30)]
    counts = [[100 if i == j else 0 for j in range(30)] for i in range(30)]
    counts[3][4], counts[9][2] = 7, 12
    for i in range(20):
        counts[i][29] = 1
    lines = confusion_table(names, counts)
    assert lines[0] == "39 of 3,039 are wrong; the commonest mistakes:"
    assert re.fullmatch(r" +12  class-9 +said to be  class-2", lines[1])
    assert re.fullmatch(r" +7  class-3 +said to be  class-4", lines[2])
    assert sum(int(line.split()[0]) for line in lines[1:]) == 39
