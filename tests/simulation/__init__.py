"""A whole small world for the real library: a source, two warehouses, two processes, an operator, and every mishap.

The actors run the library's own code, each in a greenlet that stops before
every effect on the store or a warehouse. A scheduler picks who goes on and
what happens to the effect: so any interleaving, crash or lost answer between
any two effects can be played, and played again.
"""
