"""The smallest file that COPY can prove itself with."""

import io

import pyarrow as pa
import pyarrow.parquet as pq


def tiny_parquet() -> bytes:
    """One row, with a number and a word."""
    columns = {"id": pa.array([1], pa.int64()), "word": pa.array(["syncd"], pa.string())}
    body = io.BytesIO()
    pq.write_table(pa.table(columns), body)
    return body.getvalue()
