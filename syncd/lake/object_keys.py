"""Keys of all objects that are no documents: parts, refused rows, markers; built and parsed only here."""

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
    """Return the prefix of all parts of a stream."""
    return f"data/{stream.chain_stem}/"


def batch_prefix(plan: Plan) -> str:
    """Return the prefix of all parts of a batch: below the day of its plan, so that every attempt agrees."""
    return day_prefix(plan.stream, plan.id, plan.planned_at)


def day_prefix(stream: StreamName, batch: BatchId, day: datetime) -> str:
    """Return the prefix of the parts of a batch that is planned on that day."""
    return f"{data_prefix(stream)}{day:%Y/%m/%d}/{batch}/"


def parse_data_batch(stream: StreamName, key: str) -> BatchId | None:
    """Return the batch whose prefix a data file has; None where that is no number."""
    found = _DATA.fullmatch(key.removeprefix(data_prefix(stream)))
    return BatchId.from_text(found["batch"]) if found else None


def is_amended(key: str) -> bool:
    """Return whether a file replaces one with rows that the warehouse refused."""
    return key.rpartition("/")[2].startswith(AMENDED_PREFIX)


def cleaned_prefix(stream: StreamName) -> str:
    """Return the prefix of the removal records of a stream."""
    return f"cleaned/{stream.chain_stem}/"


def cleaned_key(stream: StreamName, at: datetime) -> str:
    return f"{cleaned_prefix(stream)}{at:%Y%m%dT%H%M%S%fZ}.json"


def stream_copy_prefix(stream: StreamName) -> str:
    """Return the prefix of the lists for COPY into any target of a stream."""
    return f"copy/{stream.chain_stem}/"


def stream_quarantine_prefix(stream: StreamName) -> str:
    """Return the prefix of the refused rows of a stream."""
    return f"quarantine/{stream.chain_stem}/"


def quarantine_stream_stem(key: str) -> str:
    """Return the stem of the stream that a key in quarantine belongs to."""
    return "/".join(key.split("/")[1:3])


def batch_quarantine_prefix(stream: StreamName, batch: BatchId) -> str:
    return f"{stream_quarantine_prefix(stream)}{batch}/"


def parse_quarantine_batch(stream: StreamName, key: str) -> BatchId | None:
    """Return the batch whose prefix a file in quarantine has; None where that is no number."""
    number = key.removeprefix(stream_quarantine_prefix(stream)).partition("/")[0]
    return BatchId.from_text(number) if _NUMBER.fullmatch(number) else None


def copy_manifest_key(stream: StreamName, batch: BatchId, nonce: str) -> str:
    """Return the key of a list of files for COPY; no two attempts share one."""
    return f"{target_copy_prefix(stream)}{batch}-{nonce}.manifest"


def target_copy_prefix(stream: StreamName) -> str:
    """Return the prefix of the lists for COPY into this target of a stream."""
    target = escape_name(stream.target) if stream.target else DEFAULT_TARGET
    return f"copy/{stream.chain_stem}/{target}/"


def latest_marker_key(stream: StreamName) -> str:
    """Return the key of the marker that is replaced by each newer one."""
    return f"markers/{stream.stem}/latest.json"


def hour_marker_key(stream: StreamName, hour: datetime) -> str:
    """Return the key of the marker of a full hour, in UTC: everything committed before it is in the target."""
    return f"markers/{stream.stem}/{hour:%Y-%m-%dT%H}.json"


def part_key(prefix: str, *, window: int, number: int, attempt: str) -> str:
    """Return the key of a part: the window it was read from, its number there, and the attempt that wrote it."""
    return f"{prefix}{window:05d}.{number:03d}-{attempt}.parquet"


def parse_part_batch(stream: StreamName, key: str) -> BatchId | None:
    """Return the batch of a part's key; None if it is not the key of a part of this stream."""
    match = _PART.fullmatch(key)
    if match is None or stream.chain_stem not in (match["data"], match["quarantine"]):
        return None
    return BatchId.from_text(match["batch"])
