"""Faults on demand, between a client and a real server: for tests of what each of them sees then."""
