"""The cases of tests/standin/test_files_of_types.py, against the real thing."""

from tests.standin.test_files_of_types import *
