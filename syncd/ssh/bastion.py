"""The host between us and a source: who it is, whom it lets in, and what its refusals mean."""

import asyncio
from pathlib import Path
from typing import Any, Final, TypeAlias

import asyncssh

from syncd.errors import SourceDown, SourceUnfit
from syncd.settings import TunnelSettings
from watermarks.errors import HintedError

SSH_PORT: Final = 22
BastionConnection: TypeAlias = asyncssh.SSHClientConnection
FarReader: TypeAlias = asyncssh.SSHReader[bytes]
FarWriter: TypeAlias = asyncssh.SSHWriter[bytes]
ForwardedConnection: TypeAlias = tuple[FarReader, FarWriter]


class Bastion:
    """One bastion, and the source that it leads to."""

    def __init__(self, settings: TunnelSettings, *, server: tuple[str, int]) -> None:
        self._settings = settings
        self._server = server

    async def connect(self, *, within: float, keepalive: float, max_unanswered: int) -> BastionConnection:
        """A connection to it, checked and let in.

        Raises:
            SourceDown: it is not there, or does not answer in time.
            SourceUnfit: its key or ours is refused, or ours cannot be used.
        """
        settings = self._settings
        known = self._known_hosts()
        try:
            return await asyncio.wait_for(
                asyncssh.connect(
                    settings.host,
                    settings.port,
                    username=settings.user,
                    known_hosts=known,
                    config=None,  # what stands in syncd.yaml is all there is: ~/.ssh/config is for people
                    x509_trusted_certs=None,
                    gss_host=None,
                    preferred_auth="publickey",
                    compression_algs=["none"],
                    keepalive_interval=keepalive,
                    keepalive_count_max=max_unanswered,
                    **self._key_options(),
                ),
                within,
            )
        except (asyncssh.Error, OSError, TimeoutError, ValueError) as error:
            raise self._login_error(error, known) from error

    async def open_forwarded(self, connection: BastionConnection, *, within: float) -> ForwardedConnection:
        """A connection from the bastion to the source.

        Raises:
            SourceDown: the bastion cannot reach it, or does not answer in time.
            SourceUnfit: the bastion does not forward to it.
        """
        try:
            return await asyncio.wait_for(connection.open_connection(*self._server, encoding=None), within)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self._reach_error(error) from error

    def no_answer_error(self) -> SourceDown:
        return SourceDown(f"{self} does not answer in time", hint=_UNREACHABLE_HINT)

    def __str__(self) -> str:
        return f"the bastion {self._settings.host}:{self._settings.port}"

    def _key_options(self) -> dict[str, Any]:
        """The key of the configuration and no other; without one, the agent's and those that `ssh` would take."""
        path = self._settings.key_file
        if path is None:
            return {}
        try:
            key = asyncssh.read_private_key(path)
        except OSError as error:
            raise SourceUnfit(
                f"the key file {path} cannot be read: {error.strerror}", hint="Mend `tunnel.key_file`, or its rights."
            ) from error
        except asyncssh.KeyEncryptionError as error:
            raise _encrypted_key_error(path) from error
        except asyncssh.KeyImportError as error:
            if "passphrase" in str(error).lower():
                raise _encrypted_key_error(path) from error
            raise SourceUnfit(
                f"the key file {path} holds no private key that SSH knows", hint="Mend `tunnel.key_file`."
            ) from error
        return {"client_keys": [key], "agent_path": None}

    def _known_hosts(self) -> asyncssh.SSHKnownHosts:
        """Whom we trust; an empty file trusts nobody (given as text, the library would take another file instead)."""
        path = self._known_hosts_file()
        try:
            return asyncssh.import_known_hosts(path.read_text())
        except FileNotFoundError:
            return asyncssh.import_known_hosts("")
        except (OSError, ValueError) as error:
            raise SourceUnfit(
                f"the file of known hosts {path} cannot be read: {error}", hint=self._keyscan_command()
            ) from error

    def _known_hosts_file(self) -> Path:
        return self._settings.known_hosts or Path("~/.ssh/known_hosts").expanduser()

    def _login_error(self, error: Exception, known: asyncssh.SSHKnownHosts) -> HintedError:
        match error:
            case asyncssh.HostKeyNotVerifiable():
                return self._key_error(known)
            case asyncssh.PermissionDenied():
                return SourceUnfit(
                    f"{self} does not let {self._settings.user} in with {self._key_name()}",
                    hint=f"Add the public key there: ssh-copy-id -p {self._settings.port}"
                    f" -i {self._settings.key_file or 'KEY.pub'} {self._settings.user}@{self._settings.host}",
                )
            case asyncssh.KeyExchangeFailed():
                return self._key_error(known) if self._is_known(known) else self._protocol_error(error)
            case asyncssh.Error() | OSError() | TimeoutError():
                return SourceDown(f"{self}: {_describe_error(error)}", hint=_UNREACHABLE_HINT)
            case _:
                return self._protocol_error(error)

    def _protocol_error(self, error: Exception) -> SourceUnfit:
        return SourceUnfit(
            f"{self} and this machine cannot speak SSH: {_describe_error(error)}",
            hint=f"What does ssh -v {self._known_hosts_name()} say?",
        )

    def _key_error(self, known: asyncssh.SSHKnownHosts) -> SourceUnfit:
        if not self._is_known(known):
            return SourceUnfit(
                f"{self} is not in {self._known_hosts_file()}",
                hint=f"{self._keyscan_command()} (and compare its fingerprint with the one that its owner names)",
            )
        return SourceUnfit(
            f"{self} shows another key than the one in {self._known_hosts_file()}",
            hint="Somebody may stand between. If its owner renewed the key:"
            f" ssh-keygen -R {self._known_hosts_name()} -f {self._known_hosts_file()}; {self._keyscan_command()}",
        )

    def _is_known(self, known: asyncssh.SSHKnownHosts) -> bool:
        port = self._settings.port
        found = asyncssh.match_known_hosts(known, self._settings.host, "", None if port == SSH_PORT else port)
        return any(found)

    def _keyscan_command(self) -> str:
        return f"ssh-keyscan -p {self._settings.port} {self._settings.host} >> {self._known_hosts_file()}"

    def _known_hosts_name(self) -> str:
        """As the file of known hosts calls it."""
        host, port = self._settings.host, self._settings.port
        return host if port == SSH_PORT else f"'[{host}]:{port}'"

    def _key_name(self) -> str:
        return "any key of its agent" if self._settings.key_file is None else f"the key {self._settings.key_file}"

    def _reach_error(self, error: Exception) -> HintedError:
        host, port = self._server
        if isinstance(error, asyncssh.ChannelOpenError) and error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
            return SourceUnfit(
                f"{self} does not forward to {host}:{port}",
                hint="In its sshd_config: AllowTcpForwarding yes, and no PermitOpen without"
                f" {host}:{port}; in authorized_keys: no `restrict` or `no-port-forwarding` before the key.",
            )
        return SourceDown(
            f"{self} does not reach {host}:{port}: {_describe_error(error)}",
            hint=f"Is the server up, and may the bastion connect to it? There: nc -vz {host} {port}",
        )


_UNREACHABLE_HINT: Final = "Is the bastion up, and is there a way to it from this machine?"


def _encrypted_key_error(path: Path) -> SourceUnfit:
    return SourceUnfit(
        f"the key file {path} is encrypted",
        hint="Add it to an SSH agent (ssh-add) and leave `tunnel.key_file` out, or name a key without a passphrase.",
    )


def _describe_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    told: str | None = error.reason if isinstance(error, asyncssh.Error) else getattr(error, "strerror", None)
    return told or str(error) or type(error).__name__
