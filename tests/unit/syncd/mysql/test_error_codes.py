import socket
import ssl
from collections.abc import Iterator

import pymysql
import pytest
from pymysql.constants import CR, ER

from syncd.errors import SourceDown, SourceUnfit
from syncd.mysql.connection import map_driver_errors, map_error
from syncd.settings import Secret, SourceSettings
from watermarks.errors import HintedError

SETTINGS = SourceSettings(name="mysql", host="db", user="sync", password=Secret("hunter2"), database="shop")


def every_code() -> Iterator[tuple[str, int]]:
    for module in (ER, CR):
        names = (name for name in vars(module) if name.isupper())
        yield from ((f"{module.__name__}.{name}", getattr(module, name)) for name in names)


def every_class(root: type[Exception]) -> Iterator[type[Exception]]:
    yield root
    for child in root.__subclasses__():
        yield from every_class(child)


@pytest.mark.parametrize(("name", "code"), sorted(set(every_code())))
def test_every_number_that_the_driver_knows_has_a_group(name: str, code: int) -> None:
    error = map_error(pymysql.err.OperationalError(code, "told"), SETTINGS)

    assert isinstance(error, (SourceDown, SourceUnfit)), name
    assert error.facts["code"] == code
    assert "db:3306" in error.message
    assert "{" not in error.hint


@pytest.mark.parametrize("kind", sorted(every_class(pymysql.err.MySQLError), key=str))
@pytest.mark.parametrize("arguments", [(), ("only a text",), (0, ""), (2013, "lost"), (1045, "denied")])
def test_every_class_of_the_driver_has_a_group(kind: type[Exception], arguments: tuple[object, ...]) -> None:
    error = grouped(kind(*arguments))

    assert isinstance(error, SourceUnfit if arguments[:1] == (1045,) else SourceDown)
    assert error.message.strip()[-1] not in ".:"


@pytest.mark.parametrize(
    "code",
    [
        *[1040, 1053, 1080, 1158, 1159, 1203, 1205, 1213, 1290, 1317, 1836, 1927, 1969, 3024, 3032, 3169, 3854, 4031],
        *[2002, 2003, 2005, 2006, 2012, 2013, 2014, 2027, 2055],
    ],
)
def test_what_passes_by_itself_is_tried_again(code: int) -> None:
    assert isinstance(grouped(pymysql.err.OperationalError(code, "told")), SourceDown)


@pytest.mark.parametrize(
    "code",
    [
        *[1044, 1045, 1049, 1054, 1064, 1129, 1130, 1142, 1143, 1146, 1227, 1698, 1820, 1862, 3118, 3159, 4151],
        *[2007, 2026, 2049, 2059, 2061],
    ],
)
def test_what_a_person_has_to_mend_is_not_tried_again(code: int) -> None:
    assert isinstance(grouped(pymysql.err.OperationalError(code, "told")), SourceUnfit)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        ConnectionResetError(104, "Connection reset by peer"),
        TimeoutError("timed out"),
        socket.gaierror(-3, "Temporary failure in name resolution"),
        OSError(1045, "a number of the system that is one of MySQL's too"),
        ssl.SSLEOFError(8, "EOF occurred in violation of protocol"),
    ],
)
def test_what_the_network_says_passes_by_itself(error: OSError) -> None:
    assert isinstance(grouped(error), SourceDown)


def test_a_missing_right_names_the_grant() -> None:
    error = grouped(pymysql.err.OperationalError(1142, "SELECT command denied to user 'sync'@'%' for table 'orders'"))

    assert error.hint == "GRANT SELECT ON shop.* TO sync"


def test_no_password_is_told() -> None:
    error = grouped(pymysql.err.OperationalError(1045, "Access denied for user 'sync'@'%' (using password: YES)"))

    assert "hunter2" not in repr(error) + error.message + error.hint


def test_what_is_no_error_of_the_driver_passes_untouched() -> None:
    with pytest.raises(ZeroDivisionError), map_driver_errors(SETTINGS):
        raise ZeroDivisionError


def grouped(error: Exception) -> HintedError:
    with pytest.raises(HintedError) as caught, map_driver_errors(SETTINGS):
        raise error
    assert caught.value.__cause__ is error
    return caught.value
