"""Instants as servers of S3 write them: read as botocore reads them, and much sooner."""

import pytest
from botocore.utils import parse_timestamp

from watermarks.stores.s3 import parse_s3_instant


@pytest.mark.parametrize(
    "told",
    [
        "2026-11-19T14:05:22.000Z",
        "2026-11-19T14:05:22.123456Z",
        "2026-11-19T14:05:22+01:00",
        "2026-11-19T14:05:22",
        "20261119T140522Z",
        "Thu, 19 Nov 2026 14:05:22 GMT",
        "Thu, 19 Nov 2026 14:05:22 -0500",
        "19 Nov 2026 14:05:22 +0000",
        "1795097122",
        1795097122,  # as services that speak JSON write it: whoever gives credentials may be one
        1795097122.25,
    ],
)
def test_an_instant_is_what_botocore_takes_it_for(told: str | float) -> None:
    assert parse_s3_instant(told) == parse_timestamp(told)  # type: ignore[arg-type]  # its stubs know texts alone


def test_what_is_no_instant_is_refused_as_botocore_refuses_it() -> None:
    with pytest.raises(ValueError, match="never"):
        parse_s3_instant("never")
