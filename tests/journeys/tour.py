"""Plays the first hour and prints its page; how long each step took goes to stderr: `python -m tests.journeys.tour`."""

import sys
import tempfile
from pathlib import Path

from syncd.cli.output import print_message
from tests.journeys.page import page
from tests.journeys.playing import play_all, stage


def main() -> None:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o711)  # a server that root starts runs as nobody
        with stage(Path(directory)) as on:
            played = play_all(on, tell=print_message)
            sys.stdout.write(page(played, places=on.places))


if __name__ == "__main__":
    main()
