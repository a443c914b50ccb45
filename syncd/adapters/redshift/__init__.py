"""Redshift: connections that never hang, what its errors mean, and the transaction that lands a batch."""
