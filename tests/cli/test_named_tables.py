"""Tables that are named on the command line, by each command alike."""

from pathlib import Path

import pytest

from syncd.app.operator_context import OperatorContext
from syncd.cli.stream_selection import select_configured_streams, select_streams
from syncd.config.check import read_settings
from syncd.errors import ConfigError
from syncd.settings import Settings

TWO_SHARDS = """sources:
  eu: {url: "mysql://sync:x@eu/shop", zone: UTC}
  us: {url: "mysql://sync:x@us/shop", zone: UTC}
lake: {url: "s3://acme/lake", region: us-east-1}
tables:
  orders: {source: eu, target: eu_orders}
  shop.orders: {source: us}
  items: {source: us}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    path = tmp_path / "syncd.yaml"
    path.write_text(TWO_SHARDS)
    return read_settings(path, {})


def chosen(settings: Settings, name: str) -> list[tuple[str, str]]:
    """The source and the table, as every kind of command finds them."""
    by_run = [(one.source, one.table) for one in select_configured_streams(settings, [name], all_=False)]
    with OperatorContext(settings) as desk:
        by_desk = [(one.stream.source, one.stream.table) for one in select_streams(desk.settings, [name], all_=False)]
    assert by_run == by_desk
    return by_run


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("items", ("us", "items")),
        ("shop.items", ("us", "items")),
        ("us/shop.items", ("us", "items")),
        ("eu/shop.orders", ("eu", "orders")),
        ("us/shop.orders", ("us", "orders")),
    ],
)
def test_a_table_is_found_by_each_of_its_names(settings: Settings, name: str, found: tuple[str, str]) -> None:
    assert chosen(settings, name) == [found]


def test_a_name_of_two_tables_is_refused_with_names_that_work(settings: Settings) -> None:
    with pytest.raises(ConfigError, match=r"2 tables: eu/shop\.orders, us/shop\.orders") as refused:
        select_configured_streams(settings, ["shop.orders"], all_=False)

    assert refused.value.hint == "Write source/database.table."
