"""Record the call stack of a process at each request to S3 and each statement to a server.

Python imports this module at its start if its folder is on PYTHONPATH. Spark's Python workers inherit the
environment, so they record as well. Each effect is one JSON line in the file that CALL_RECORD names.
"""

import functools
import json
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from types import FrameType
from typing import Any

_OURS = ("syncd", "watermarks")
_callers: dict[int, list[tuple[str, str]]] = {}
"""By thread: the stack that started it."""


def _stack(frame: FrameType | None) -> list[tuple[str, str]]:
    """Return (module, function) of every frame of ours, outermost first, with those that started the thread."""
    found: list[tuple[str, str]] = []
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        name = frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name
        if module.partition(".")[0] in _OURS and "<" not in name.replace("<locals>", ""):
            found.append((module, name))
        frame = frame.f_back
    return _callers.get(threading.get_ident(), []) + found[::-1]


def _record(effect: str) -> None:
    line = json.dumps({"process": os.getpid(), "effect": effect, "stack": _stack(sys._getframe(2))})
    with open(os.environ["CALL_RECORD"], "a", encoding="utf-8") as file:  # noqa: PTH123  # before anything is imported
        file.write(line + "\n")


def _carried(call: Callable[..., Any], stack: list[tuple[str, str]]) -> Callable[..., Any]:
    """Return the call with the stack of whoever handed it to another thread."""

    @functools.wraps(call)
    def run(*args: Any, **kwargs: Any) -> Any:
        before = _callers.get(threading.get_ident(), [])
        _callers[threading.get_ident()] = stack
        try:
            return call(*args, **kwargs)
        finally:
            _callers[threading.get_ident()] = before

    return run


def _follow_threads() -> None:
    start, submit = threading.Thread.start, ThreadPoolExecutor.submit

    def start_with_stack(self: threading.Thread) -> None:
        self.run = _carried(self.run, _stack(sys._getframe(1)))  # type: ignore[method-assign]  # of this one thread
        start(self)

    def submit_with_stack(self: ThreadPoolExecutor, call: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return submit(self, _carried(call, _stack(sys._getframe(1))), *args, **kwargs)

    threading.Thread.start = start_with_stack  # type: ignore[method-assign]  # of this process, which a test starts
    ThreadPoolExecutor.submit = submit_with_stack  # type: ignore[method-assign,assignment]  # as above


def _follow_s3() -> None:
    client: Any = import_module("botocore.client").BaseClient
    call = client._make_api_call

    def make_api_call(self: Any, operation: str, parameters: dict[str, Any]) -> Any:
        _record(f"S3 {operation} {parameters.get('Key', '')}")
        return call(self, operation, parameters)

    client._make_api_call = make_api_call


def _follow_sql() -> None:
    cursor: Any = import_module("redshift_connector").Cursor
    execute = cursor.execute

    def execute_recorded(self: Any, operation: str, *args: Any, **kwargs: Any) -> Any:
        _record(f"SQL {' '.join(operation.split())[:80]}")
        return execute(self, operation, *args, **kwargs)

    cursor.execute = execute_recorded


def _follow_mysql() -> None:
    connection: Any = import_module("pymysql.connections").Connection
    query = connection.query

    def query_recorded(self: Any, sql: Any, *args: Any, **kwargs: Any) -> Any:
        _record(f"MySQL {' '.join(str(sql).split()):.200}")
        return query(self, sql, *args, **kwargs)

    connection.query = query_recorded


def _follow_spark() -> None:
    frame: Any = import_module("pyspark.sql.classic.dataframe").DataFrame
    map_in_arrow = frame.mapInArrow

    def map_in_arrow_recorded(self: Any, *args: Any, **kwargs: Any) -> Any:
        _record("Spark")
        return map_in_arrow(self, *args, **kwargs)

    frame.mapInArrow = map_in_arrow_recorded


if "CALL_RECORD" in os.environ:
    _follow_threads()
    _follow_s3()
    _follow_sql()
    _follow_mysql()
    if "syncd" in sys.orig_argv:
        _follow_spark()
