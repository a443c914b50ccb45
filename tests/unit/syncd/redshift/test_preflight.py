"""What the doctor says of a warehouse that the stand-in cannot be."""

from typing import Any, cast

import pytest

from syncd.ports.preflight import CheckedSide, CheckSheet, CheckStatus
from syncd.redshift.preflight import check_collation


class Database:
    """A database that holds one text, and compares it with or without its case."""

    def __init__(self, *, tells_case: bool) -> None:
        self.tells_case = tells_case

    def run(self, _sql: str) -> int:
        return 1

    def rows(self, _sql: str) -> list[tuple[str]]:
        return [] if self.tells_case else [("a",)]


@pytest.mark.parametrize(("tells_case", "state"), [(True, CheckStatus.PASS), (False, CheckStatus.FAIL)])
def test_a_database_that_compares_texts_without_their_case_is_found(tells_case: bool, state: CheckStatus) -> None:  # noqa: FBT001  # a parameter
    sheet = CheckSheet(side=CheckedSide.WAREHOUSE)

    check_collation(cast("Any", Database(tells_case=tells_case)), sheet)

    [finding] = sheet.results
    assert (finding.check, finding.status) == ("collation", state)
