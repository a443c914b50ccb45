"""`python -m syncd` is the command `syncd`."""

from syncd.cli.main import entry

entry()
