"""The cases of tests/standin/test_copy_columns.py, against the real thing."""

from tests.standin.test_copy_columns import *
