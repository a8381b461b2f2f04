"""Dates that a query names."""

from datetime import date

import pytest

from ailake.core.dates import NamedDate, date_evidence, named_dates


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("When did Ana go hiking in May 2023?", [NamedDate(2023, 5)]),
        ("on the 3rd of June, 2022", [NamedDate(2022, 6, 3)]),
        ("May 7th", [NamedDate(None, 5, 7)]),
        ("What was on 10 may?", [NamedDate(None, 5, 10)]),
        ("Dec. 2021 and 1999", [NamedDate(2021, 12), NamedDate(1999)]),
        ("last september", [NamedDate(None, 9)]),
        ("2023-05-07 or 2023-06", [NamedDate(2023, 5, 7), NamedDate(2023, 6)]),
        ("2023年5月7日他做了什么", [NamedDate(2023, 5, 7)]),
        ("她十二月去了哪里", [NamedDate(None, 12)]),
        ("5月3号", [NamedDate(None, 5, 3)]),
        ("2024 年的計劃", [NamedDate(2024)]),
        # None of these is a date.
        ("May I ask what they march for?", []),
        ("Will Mark marry in 12 days?", []),
        ("Room 12, phone 20231", []),
        ("", []),
    ],
)
def test_named(text: str, named: list[NamedDate]) -> None:
    assert named_dates(text) == named


def test_evidence_is_the_share_of_the_named_parts() -> None:
    days = [date(2023, 5, 7), date(2023, 5, 8), date(2022, 5, 7), date(2022, 1, 1)]
    assert date_evidence("in May 2023", days).tolist() == [1, 1, 0.5, 0]
    assert date_evidence("on 7 May 2023", days).tolist() == pytest.approx([1, 2 / 3, 2 / 3, 0])
    assert date_evidence("in May 2023 or in January 2022", days).tolist() == [1, 1, 0.5, 1]
    assert date_evidence("what did she eat?", days).tolist() == [0, 0, 0, 0]
    assert date_evidence("in May", []).tolist() == []
