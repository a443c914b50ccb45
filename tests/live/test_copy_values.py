"""The cases of tests/standin/test_copy_values.py, against the real thing."""

from tests.standin.test_copy_values import *
