"""SET, RESET and SHOW of the settings that a Redshift session has."""

import re
from typing import Final

from syncd.sandbox.redshift.backend import quote_literal
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, syntax_error
from syncd.sandbox.redshift.sql.plan import StatementPlan
from syncd.sandbox.redshift.sql.statement_editor import postgres_name
from syncd.sandbox.redshift.sql.tokens import LongNames, Token, TokenKind, TokenReader, fold_name

OFF_VALUES: Final = frozenset({"off", "false", "0", "no", "f", "n", "of", "default"})
ON_VALUES: Final = frozenset({"on", "true", "1", "yes", "t", "y"})
ONE_MATCH_SETTING: Final = "error_on_nondeterministic_update"
ONE_MATCH_SQL: Final = f"SELECT pg_catalog.current_setting('redshift.{ONE_MATCH_SETTING}', true)"
SHARED_SETTINGS: Final = frozenset(
    [
        "statement_timeout",
        "application_name",
        "timezone",
        "datestyle",
        "extra_float_digits",
        "client_encoding",
        "client_min_messages",
    ]
)
REDSHIFT_SETTINGS: Final = {
    "query_group": "unset",
    "wlm_query_slot_count": "1",
    "enable_result_cache_for_session": "on",
    "enable_case_sensitive_identifier": "off",
    "enable_large_strings_opt_in": "off",
    ONE_MATCH_SETTING: "off",
    "analyze_threshold_percent": "10",
    "json_parse_truncate_strings": "off",
    "describe_field_name_in_uppercase": "off",
}
FIXED_SETTINGS: Final = frozenset(
    {
        "enable_case_sensitive_identifier",
        "enable_large_strings_opt_in",
        "json_parse_truncate_strings",
        "describe_field_name_in_uppercase",
    }
)
UNICODE_ENCODINGS: Final = frozenset({"utf8", "utf-8", "unicode"})
SERVER_VERSION: Final = "8.0.2"
TIMEOUT_PATTERN: Final = re.compile(r"\d+")


def plan_set(reader: TokenReader, names: LongNames) -> StatementPlan:
    reader.expect("SET")
    if reader.is_next("SESSION", "AUTHORIZATION") or reader.is_next("SESSION", "CHARACTERISTICS"):
        raise not_in_stand_in("SET SESSION AUTHORIZATION")
    if reader.is_next("TRANSACTION"):
        raise not_in_stand_in("SET TRANSACTION")
    scope = "LOCAL " if reader.accept("LOCAL") else ""
    reader.accept("SESSION")
    name = _read_name(reader)
    if not reader.accept("TO"):
        reader.expect_mark("=")
    if name == "search_path":
        return StatementPlan(sql=f"SET {scope}search_path TO {_read_schemas(reader, names)}")
    value = _read_value(reader)
    reader.expect_end()
    _check_value(name, value)
    return StatementPlan(sql=f"SET {scope}{_postgres_setting(name)} TO {quote_literal(value)}")


def plan_reset(reader: TokenReader, _: LongNames) -> StatementPlan:
    reader.expect("RESET")
    name = _read_name(reader)
    reader.expect_end()
    if name in REDSHIFT_SETTINGS:
        return StatementPlan(
            sql=f"SET {_postgres_setting(name)} TO {quote_literal(REDSHIFT_SETTINGS[name])}", tag="RESET"
        )
    return StatementPlan(sql=f"RESET {_postgres_setting(name)}")


def plan_show(reader: TokenReader, _: LongNames) -> StatementPlan:
    reader.expect("SHOW")
    name = _read_name(reader)
    reader.expect_end()
    if name in REDSHIFT_SETTINGS:
        default = quote_literal(REDSHIFT_SETTINGS[name])
        current = f"nullif(current_setting('{_postgres_setting(name)}', true), '')"
        sql = f"SELECT coalesce({current}, {default})::varchar AS {name}"
        return StatementPlan(sql=sql, tag="SHOW")
    if name == "server_version":
        return StatementPlan(sql=f"SELECT {quote_literal(SERVER_VERSION)}::varchar AS server_version", tag="SHOW")
    return StatementPlan(sql=f"SHOW {_postgres_setting(name)}")


def _read_name(reader: TokenReader) -> str:
    token = reader.next()
    if token.kind not in {TokenKind.WORD, TokenKind.QUOTED}:
        raise syntax_error(token.raw)
    name = fold_name(token.text if token.kind is TokenKind.QUOTED else token.raw)
    if reader.accept("ZONE") and name == "time":
        name = "timezone"
    if (
        name not in SHARED_SETTINGS
        and name not in REDSHIFT_SETTINGS
        and name not in {"search_path", "server_version", "all"}
    ):
        raise Refusal("42704", f'unrecognized configuration parameter "{name}"')
    return name


def _postgres_setting(name: str) -> str:
    return f"redshift.{name}" if name in REDSHIFT_SETTINGS else name


def _read_value(reader: TokenReader) -> str:
    token = reader.next()
    if token.is_mark("-"):
        return "-" + reader.next().text
    return token.raw.lower() if token.kind is TokenKind.WORD else token.text


def _check_value(name: str, value: str) -> None:
    if name in FIXED_SETTINGS and value.lower() not in OFF_VALUES:
        raise not_in_stand_in(f"{name} TO {value}")
    if name == ONE_MATCH_SETTING and value.lower() not in ON_VALUES | OFF_VALUES:
        raise Refusal("22023", f'parameter "{name}" requires a Boolean value')
    if name == "client_encoding" and value.lower() not in UNICODE_ENCODINGS:
        raise not_in_stand_in(f"client_encoding TO {value}")
    if name == "statement_timeout" and not TIMEOUT_PATTERN.fullmatch(value):
        raise Refusal("22023", f'parameter "statement_timeout" requires an integer value, not "{value}"')


def _read_schemas(reader: TokenReader, names: LongNames) -> str:
    listed = [_schema_name(reader.next(), names)]
    while reader.accept_mark(","):
        listed.append(_schema_name(reader.next(), names))
    reader.expect_end()
    return ", ".join(listed)


def _schema_name(token: Token, names: LongNames) -> str:
    if token.kind is TokenKind.MARK or token.kind is TokenKind.NUMBER:
        raise syntax_error(token.raw)
    return postgres_name([fold_name(token.text if token.kind is not TokenKind.WORD else token.raw)], names)
