"""The cases of tests/standin/test_merge.py, against the real thing."""

from tests.standin.test_merge import *
