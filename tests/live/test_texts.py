"""The cases of tests/standin/test_texts.py, against the real thing."""

from tests.standin.test_texts import *
