"""The cases of tests/standin/test_copy_options.py, against the real thing."""

from tests.standin.test_copy_options import *
