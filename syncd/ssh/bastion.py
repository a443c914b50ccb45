"""The bastion between this machine and a server: login, host key check, and the meaning of its errors."""

import asyncio
from pathlib import Path
from typing import Any, Final, TypeAlias

import asyncssh

from syncd.settings import TunnelSettings
from watermarks.errors import HintedError

SSH_PORT: Final = 22
BastionConnection: TypeAlias = asyncssh.SSHClientConnection
FarReader: TypeAlias = asyncssh.SSHReader[bytes]
FarWriter: TypeAlias = asyncssh.SSHWriter[bytes]
ForwardedConnection: TypeAlias = tuple[FarReader, FarWriter]


class Bastion:
    """One bastion, and the server that it leads to."""

    def __init__(
        self,
        settings: TunnelSettings,
        *,
        server: tuple[str, int],
        down_error: type[HintedError],
        unfit_error: type[HintedError],
    ) -> None:
        self._settings = settings
        self._server = server
        self._down_error = down_error
        self._unfit_error = unfit_error

    async def connect(self, *, within: float, keepalive: float, max_unanswered: int) -> BastionConnection:
        """Open a connection with a checked host key.

        Raises:
            down_error: it does not answer in time.
            unfit_error: its key or ours is refused, or ours cannot be used.
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
                    config=None,  # only syncd.yaml counts, not the user's ~/.ssh/config
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
        """Open a connection from the bastion to the server.

        Raises:
            down_error: the bastion cannot reach it, or does not answer in time.
            unfit_error: the bastion does not forward to it.
        """
        try:
            return await asyncio.wait_for(connection.open_connection(*self._server, encoding=None), within)
        except (asyncssh.Error, OSError, TimeoutError) as error:
            raise self._reach_error(error) from error

    def no_answer_error(self) -> HintedError:
        return self._down_error(f"{self} does not answer in time", hint=_UNREACHABLE_HINT)

    def __str__(self) -> str:
        return f"the bastion {self._settings.host}:{self._settings.port}"

    def _key_options(self) -> dict[str, Any]:
        """Return the configured key; without one, asyncssh tries the agent's keys and the default ones."""
        path = self._settings.key_file
        if path is None:
            return {}
        try:
            key = asyncssh.read_private_key(path)
        except OSError as error:
            raise self._unfit_error(
                f"the key file {path} cannot be read: {error.strerror}",
                hint="Check `tunnel.key_file` and the file's permissions.",
            ) from error
        except asyncssh.KeyEncryptionError as error:
            raise self._encrypted_key_error(path) from error
        except asyncssh.KeyImportError as error:
            if "passphrase" in str(error).lower():
                raise self._encrypted_key_error(path) from error
            raise self._unfit_error(
                f"the key file {path} contains no valid SSH private key", hint="Fix `tunnel.key_file`."
            ) from error
        return {"client_keys": [key], "agent_path": None}

    def _known_hosts(self) -> asyncssh.SSHKnownHosts:
        """Return the trusted hosts; an empty file trusts none (asyncssh replaces an empty text by a default file)."""
        path = self._known_hosts_file()
        try:
            return asyncssh.import_known_hosts(path.read_text())
        except FileNotFoundError:
            return asyncssh.import_known_hosts("")
        except (OSError, ValueError) as error:
            raise self._unfit_error(
                f"the file of known hosts {path} cannot be read: {error}", hint=self._keyscan_command()
            ) from error

    def _known_hosts_file(self) -> Path:
        return self._settings.known_hosts or Path("~/.ssh/known_hosts").expanduser()

    def _login_error(self, error: Exception, known: asyncssh.SSHKnownHosts) -> HintedError:
        match error:
            case asyncssh.HostKeyNotVerifiable():
                return self._key_error(known)
            case asyncssh.PermissionDenied():
                return self._unfit_error(
                    f"{self} refuses user {self._settings.user} with {self._key_name()}",
                    hint=f"Add the public key there: ssh-copy-id -p {self._settings.port}"
                    f" -i {self._settings.key_file or 'KEY.pub'} {self._settings.user}@{self._settings.host}",
                )
            case asyncssh.KeyExchangeFailed():
                return self._key_error(known) if self._is_known(known) else self._protocol_error(error)
            case asyncssh.Error() | OSError() | TimeoutError():
                return self._down_error(f"{self}: {_describe_error(error)}", hint=_UNREACHABLE_HINT)
            case _:
                return self._protocol_error(error)

    def _protocol_error(self, error: Exception) -> HintedError:
        return self._unfit_error(
            f"{self} and this machine cannot speak SSH: {_describe_error(error)}",
            hint=f"Check the output of: ssh -v {self._known_hosts_name()}",
        )

    def _key_error(self, known: asyncssh.SSHKnownHosts) -> HintedError:
        if not self._is_known(known):
            return self._unfit_error(
                f"{self} is not in {self._known_hosts_file()}",
                hint=f"{self._keyscan_command()} (and compare the fingerprint with its owner's)",
            )
        return self._unfit_error(
            f"{self} has another key than the one in {self._known_hosts_file()}",
            hint="This may be an attack. If its owner renewed the key:"
            f" ssh-keygen -R {self._known_hosts_name()} -f {self._known_hosts_file()}; {self._keyscan_command()}",
        )

    def _is_known(self, known: asyncssh.SSHKnownHosts) -> bool:
        port = self._settings.port
        found = asyncssh.match_known_hosts(known, self._settings.host, "", None if port == SSH_PORT else port)
        return any(found)

    def _keyscan_command(self) -> str:
        return f"ssh-keyscan -p {self._settings.port} {self._settings.host} >> {self._known_hosts_file()}"

    def _known_hosts_name(self) -> str:
        """Return its name in the file of known hosts."""
        host, port = self._settings.host, self._settings.port
        return host if port == SSH_PORT else f"'[{host}]:{port}'"

    def _key_name(self) -> str:
        return "any key of its agent" if self._settings.key_file is None else f"the key {self._settings.key_file}"

    def _reach_error(self, error: Exception) -> HintedError:
        host, port = self._server
        if isinstance(error, asyncssh.ChannelOpenError) and error.code == asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED:
            return self._unfit_error(
                f"{self} does not forward to {host}:{port}",
                hint="In its sshd_config: AllowTcpForwarding yes, and no PermitOpen without"
                f" {host}:{port}; in authorized_keys: no `restrict` or `no-port-forwarding` before the key.",
            )
        return self._down_error(
            f"{self} does not reach {host}:{port}: {_describe_error(error)}",
            hint=f"Check that the server runs and the bastion may connect to it. There: nc -vz {host} {port}",
        )

    def _encrypted_key_error(self, path: Path) -> HintedError:
        return self._unfit_error(
            f"the key file {path} is encrypted",
            hint="Add it to an SSH agent (ssh-add) and remove `tunnel.key_file`, or use a key without a passphrase.",
        )


_UNREACHABLE_HINT: Final = "Check that the bastion is running and reachable from this machine."


def _describe_error(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    reason: str | None = error.reason if isinstance(error, asyncssh.Error) else getattr(error, "strerror", None)
    return reason or str(error) or type(error).__name__
