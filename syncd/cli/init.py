"""`syncd init`: proposal of a commented configuration from a live schema."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from syncd.cli.option_types import DEFAULT_CONFIG_PATH, json_option
from syncd.cli.output import print_message, show_json
from syncd.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from syncd.config.first_file import ConfigAddresses
    from syncd.mysql.cursor_proposal import TableProposal
    from syncd.settings import SourceSettings

_URL_WITH_PASSWORD: Final = re.compile(r"^(\w+://)([^:@/?#]*):(.*)@(?=[^@]*$)")


@click.command()
@click.argument("mysql_url")
@click.option("--lake", metavar="S3_URL", help="The lake for Parquet files: s3://bucket/prefix.")
@click.option("--warehouse", metavar="REDSHIFT_URL", help="redshift://user:password@host:5439/database.")
@click.option("--zone", help="The session time zone of the writers, such as UTC.")
@click.option(
    "--tls",
    type=click.Choice(["disable", "prefer", "require", "verify"]),
    help="Encryption and verification of the connection to MySQL.",
)
@click.option("--ca", type=click.Path(), help="A PEM file of trusted certificate authorities.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default=DEFAULT_CONFIG_PATH,
    show_default=True,
    help="The file to write; it must not exist.",
)
@json_option
def init(  # each is an option
    mysql_url: str,
    lake: str | None,
    warehouse: str | None,
    zone: str | None,
    tls: str | None,
    ca: str | None,
    output: Path,
    as_json: bool,
) -> None:
    """Read the live schema, and write a commented syncd.yaml.

    \b
    Examples:
      syncd init 'mysql://sync:${MYSQL_PASSWORD}@db.internal/shop'
      syncd init mysql://sync:secret@db/shop --lake s3://acme-lake/syncd -o shop.yaml

    Proposes cursor, mode, schedule and layout for each table, with the evidence, and lists what it could not prove.
    Reads no table completely, changes nothing, overwrites no file, and writes no password.
    """
    from syncd.config.first_file import ConfigAddresses, render_config
    from syncd.mysql.table_survey import survey_source

    _require_absent(output)
    options = {key: value for key, value in (("tls", tls), ("ca", ca), ("zone", zone)) if value}
    survey = survey_source(_source_settings(mysql_url, options, config_path=output))
    addresses = ConfigAddresses(
        source={"url": _mask_password(mysql_url, "MYSQL_PASSWORD"), **options},
        lake=lake,
        warehouse=_mask_password(warehouse, "REDSHIFT_PASSWORD") if warehouse else None,
    )
    proposals = [_check_proposal(one, addresses) for one in survey.proposals]
    if not any(not one.omitted_reason for one in proposals):
        reasons = "; ".join(f"{one.table}: {one.omitted_reason}" for one in proposals) or "no tables are visible"
        raise ConfigError(
            f"nothing can be proposed: {reasons}", hint="Check that this user may SELECT from the tables."
        )
    _write_new_file(
        output, render_config(addresses, proposals, oldest_transaction_seconds=survey.oldest_transaction_seconds)
    )
    _show(output, proposals, as_json=as_json)


def _require_absent(path: Path) -> None:
    if path.exists():
        raise ConfigError(f"{path} already exists and is never overwritten", hint="Name another file: -o FILE.")


def _write_new_file(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        _require_absent(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be written: {error.strerror}") from error


def _source_settings(url: str, options: dict[str, str], *, config_path: Path) -> "SourceSettings":
    """Build the source settings as a configuration with this url would."""
    import json

    from syncd.config.check import build_settings
    from syncd.config.yaml_reader import parse_document

    body = json.dumps({"source": {"url": url, **options}, "lake": {"url": "s3://-"}, "tables": {"-.-": None}})
    return build_settings(parse_document(body, path=str(config_path), environ=os.environ)).sources[0]


def _mask_password(url: str, variable: str) -> str:
    """Return the address with a reference in place of a plain password."""
    found = _URL_WITH_PASSWORD.match(url)
    if found is None or "${" in found[3]:
        return url
    print_message(f"the file refers to the password as ${{{variable}}}: export {variable}=...")
    return f"{found[1]}{found[2]}:${{{variable}}}@{url[found.end() :]}"


def _check_proposal(proposal: "TableProposal", addresses: "ConfigAddresses") -> "TableProposal":
    """Return the proposal; omitted, with the reason, where the configuration would refuse it."""
    from dataclasses import replace

    from syncd.config.check import build_settings
    from syncd.config.first_file import render_config
    from syncd.config.mistakes import Misconfigured
    from syncd.config.yaml_reader import parse_document

    if proposal.omitted_reason:
        return proposal
    environ = dict.fromkeys(re.findall(r"\$\{(\w+)\}", f"{addresses}"), "x")
    try:
        build_settings(
            parse_document(
                render_config(addresses, [proposal], oldest_transaction_seconds=None),
                path="syncd.yaml",
                environ={**os.environ, **environ},
            )
        )
    except Misconfigured as error:
        tables = [mistake for mistake in error.mistakes if mistake.key.startswith("tables")]
        if not tables:
            raise
        return replace(proposal, omitted_reason=tables[0].description)
    return proposal


def _show(path: Path, proposals: "Sequence[TableProposal]", *, as_json: bool) -> None:
    taken = [one for one in proposals if not one.omitted_reason]
    omitted = [one for one in proposals if one.omitted_reason]
    if as_json:
        tables = [
            {"table": one.table, "config": one.entry, "reasons": one.reasons, "unproven": one.doubts} for one in taken
        ]
        out = [{"table": one.table, "reason": one.omitted_reason} for one in omitted]
        show_json({"file": str(path), "tables": tables, "left_out": out})
        return
    for one in taken:
        doubt = f"; not proven: {'; '.join(one.doubts)}" if one.doubts else ""
        click.echo(f"{one.table}: {_describe_proposal(one)}{doubt}")
    for one in omitted:
        click.echo(f"{one.table}: left out: {one.omitted_reason}")
    click.echo(f"{path} was written. Next: syncd config check, then syncd doctor")


def _describe_proposal(proposal: "TableProposal") -> str:
    mode, cursor = proposal.entry.get("mode", "upsert"), proposal.entry.get("cursor", "update_at")
    return f"{mode}, each run reads the whole table" if cursor == "none" else f"{mode} by {cursor}"
