"""SET, RESET and SHOW: the settings a Redshift session has."""

import re
from typing import Final

from syncd.sandbox.redshift.backend import literal
from syncd.sandbox.redshift.refusal import Refusal, not_in_stand_in, syntax_error
from syncd.sandbox.redshift.sql.identifiers import LongNames, folded
from syncd.sandbox.redshift.sql.plan import Plan
from syncd.sandbox.redshift.sql.statement_editor import name_behind
from syncd.sandbox.redshift.sql.tokens import Kind, Reader, Token

OFF: Final = frozenset({"off", "false", "0", "no", "f", "n", "of", "default"})
ON: Final = frozenset({"on", "true", "1", "yes", "t", "y"})
ONE_MATCH: Final = "error_on_nondeterministic_update"
ONE_MATCH_SQL: Final = f"SELECT pg_catalog.current_setting('redshift.{ONE_MATCH}', true)"
SHARED: Final = frozenset(
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
REDSHIFT_ONLY: Final = {
    "query_group": "unset",
    "wlm_query_slot_count": "1",
    "enable_result_cache_for_session": "on",
    "enable_case_sensitive_identifier": "off",
    "enable_large_strings_opt_in": "off",
    ONE_MATCH: "off",
    "analyze_threshold_percent": "10",
    "json_parse_truncate_strings": "off",
    "describe_field_name_in_uppercase": "off",
}
FIXED: Final = frozenset(
    {
        "enable_case_sensitive_identifier",
        "enable_large_strings_opt_in",
        "json_parse_truncate_strings",
        "describe_field_name_in_uppercase",
    }
)
UNICODE: Final = frozenset({"utf8", "utf-8", "unicode"})
VERSION: Final = "8.0.2"
TIMEOUT: Final = re.compile(r"\d+")


def plan_set(reader: Reader, names: LongNames) -> Plan:
    reader.expect("SET")
    if reader.sees("SESSION", "AUTHORIZATION") or reader.sees("SESSION", "CHARACTERISTICS"):
        raise not_in_stand_in("SET SESSION AUTHORIZATION")
    if reader.sees("TRANSACTION"):
        raise not_in_stand_in("SET TRANSACTION")
    scope = "LOCAL " if reader.takes("LOCAL") else ""
    reader.takes("SESSION")
    name = _name(reader)
    if not reader.takes("TO"):
        reader.expect_mark("=")
    if name == "search_path":
        return Plan(sql=f"SET {scope}search_path TO {_schemas(reader, names)}")
    value = _value(reader)
    reader.expect_end()
    _check(name, value)
    return Plan(sql=f"SET {scope}{_behind(name)} TO {literal(value)}")


def plan_reset(reader: Reader, _: LongNames) -> Plan:
    reader.expect("RESET")
    name = _name(reader)
    reader.expect_end()
    if name in REDSHIFT_ONLY:
        return Plan(sql=f"SET {_behind(name)} TO {literal(REDSHIFT_ONLY[name])}", tag="RESET")
    return Plan(sql=f"RESET {_behind(name)}")


def plan_show(reader: Reader, _: LongNames) -> Plan:
    reader.expect("SHOW")
    name = _name(reader)
    reader.expect_end()
    if name in REDSHIFT_ONLY:
        default = literal(REDSHIFT_ONLY[name])
        sql = f"SELECT coalesce(nullif(current_setting('{_behind(name)}', true), ''), {default})::varchar AS {name}"
        return Plan(sql=sql, tag="SHOW")
    if name == "server_version":
        return Plan(sql=f"SELECT {literal(VERSION)}::varchar AS server_version", tag="SHOW")
    return Plan(sql=f"SHOW {_behind(name)}")


def _name(reader: Reader) -> str:
    token = reader.next()
    if token.kind not in {Kind.WORD, Kind.QUOTED}:
        raise syntax_error(token.raw)
    name = folded(token.text if token.kind is Kind.QUOTED else token.raw)
    if reader.takes("ZONE") and name == "time":
        name = "timezone"
    if name not in SHARED and name not in REDSHIFT_ONLY and name not in {"search_path", "server_version", "all"}:
        raise Refusal("42704", f'unrecognized configuration parameter "{name}"')
    return name


def _behind(name: str) -> str:
    return f"redshift.{name}" if name in REDSHIFT_ONLY else name


def _value(reader: Reader) -> str:
    token = reader.next()
    if token.is_mark("-"):
        return "-" + reader.next().text
    return token.raw.lower() if token.kind is Kind.WORD else token.text


def _check(name: str, value: str) -> None:
    if name in FIXED and value.lower() not in OFF:
        raise not_in_stand_in(f"{name} TO {value}")
    if name == ONE_MATCH and value.lower() not in ON | OFF:
        raise Refusal("22023", f'parameter "{name}" requires a Boolean value')
    if name == "client_encoding" and value.lower() not in UNICODE:
        raise not_in_stand_in(f"client_encoding TO {value}")
    if name == "statement_timeout" and not TIMEOUT.fullmatch(value):
        raise Refusal("22023", f'parameter "statement_timeout" requires an integer value, not "{value}"')


def _schemas(reader: Reader, names: LongNames) -> str:
    listed = [_schema(reader.next(), names)]
    while reader.takes_mark(","):
        listed.append(_schema(reader.next(), names))
    reader.expect_end()
    return ", ".join(listed)


def _schema(token: Token, names: LongNames) -> str:
    if token.kind is Kind.MARK or token.kind is Kind.NUMBER:
        raise syntax_error(token.raw)
    return name_behind([folded(token.text if token.kind is not Kind.WORD else token.raw)], names)
