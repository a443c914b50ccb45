"""The cases of tests/standin/test_absent.py, against the real thing."""

from tests.standin.test_absent import *
