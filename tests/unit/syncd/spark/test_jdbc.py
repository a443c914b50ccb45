import pytest

from syncd.settings import Secret, SourceSettings, Tls
from syncd.spark.jdbc import (
    NARROW_ROW_BYTES,
    as_subquery,
    build_connection_properties,
    build_jdbc_url,
    session_setup_statement,
)


def source(**further: object) -> SourceSettings:
    given: dict[str, object] = {"name": "s", "host": "db", "user": "sync", "password": Secret("geheim")}
    return SourceSettings(**{**given, **further})  # type: ignore[arg-type]  # each test passes fields of its own


@pytest.mark.parametrize("driver", ["mysql", "mariadb"])
def test_an_address_names_neither_user_nor_password(driver: str) -> None:
    assert "sync" not in build_jdbc_url(source(), driver=driver)
    assert "geheim" not in build_jdbc_url(source(), driver=driver)


def test_an_address_of_version_six_stands_in_brackets() -> None:
    assert build_jdbc_url(source(host="::1"), driver="mysql") == "jdbc:mysql://[::1]:3306/"


@pytest.mark.parametrize(
    ("driver", "tls", "told"),
    [
        ("mysql", Tls.VERIFY, "VERIFY_IDENTITY"),
        ("mysql", Tls.REQUIRE, "REQUIRED"),
        ("mariadb", Tls.VERIFY, "verify-full"),
        ("mariadb", Tls.REQUIRE, "trust"),
    ],
)
def test_each_driver_is_told_of_tls_in_its_own_words(driver: str, tls: Tls, told: str) -> None:
    properties = build_connection_properties(source(tls=tls), driver=driver, identity="u")

    assert properties["sslMode"] == told
    assert properties["allowPublicKeyRetrieval"] == "false"


def test_a_named_authority_is_the_only_one_that_is_trusted() -> None:
    of_connector_j = build_connection_properties(source(), driver="mysql", identity="u", trust_store="/run/ca.p12")

    assert of_connector_j["trustCertificateKeyStoreUrl"] == "file:/run/ca.p12"
    assert of_connector_j["fallbackToSystemTrustStore"] == "false"
    assert (
        build_connection_properties(source(), driver="mariadb", identity="u", trust_store="/ca.pem")["serverSslCert"]
        == "/ca.pem"
    )


def test_only_what_is_read_unweighed_bounds_its_rows() -> None:
    assert build_connection_properties(source(), driver="mysql", identity="u", only_narrow_rows=True)[
        "maxAllowedPacket"
    ] == str(NARROW_ROW_BYTES)
    assert "maxAllowedPacket" not in build_connection_properties(source(), driver="mysql", identity="u")


def test_an_identity_is_quoted() -> None:
    assert "= 'it''s', '+00:00'" in session_setup_statement(source(), "it's")


def test_a_statement_stands_where_spark_wants_a_table() -> None:
    assert as_subquery("SELECT 1") == "(SELECT 1) AS q"
