"""Text of a proposed `syncd.yaml`: every entry with its evidence, and what could not be proven."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncd.mysql.cursor_proposal import TableProposal

_EXAMPLE_WAREHOUSE_URL: Final = "redshift://loader:${REDSHIFT_PASSWORD}@cluster.internal:5439/dev"
PLACEHOLDER_BUCKET: Final = "CHANGE-ME"
"""Bucket name that the user has to replace."""
PLACEHOLDER_LAKE_URL: Final = f"s3://{PLACEHOLDER_BUCKET}/syncd"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigAddresses:
    """Addresses as the file names them, without passwords."""

    source: Mapping[str, str]
    lake: str | None
    warehouse: str | None


def render_config(
    addresses: ConfigAddresses, proposals: Sequence[TableProposal], *, oldest_transaction_seconds: int | None
) -> str:
    """Render the whole file."""
    return "\n".join(_lines(addresses, proposals, oldest_transaction_seconds)) + "\n"


def _lines(
    addresses: ConfigAddresses, proposals: Sequence[TableProposal], oldest_transaction_seconds: int | None
) -> Iterator[str]:
    yield "# Proposed by `syncd init` from the live schema. Change any line; then: syncd config check"
    yield "# All keys: docs/reference/configuration.md.  For editors: syncd config schema > syncd.schema.json"
    yield "# yaml-language-server: $schema=syncd.schema.json"
    yield ""
    yield "source:"
    yield from (f"  {key}: {json.dumps(value)}" for key, value in addresses.source.items())
    if "zone" not in addresses.source:
        yield "  # zone: UTC  # session time zone of the writers; without it, marks on DATETIME columns are not proven"
    if oldest_transaction_seconds is not None:
        yield f"  # age of the oldest open transaction at the time of the proposal: {oldest_transaction_seconds} s"
    yield "lake:"
    yield f"  url: {json.dumps(addresses.lake or PLACEHOLDER_LAKE_URL)}" + (
        "" if addresses.lake else "  # write the name of your bucket"
    )
    yield from _warehouse_lines(addresses.warehouse)
    yield ""
    yield "tables:"
    yield from (line for proposal in proposals if not proposal.omitted_reason for line in _table_lines(proposal))
    if omitted := [proposal for proposal in proposals if proposal.omitted_reason]:
        yield ""
        yield "# Left out:"
        yield from (
            f"#   {_to_single_line(proposal.table)}: {_to_single_line(proposal.omitted_reason)}" for proposal in omitted
        )
    if doubts := [
        (proposal.table, doubt) for proposal in proposals if not proposal.omitted_reason for doubt in proposal.doubts
    ]:
        yield ""
        yield "# Not proven; `syncd status` shows this until it is:"
        yield from (f"#   {_to_single_line(table)}: {_to_single_line(doubt)}" for table, doubt in doubts)


def _warehouse_lines(url: str | None) -> Iterator[str]:
    mark = "" if url else "# "
    yield f"{mark}warehouse:" + ("" if url else "  # without a warehouse, `syncd run --extract-only` fills the lake")
    yield f"{mark}  url: {json.dumps(url or _EXAMPLE_WAREHOUSE_URL)}"
    yield (
        "  # iam_role: arn:aws:iam::123456789012:role/load  # the role with which COPY reads the lake"
        if url
        else ("#   iam_role: arn:aws:iam::123456789012:role/load")
    )


def _table_lines(proposal: TableProposal) -> Iterator[str]:
    yield ""
    yield from (f"  # {_to_single_line(line)}" for line in proposal.reasons)
    yield from (f"  # not proven: {_to_single_line(line)}" for line in proposal.doubts)
    yield f"  {json.dumps(proposal.table, ensure_ascii=False)}:"
    yield from (f"    {key}: {_to_json(value)}" for key, value in proposal.entry.items())


def _to_json(value: Any) -> str:  # noqa: ANN401  # any value of an entry
    return json.dumps(value, ensure_ascii=False)


def _to_single_line(text: str) -> str:
    """Return the text on one line, as a comment requires."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
