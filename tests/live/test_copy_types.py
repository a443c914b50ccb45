"""The cases of tests/standin/test_copy_types.py, against the real thing."""

from tests.standin.test_copy_types import *
