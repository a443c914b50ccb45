"""The keys of everything that is no document: parts and refused rows, built and parsed here and nowhere else."""

import re
from datetime import datetime
from typing import Final

from watermarks.batch import BatchId, Plan
from watermarks.names import StreamName, escape_name

DEFAULT_TARGET: Final = "default"
_PART: Final = re.compile(
    r"(?:data/(?P<data>[^/]+/[^/]+)/\d{4}/\d\d/\d\d|quarantine/(?P<quarantine>[^/]+/[^/]+))"
    r"/(?P<batch>[0-9]+-[0-9]+)/[0-9]+\.[0-9]+-[^/]+\.parquet"
)

_DATA: Final = re.compile(r"\d{4}/\d\d/\d\d/(?P<batch>[1-9][0-9]{0,17}-[1-9][0-9]{0,17})/[^/]+", re.ASCII)
AMENDED_PREFIX: Final = "amended-"
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,17}-[1-9][0-9]{0,17}", re.ASCII)


def data_prefix(stream: StreamName) -> str:
    """What the keys of all parts of a stream begin with."""
    return f"data/{stream.chain_stem}/"


def batch_prefix(plan: Plan) -> str:
    """What the keys of all parts of a batch begin with: under the day of its plan, so that every attempt agrees."""
    return day_prefix(plan.stream, plan.id, plan.planned_at)


def day_prefix(stream: StreamName, batch: BatchId, day: datetime) -> str:
    """The same of a batch that is yet to be planned, on that day."""
    return f"{data_prefix(stream)}{day:%Y/%m/%d}/{batch}/"


def parse_data_batch(stream: StreamName, key: str) -> BatchId | None:
    """The batch under whose number a key among the parts lies, whoever wrote it; None where that is no number."""
    found = _DATA.fullmatch(key.removeprefix(data_prefix(stream)))
    return BatchId.from_text(found["batch"]) if found else None


def is_amended(key: str) -> bool:
    """Whether the loader wrote a file, in place of one that holds rows which the warehouse refused."""
    return key.rpartition("/")[2].startswith(AMENDED_PREFIX)


def cleaned_prefix(stream: StreamName) -> str:
    """What the keys of all records begin with of files of a stream that were removed."""
    return f"cleaned/{stream.chain_stem}/"


def cleaned_key(stream: StreamName, at: datetime) -> str:
    return f"{cleaned_prefix(stream)}{at:%Y%m%dT%H%M%S%fZ}.json"


def stream_copy_prefix(stream: StreamName) -> str:
    """What the keys of everything begin with that is written for COPY, into whatever target."""
    return f"copy/{stream.chain_stem}/"


def stream_quarantine_prefix(stream: StreamName) -> str:
    """What the keys of all refused rows of a stream begin with."""
    return f"quarantine/{stream.chain_stem}/"


def quarantine_stream_stem(key: str) -> str:
    """The stem of the stream to which a key in quarantine belongs."""
    return "/".join(key.split("/")[1:3])


def batch_quarantine_prefix(stream: StreamName, batch: BatchId) -> str:
    return f"{stream_quarantine_prefix(stream)}{batch}/"


def parse_quarantine_batch(stream: StreamName, key: str) -> BatchId | None:
    """The batch under whose number a key in quarantine lies; None where that is no number."""
    number = key.removeprefix(stream_quarantine_prefix(stream)).partition("/")[0]
    return BatchId.from_text(number) if _NUMBER.fullmatch(number) else None


def copy_manifest_key(stream: StreamName, batch: BatchId, nonce: str) -> str:
    """The key of a list of files for COPY; no two attempts share one."""
    return f"{target_copy_prefix(stream)}{batch}-{nonce}.manifest"


def target_copy_prefix(stream: StreamName) -> str:
    """What the keys of everything begin with that is written for one COPY into a stream's target."""
    target = escape_name(stream.target) if stream.target else DEFAULT_TARGET
    return f"copy/{stream.chain_stem}/{target}/"


def latest_marker_key(stream: StreamName) -> str:
    """The key of the one marker of a stream's target that is renewed."""
    return f"markers/{stream.stem}/latest.json"


def hour_marker_key(stream: StreamName, hour: datetime) -> str:
    """The key of the marker that stands once everything committed before a full hour, in UTC, is there."""
    return f"markers/{stream.stem}/{hour:%Y-%m-%dT%H}.json"


def part_key(prefix: str, *, window: int, number: int, attempt: str) -> str:
    """The key of one part: the window it was read from, its number there, and the attempt that wrote it."""
    return f"{prefix}{window:05d}.{number:03d}-{attempt}.parquet"


def parse_part_batch(stream: StreamName, key: str) -> BatchId | None:
    """The batch that a key names; None when no part of this stream is called so."""
    match = _PART.fullmatch(key)
    if match is None or stream.chain_stem not in (match["data"], match["quarantine"]):
        return None
    return BatchId.from_text(match["batch"])
