"""The process that serves S3: moto's application, made atomic and given a disk.

S3 promises three things that moto alone does not: a conditional write is one step (moto
checks, then writes, and its threads run in between), an upload that breaks off stores
nothing, and acknowledged objects survive a kill of the process. Of a bucket with
versions only the newest versions are kept on disk.
"""

import argparse
import hashlib
import io
import json
import resource
import threading
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs
from xml.etree import ElementTree as ET

from syncd.sandbox.process import LOOPBACK
from syncd.sandbox.s3 import REGION

CHANGING_METHODS: Final = frozenset({"PUT", "POST", "DELETE"})
SUCCESS_PREFIXES: Final = ("2",)
DRAFT_SUFFIX: Final = ".new"
INCOMPLETE_BODY_XML: Final = (
    b"<Error><Code>IncompleteBody</Code><Message>the body ended before its length</Message></Error>"
)

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]


class DiskStore:
    """Objects as files: one line of metadata, then the bytes."""

    def __init__(self, root: Path) -> None:
        self._root = root
        root.mkdir(mode=0o700, parents=True, exist_ok=True)

    def restore(self) -> int:
        """Load every bucket and object of the disk into moto; return the number of objects."""
        backend = _backend()
        count = 0
        for folder in sorted(self._root.iterdir()):
            backend.create_bucket(folder.name, REGION)
            for path in sorted(folder.glob("*/*")):
                if path.suffix == DRAFT_SUFFIX:
                    path.unlink()  # a kill before its rename: it was never acknowledged
                    continue
                _restore_object(backend, folder.name, path)
                count += 1
        return count

    def save_object(self, bucket: str, key: str) -> None:
        """Write the object that moto holds under this key, or remove its file if there is none."""
        found = _backend().buckets[bucket].keys.get(key)
        path = self._path(bucket, key)
        if found is None or not hasattr(found, "etag"):  # a delete marker has none
            path.unlink(missing_ok=True)
            return
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = path.with_suffix(DRAFT_SUFFIX)
        with draft.open("wb") as file:
            file.write(json.dumps(_object_metadata(found)).encode() + b"\n")
            file.write(found.value)
        draft.replace(path)

    def save_bucket(self, bucket: str) -> None:
        """Make or remove the folder of a bucket, as moto has it."""
        folder = self._root / bucket
        if bucket in _backend().buckets:
            folder.mkdir(mode=0o700, exist_ok=True)
        elif folder.is_dir():
            for empty in folder.iterdir():
                empty.rmdir()
            folder.rmdir()

    def _path(self, bucket: str, key: str) -> Path:
        name = hashlib.sha256(key.encode()).hexdigest()
        return self._root / bucket / name[:2] / name


class AtomicApplication:
    """A WSGI application that answers one request at a time, after reading its whole body."""

    def __init__(self, application: Application, disk: DiskStore) -> None:
        self._application = application
        self._disk = disk
        self._lock = threading.Lock()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        body = _read_body(environ)
        if body is None:
            start_response("400 Bad Request", [("Content-Length", str(len(INCOMPLETE_BODY_XML)))])
            return [INCOMPLETE_BODY_XML]
        answered: list[tuple[str, Any]] = []

        def remember(status: str, headers: list[tuple[str, str]], error: object = None) -> None:  # noqa: ARG001  # WSGI gives it
            answered.append((status, headers))

        with self._lock:
            answer = b"".join(self._application(environ, remember))
            status, headers = answered[-1]
            if environ["REQUEST_METHOD"] in CHANGING_METHODS and status.startswith(SUCCESS_PREFIXES):
                self._save_to_disk(environ, body)
        start_response(status, headers)
        return [answer]

    def _save_to_disk(self, environ: Environ, body: bytes) -> None:
        # WSGI gives the path as Latin-1, whatever its encoding is.
        bucket, _, key = environ["PATH_INFO"].encode("latin-1").decode().lstrip("/").partition("/")
        query = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        if not bucket or bucket == "moto-api":
            return
        if not key and "delete" in query:
            for deleted in _deleted_keys(body):
                self._disk.save_object(bucket, deleted)
        elif not key:
            self._disk.save_bucket(bucket)
        elif "partNumber" not in query:  # a part is no object until its upload is completed
            self._disk.save_object(bucket, key)


def _read_body(environ: Environ) -> bytes | None:
    """Return the request's body, or None if it broke off."""
    stream = environ["wsgi.input"]
    if environ.get("wsgi.input_terminated"):
        try:
            body = bytes(stream.read())
        except OSError:
            return None
    else:
        length = int(environ.get("CONTENT_LENGTH") or 0)
        body = bytes(stream.read(length)) if length else b""
        if len(body) < length:
            return None
    environ.pop("wsgi.input_terminated", None)
    environ.pop("HTTP_TRANSFER_ENCODING", None)
    environ["CONTENT_LENGTH"] = str(len(body))
    environ["wsgi.input"] = io.BytesIO(body)
    return body


def _deleted_keys(request: bytes) -> Iterator[str]:
    """Return the keys of a DeleteObjects request."""
    for element in ET.fromstring(request).iter():  # noqa: S314 - from our own clients on loopback
        if element.tag.rpartition("}")[2] == "Key" and element.text:
            yield element.text


def _object_metadata(found: Any) -> dict[str, Any]:  # noqa: ANN401 - moto gives no types
    return {
        "key": found.name,
        "etag": found.etag.strip('"'),
        "last_modified": found.last_modified.isoformat(),
        "metadata": dict(found.metadata),
        "storage_class": found.storage_class,
        "checksum_algorithm": found.checksum_algorithm,
        "checksum_value": found.checksum_value,
    }


def _restore_object(backend: Any, bucket: str, path: Path) -> None:  # noqa: ANN401 - moto gives no types
    with path.open("rb") as file:
        facts = json.loads(file.readline())
        restored = backend.put_object(
            bucket,
            facts["key"],
            file.read(),
            etag=facts["etag"],
            storage=facts["storage_class"],
            checksum_value=facts["checksum_value"],
        )
    restored.last_modified = datetime.fromisoformat(facts["last_modified"])
    restored.checksum_algorithm = facts["checksum_algorithm"]
    restored.set_metadata(facts["metadata"])


def _backend() -> Any:  # noqa: ANN401 - moto gives no types
    from moto.core.models import DEFAULT_ACCOUNT_ID
    from moto.s3.models import s3_backends

    return s3_backends[DEFAULT_ACCOUNT_ID]["aws"]


def serve(port: int, directory: Path) -> None:
    """Serve until killed."""
    from moto.moto_server.werkzeug_app import (
        DomainDispatcherApplication,
        MotoRequestHandler,
        create_backend_app,
    )
    from werkzeug.serving import make_server

    class Quiet(MotoRequestHandler):
        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Log nothing: a line for each request would be the largest file of the sandbox."""

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # moto holds a file open for each large object
    disk = DiskStore(directory / "objects")
    print(f"{disk.restore()} objects restored", flush=True)  # noqa: T201 - the process's log
    application = AtomicApplication(DomainDispatcherApplication(create_backend_app), disk)
    make_server(LOOPBACK, port, application, threaded=True, request_handler=Quiet).serve_forever()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m syncd.sandbox.s3_server")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--dir", type=Path, required=True)
    arguments = parser.parse_args()
    serve(arguments.port, arguments.dir)


if __name__ == "__main__":
    main()
