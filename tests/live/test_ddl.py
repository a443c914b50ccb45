"""The cases of tests/standin/test_ddl.py, against the real thing."""

from tests.standin.test_ddl import *
