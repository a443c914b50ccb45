"""The first `syncd.yaml`: every entry with the evidence for it, and what nobody could prove."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from syncd.mysql.cursor_proposal import Proposal

_WAREHOUSE: Final = "redshift://loader:${REDSHIFT_PASSWORD}@cluster.internal:5439/dev"
UNNAMED: Final = "CHANGE-ME"
"""A bucket that nobody has named yet."""
NOWHERE: Final = f"s3://{UNNAMED}/syncd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """The addresses as the file names them, without a password."""

    source: Mapping[str, str]
    lake: str | None
    warehouse: str | None


def text_of(sides: Sides, proposals: Sequence[Proposal], *, longest: int | None) -> str:
    """The whole file."""
    return "\n".join(_lines(sides, proposals, longest)) + "\n"


def _lines(sides: Sides, proposals: Sequence[Proposal], longest: int | None) -> Iterator[str]:
    yield "# Proposed by `syncd init` from the live schema. Every line is yours to change; then: syncd config check"
    yield "# All keys: docs/configuration.md.  For editors: syncd config schema > syncd.schema.json"
    yield "# yaml-language-server: $schema=syncd.schema.json"
    yield ""
    yield "source:"
    yield from (f"  {key}: {json.dumps(value)}" for key, value in sides.source.items())
    if "zone" not in sides.source:
        yield "  # zone: UTC  # the session time zone of those who write; without it no DATETIME stamp is proven"
    if longest is not None:
        yield f"  # the oldest transaction that was open at the time: {longest} s"
    yield "lake:"
    yield f"  url: {json.dumps(sides.lake or NOWHERE)}" + ("" if sides.lake else "  # name your bucket")
    yield from _warehouse(sides.warehouse)
    yield ""
    yield "tables:"
    yield from (line for each in proposals if not each.left_out for line in _entry(each))
    if left := [each for each in proposals if each.left_out]:
        yield ""
        yield "# Left out:"
        yield from (f"#   {_plain(each.table)}: {_plain(each.left_out)}" for each in left)
    if doubts := [(each.table, doubt) for each in proposals if not each.left_out for doubt in each.unproven]:
        yield ""
        yield "# Not proven, so `syncd status` says so until it is:"
        yield from (f"#   {_plain(table)}: {_plain(doubt)}" for table, doubt in doubts)


def _warehouse(url: str | None) -> Iterator[str]:
    mark = "" if url else "# "
    yield f"{mark}warehouse:" + ("" if url else "  # without one, `syncd run --extract-only` fills the lake")
    yield f"{mark}  url: {json.dumps(url or _WAREHOUSE)}"
    yield (
        "  # iam_role: arn:aws:iam::123456789012:role/load  # by which COPY reads the lake"
        if url
        else ("#   iam_role: arn:aws:iam::123456789012:role/load")
    )


def _entry(each: Proposal) -> Iterator[str]:
    yield ""
    yield from (f"  # {_plain(line)}" for line in each.because)
    yield from (f"  # not proven: {_plain(line)}" for line in each.unproven)
    yield f"  {json.dumps(each.table, ensure_ascii=False)}:"
    yield from (f"    {key}: {_value(value)}" for key, value in each.says.items())


def _value(value: Any) -> str:  # noqa: ANN401  # whatever an entry says
    return json.dumps(value, ensure_ascii=False)


def _plain(text: str) -> str:
    """A text as it may stand in a comment: on one line."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
