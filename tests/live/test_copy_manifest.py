"""The cases of tests/standin/test_copy_manifest.py, against the real thing."""

from tests.standin.test_copy_manifest import *
