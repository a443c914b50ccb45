"""Time of `syncd sandbox up` once everything is fetched: new, with data, and while it runs.

python -m benchmarks.sandbox_up [ROUNDS]
"""

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ALLOWED = 10.0
ROUNDS = 5


def timed(*words: str) -> float:
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "syncd", "sandbox", *words], check=True, capture_output=True)  # noqa: S603  # our own command
    return time.monotonic() - began


def one_round() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        place = ("--dir", str(Path(scratch) / "box"))
        try:
            return {
                "up, new directory": timed("up", *place),
                "up, while it runs": timed("up", *place),
                "down": timed("down", *place),
                "up, with data": timed("up", *place),
            }
        finally:
            timed("down", *place)


def main() -> None:
    one_round()  # fetches missing files and warms the machine's caches
    rounds = [one_round() for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)]
    worst = 0.0
    for name in rounds[0]:
        taken = [found[name] for found in rounds]
        worst = max(worst, *taken)
        print(f"{name:20} median {statistics.median(taken):5.2f} s, slowest {max(taken):5.2f} s")
    print(f"allowed: {ALLOWED:.0f} s")
    sys.exit(worst > ALLOWED)


if __name__ == "__main__":
    main()
