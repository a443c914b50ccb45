"""The cases of tests/standin/test_names.py, against the real thing."""

from tests.standin.test_names import *
