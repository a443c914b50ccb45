import pytest

from syncd.errors import NotReady
from syncd.sandbox.mysql import MySqlAddress, version_name


def test_an_address_survives_its_own_text() -> None:
    address = MySqlAddress(host="db", port=3307, user="a@b", password="p/:#é", database="shop")

    assert MySqlAddress.from_url(address.url) == address


def test_what_an_address_leaves_out_is_usual() -> None:
    assert MySqlAddress.from_url("mysql://db") == MySqlAddress(
        host="db", port=3306, user="root", password="", database="shop"
    )


@pytest.mark.parametrize("text", ["", "db:3306", "postgresql://db/shop", "mysql:///shop"])
def test_what_is_no_address_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(NotReady, match="not of the form"):
        MySqlAddress.from_url(text)


@pytest.mark.parametrize(("version", "name"), [("11.4.5-MariaDB", "MariaDB 11.4.5"), ("9.7.4-2", "MySQL 9.7.4")])
def test_servers_are_called_by_name_and_number(version: str, name: str) -> None:
    assert version_name(version) == name
