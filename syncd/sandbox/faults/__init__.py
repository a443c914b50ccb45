"""Fault proxies between a client and a real server, for tests."""
