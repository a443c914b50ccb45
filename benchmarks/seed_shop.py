"""Speed of filling the shop, and of one writer that changes it.

python -m benchmarks.seed_shop [ORDERS]
"""

import sys
import tempfile
from pathlib import Path

from syncd.sandbox.running_sandbox import Sandbox
from syncd.sandbox.shop.seed import ShopSize, seed_shop
from syncd.sandbox.shop.writer import ShopWriter

ORDERS = 200_000
TRANSACTIONS = 5_000


def main() -> None:
    orders = int(sys.argv[1]) if len(sys.argv) > 1 else ORDERS
    with (
        tempfile.TemporaryDirectory() as scratch,
        Sandbox(Path(scratch) / "box", services=["mysql"]) as box,
        box.mysql.connect() as connection,
    ):
        seeded = seed_shop(connection, ShopSize(orders=orders))
        rows = sum(seeded.rows.values())
        print(f"seeded {rows} rows in {seeded.seconds:.1f} s: {seeded.rows_per_second:,.0f} rows/s")
        done = ShopWriter(box.mysql, rate=1e9, at_most=TRANSACTIONS).start().wait(timeout_seconds=600)
        print(f"wrote {done.rows} rows in {done.transactions} transactions: {done.transactions / done.seconds:,.0f}/s")


if __name__ == "__main__":
    main()
