"""The first `syncd.yaml`: every entry with the evidence for it, and what nobody could prove."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncd.mysql.cursor_proposal import TableProposal

_EXAMPLE_WAREHOUSE_URL: Final = "redshift://loader:${REDSHIFT_PASSWORD}@cluster.internal:5439/dev"
PLACEHOLDER_BUCKET: Final = "CHANGE-ME"
"""A bucket that nobody has named yet."""
PLACEHOLDER_LAKE_URL: Final = f"s3://{PLACEHOLDER_BUCKET}/syncd"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAddresses:
    """The addresses as the file names them, without a password."""

    source: Mapping[str, str]
    lake: str | None
    warehouse: str | None


def render_config(
    addresses: ConfigAddresses, proposals: Sequence[TableProposal], *, oldest_transaction_seconds: int | None
) -> str:
    """The whole file."""
    return "\n".join(_lines(addresses, proposals, oldest_transaction_seconds)) + "\n"


def _lines(
    addresses: ConfigAddresses, proposals: Sequence[TableProposal], oldest_transaction_seconds: int | None
) -> Iterator[str]:
    yield "# Proposed by `syncd init` from the live schema. Every line is yours to change; then: syncd config check"
    yield "# All keys: docs/reference/configuration.md.  For editors: syncd config schema > syncd.schema.json"
    yield "# yaml-language-server: $schema=syncd.schema.json"
    yield ""
    yield "source:"
    yield from (f"  {key}: {json.dumps(value)}" for key, value in addresses.source.items())
    if "zone" not in addresses.source:
        yield "  # zone: UTC  # the session time zone of those who write; without it no DATETIME stamp is proven"
    if oldest_transaction_seconds is not None:
        yield f"  # the oldest transaction that was open at the time: {oldest_transaction_seconds} s"
    yield "lake:"
    yield f"  url: {json.dumps(addresses.lake or PLACEHOLDER_LAKE_URL)}" + (
        "" if addresses.lake else "  # name your bucket"
    )
    yield from _warehouse_lines(addresses.warehouse)
    yield ""
    yield "tables:"
    yield from (line for each in proposals if not each.omitted_reason for line in _table_lines(each))
    if left := [each for each in proposals if each.omitted_reason]:
        yield ""
        yield "# Left out:"
        yield from (f"#   {_to_single_line(each.table)}: {_to_single_line(each.omitted_reason)}" for each in left)
    if doubts := [(each.table, doubt) for each in proposals if not each.omitted_reason for doubt in each.doubts]:
        yield ""
        yield "# Not proven, so `syncd status` says so until it is:"
        yield from (f"#   {_to_single_line(table)}: {_to_single_line(doubt)}" for table, doubt in doubts)


def _warehouse_lines(url: str | None) -> Iterator[str]:
    mark = "" if url else "# "
    yield f"{mark}warehouse:" + ("" if url else "  # without one, `syncd run --extract-only` fills the lake")
    yield f"{mark}  url: {json.dumps(url or _EXAMPLE_WAREHOUSE_URL)}"
    yield (
        "  # iam_role: arn:aws:iam::123456789012:role/load  # by which COPY reads the lake"
        if url
        else ("#   iam_role: arn:aws:iam::123456789012:role/load")
    )


def _table_lines(each: TableProposal) -> Iterator[str]:
    yield ""
    yield from (f"  # {_to_single_line(line)}" for line in each.reasons)
    yield from (f"  # not proven: {_to_single_line(line)}" for line in each.doubts)
    yield f"  {json.dumps(each.table, ensure_ascii=False)}:"
    yield from (f"    {key}: {_to_json(value)}" for key, value in each.entry.items())


def _to_json(value: Any) -> str:  # noqa: ANN401  # whatever an entry says
    return json.dumps(value, ensure_ascii=False)


def _to_single_line(text: str) -> str:
    """A text as it may stand in a comment: on one line."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
