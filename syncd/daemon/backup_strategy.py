"""How a pass works: one table after the other, several at once, or one with all connections."""

from watermarks.progress import Strategy


def strategy_of(*, places: int, rivals: int, many: bool) -> Strategy:
    """What suits a pass: where others want a place too they share, where none does a large table takes them all.

    `places` is how many passes there may be at once, `rivals` how many others are at work or due, `many` whether the
    table has much to read.
    """
    if places > 1 and rivals:
        return Strategy.INTER_TABLE
    return Strategy.INTRA_TABLE if many and not rivals else Strategy.SEQUENTIAL
