from tests.integration.load.conftest import journal, lake, prepared
from tests.integration.run.conftest import command
from tests.standin.conftest import bucket, client, clients, no_fault_left, s3_url, server

__all__ = ["bucket", "client", "clients", "command", "journal", "lake", "no_fault_left", "prepared", "s3_url", "server"]
