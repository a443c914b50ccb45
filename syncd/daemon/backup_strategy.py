"""How a pass works: one table after the other, several at once, or one with all connections."""

from watermarks.progress import RunStrategy


def choose_strategy(*, slots: int, competitors: int, has_backlog: bool) -> RunStrategy:
    """What suits a pass: where others want a place too they share, where none does a large table takes them all.

    `places` is how many passes there may be at once, `rivals` how many others are at work or due, `many` whether the
    table has much to read.
    """
    if slots > 1 and competitors:
        return RunStrategy.INTER_TABLE
    return RunStrategy.INTRA_TABLE if has_backlog and not competitors else RunStrategy.SEQUENTIAL
