"""README tells the truth: its program runs, its commands exist, its links lead somewhere."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

import watermarks
from tests.builders import at
from tests.services.moto_server import moto_server
from watermarks import Journal, Stage, Watermark
from watermarks.stores.s3 import S3Store, create_s3_client

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


PRODUCER = """
from tests.builders import Script, at, upto
producer = Script(drafts=[upto(at({seconds}, 7))] if {seconds} else [])
"""


@pytest.fixture
def lake(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Store]:
    with moto_server() as endpoint:
        for name, value in {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }.items():
            monkeypatch.setenv(name, value)
        boto3.client("s3").create_bucket(Bucket="acme-lake")
        yield S3Store(create_s3_client(), bucket="acme-lake", prefix="state")


def run(program: str, *, seconds: int) -> str:
    """Run the program in a process of its own, which ends without giving anything back."""
    text = PRODUCER.format(seconds=seconds) + program
    done = subprocess.run([sys.executable, "-c", text], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.services
def test_the_program_advances_a_mark_on_s3_each_time_it_is_started(lake: S3Store) -> None:
    found = re.search(r"<!-- program:begin -->\n```python\n(.*?)```\n<!-- program:end -->", README, re.DOTALL)
    assert found
    assert len([line for line in found[1].splitlines() if line.strip()]) <= 10

    said = [run(found[1], seconds=seconds) for seconds in (1, 2, 0)]

    state = Journal(lake, Watermark).read("shop/shop.orders")
    assert state is not None
    assert (state.required_extract_progress.cursor, state.required_extract_progress.seq, state.epochs) == (
        at(2, 7),
        2,
        {Stage.EXTRACT: 3},
    )
    assert said == [str(at(1, 7)), str(at(2, 7)), "nothing new"]


def test_every_make_command_of_readme_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    for page in (README, (ROOT / "CONTRIBUTING.md").read_text()):
        assert set(re.findall(r"^\$ make ([a-z-]+)", page, re.MULTILINE)) <= targets


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", *(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
)
def test_every_link_of_a_page_leads_somewhere(page: str) -> None:
    path = ROOT / page
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_every_name_that_the_library_offers_is_there() -> None:
    assert watermarks.__all__ == sorted(
        watermarks.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name)
    )
    assert all(hasattr(watermarks, name) for name in watermarks.__all__)
