"""What things cost, measured: each module is run with `python -m`."""
