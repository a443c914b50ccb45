"""Sends notices to one address, from a thread of its own: whoever hands one over never waits, and never fails by it."""

import http.client
import ssl
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import stamina

from syncd.settings import Secret
from watermarks.errors import Misuse, Transient

MAX_WAITING_NOTICES: Final = 100
"""Notices. With more the oldest go: the newest say what is."""
ANSWER_TIMEOUT_SECONDS: Final = 10.0
"""Seconds that one step of a request may take."""
MAX_TRIES: Final = 5
RETRY_WINDOW_SECONDS: Final = 120.0
"""Seconds after which no further try begins."""
SHUTDOWN_WAIT_SECONDS: Final = 5.0
"""Seconds that the end waits for what is still to be sent."""
_SUCCESS_STATUSES: Final = range(200, 300)
stamina.instrumentation.set_on_retry_hooks(())  # they would write to stdout, which is for results
_TRANSIENT_STATUSES: Final = frozenset({408, 425, 429, *range(500, 600)})


class NoticeRefused(Misuse):
    """The address answered that it does not take this, and would say so again."""


class WebhookUnavailable(Transient):
    """The address does not answer, or cannot take anything just now."""


class RedirectRefuser(urllib.request.HTTPRedirectHandler):
    """Follows nobody: what is sent, and the token in the address, are for this address alone."""

    def redirect_request(self, *_args: object, **_more: object) -> None:
        return None


class Webhook:
    """One address. What it says of itself, in errors too, never holds the address."""

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
        """Send one document; it is taken when this returns.

        Raises:
            NotTaken: the address refuses it, or leads elsewhere.
            NoAnswer: it may be taken later.
        """
        request = urllib.request.Request(  # noqa: S310  # its scheme was checked with the configuration
            self._url.value, data=body, headers={"Content-Type": "application/json", "User-Agent": "syncd"}
        )
        try:
            with self._opener.open(request, timeout=self._timeout_seconds) as answer:
                status = int(answer.status)
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            # `from None`: what it came from may hold the address.
            raise WebhookUnavailable(f"{self.name} does not answer: {_describe_cause(error)}") from None
        if status in _TRANSIENT_STATUSES:
            raise WebhookUnavailable(f"{self.name} answers {status}")
        if status not in _SUCCESS_STATUSES:
            raise NoticeRefused(f"{self.name} answers {status}", hint="Look at its `url` below `daemon.notify`.")


def _describe_cause(error: Exception) -> str:
    """The error in a word or two, without what it was about."""
    cause = error.reason if isinstance(error, urllib.error.URLError) and isinstance(error.reason, Exception) else error
    if isinstance(cause, TimeoutError):
        return "no answer in time"
    if isinstance(cause, ssl.SSLError):
        return cause.reason or "its encryption broke"
    return (cause.strerror if isinstance(cause, OSError) else None) or type(cause).__name__


class NotificationQueue:
    """Sends what is handed over, in its order, each again after what passes; what cannot be sent is told and let go."""

    def __init__(
        self,
        hook: Webhook,
        *,
        on_lost: Callable[[str], None],
        pause: float = 1.0,
        max_waiting: int = MAX_WAITING_NOTICES,
    ) -> None:
        """Prepare; `lost` is told, from the sending thread, why a notice will never arrive."""
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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(SHUTDOWN_WAIT_SECONDS)

    def enqueue(self, body: bytes, *, on_no_answer: Callable[[], None] = lambda: None) -> None:
        """Hand a notice over; returns at once. `unheard` is called where nobody answered however often it was tried."""
        with self._changed:
            self._waiting.append((body, on_no_answer))
            crowded = len(self._waiting) > self._max_waiting
            if crowded:
                self._waiting.popleft()
            self._changed.notify()
        if crowded:
            self._on_lost(
                f"{self._hook.name}: more than {self._max_waiting} notices wait to be sent, the oldest is let go"
            )

    def _run(self) -> None:
        while (waiting := self._next()) is not None:
            body, unheard = waiting
            try:
                self._send_with_retries(body)
            except (WebhookUnavailable, NoticeRefused) as error:
                self._on_lost(error.message)
                if isinstance(error, WebhookUnavailable):
                    unheard()

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
                    return  # a last word is said once
                self._hook.send(body)
