"""Delivery of notices to one address by a thread of its own, so that callers neither wait nor fail."""

import http.client
import ssl
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from typing import Final, Self

import stamina

from syncd.settings import Secret
from watermarks.errors import Misuse, Transient

MAX_WAITING_NOTICES: Final = 100
"""With more, the oldest notices are dropped."""
ANSWER_TIMEOUT_SECONDS: Final = 10.0
MAX_TRIES: Final = 5
RETRY_WINDOW_SECONDS: Final = 120.0
"""Time after which no further try begins."""
SHUTDOWN_WAIT_SECONDS: Final = 5.0
_SUCCESS_STATUSES: Final = range(200, 300)
stamina.instrumentation.set_on_retry_hooks(())  # the default hooks write to stdout
_TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, *range(500, 600)})


class NoticeRefused(Misuse):
    """The address refused the notice and would refuse it again."""


class WebhookUnavailable(Transient):
    """The address does not answer, or cannot accept a notice now."""


class RedirectRefuser(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: the notice, and the token in the address, are for this address only."""

    def redirect_request(self, *_args: object, **_more: object) -> None:
        return None


class Webhook:
    """One address; its errors never contain the address, which is secret."""

    def __init__(self, url: Secret, *, name: str, timeout_seconds: float = ANSWER_TIMEOUT_SECONDS) -> None:
        self._url = url
        self._timeout_seconds = timeout_seconds
        self.name = name
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(context=ssl.create_default_context()),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPErrorProcessor(),
            RedirectRefuser(),
        ):
            self._opener.add_handler(handler)

    def send(self, body: bytes) -> None:
        """Send one document and wait until it is accepted.

        Raises:
            NoticeRefused: the address refuses it or redirects.
            WebhookUnavailable: a later try may succeed.
        """
        request = urllib.request.Request(  # noqa: S310  # the configuration allows only http and https
            self._url.value, data=body, headers={"Content-Type": "application/json", "User-Agent": "syncd"}
        )
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as answer:
                status = int(answer.status)
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            # `from None`: the original error may contain the address.
            raise WebhookUnavailable(f"{self.name} does not answer: {_describe_cause(error)}") from None
        if status in _TRANSIENT_STATUSES:
            raise WebhookUnavailable(f"{self.name} answers {status}")
        if status not in _SUCCESS_STATUSES:
            raise NoticeRefused(f"{self.name} answers {status}", hint="Check its `url` under `daemon.notify`.")


def _describe_cause(error: Exception) -> str:
    """Return the kind of error without the address."""
    cause = error.reason if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, ssl.SSLError):
        return cause.reason or "TLS failed"
    return (cause.strerror if isinstance(cause, OSError) else None) or type(cause).__name__


class NotificationQueue:
    """Queue of notices for one address: sent in order, retried after transient errors, reported when lost."""

    def __init__(
        self,
        hook: Webhook,
        *,
        on_lost: Callable[[str], None],
        pause: float = 1.0,
        max_waiting: int = MAX_WAITING_NOTICES,
    ) -> None:
        """Make the queue; the sending thread calls `on_lost` with the reason for which a notice is lost."""
        self._hook = hook
        self._on_lost = on_lost
        self._pause = pause
        self._waiting: deque[tuple[bytes, Callable[[], None]]] = deque()
        self._max_waiting = max_waiting
        self._changed = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=f"mail to {hook.name}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(SHUTDOWN_WAIT_SECONDS)

    def enqueue(self, body: bytes, *, on_no_answer: Callable[[], None] = lambda: None) -> None:
        """Queue a notice and return at once; `on_no_answer` is called after the last try without an answer."""
        with self._changed:
            self._waiting.append((body, on_no_answer))
            is_full = len(self._waiting) > self._max_waiting
            if is_full:
                self._waiting.popleft()
            self._changed.notify()
        if is_full:
            self._on_lost(
                f"{self._hook.name}: more than {self._max_waiting} notices wait to be sent; the oldest is dropped"
            )

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            body, on_no_answer = waiting
            try:
                self._send_with_retries(body)
            except (WebhookUnavailable, NoticeRefused) as error:
                self._on_lost(error.message)
                if isinstance(error, WebhookUnavailable):
                    on_no_answer()

    def _next(self) -> tuple[bytes, Callable[[], None]] | None:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._is_closing)
            return self._waiting.popleft() if self._waiting else None

    def _send_with_retries(self, body: bytes) -> None:
        for attempt in stamina.retry_context(
            on=WebhookUnavailable,
            attempts=MAX_TRIES,
            timeout=RETRY_WINDOW_SECONDS,
            wait_initial=self._pause,
            wait_max=30 * self._pause,
            wait_jitter=self._pause,
        ):
            with attempt:
                if self._is_closing and attempt.num > 1:
                    return  # at shutdown each notice gets one try
                self._hook.send(body)
