"""The whole system on one machine: real servers on loopback ports, a shop to fill them, faults on demand."""
