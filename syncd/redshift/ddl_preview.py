"""The statements that a landing would make or change its target by, told before it is looked at under its fence."""

from collections.abc import Sequence

from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import parse_replay_fields
from syncd.redshift.column_types import TargetType
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import (
    ExistingTable,
    add_column_statements,
    create_table_statements,
    own_columns,
    plan_table_changes,
    require_no_ended_versions,
    required_columns,
    widen_column_statements,
)
from syncd.settings import Mode, TargetSettings


def preview_ddl(
    table: TableRef,
    existing: ExistingTable | None,
    manifests: Sequence[Manifest],
    settings: TargetSettings,
    mode: Mode,
    *,
    comment: str,
) -> tuple[str, ...]:
    """What makes the target take these files; of rows that nobody has read yet, texts are as narrow as can be.

    Raises:
        SchemaDrift: something stands in the way that only a person should change.
    """
    rows = [manifest for manifest in manifests if manifest.tombstones is None]
    if not rows:
        return ()
    # What a replay brings back was read with the columns of then.
    rows.sort(key=lambda manifest: parse_replay_fields(manifest.plan) is None)
    newest = rows[-1]
    cursor = next((each for each in newest.columns if each.name == newest.identity.cursor), None)
    own = own_columns(settings, mode, TargetType.from_text(cursor.redshift) if cursor else None)
    wanted = (*required_columns(rows), *own)
    if existing is None:
        return create_table_statements(table, wanted, settings, comment=comment)
    require_no_ended_versions(table, existing, mode)
    # A table that somebody else made may go without columns of ours.
    kept = [column for column in wanted if column.name in existing or not column.name.startswith("_syncd_")]
    lacking = plan_table_changes(table, existing, kept, newest_columns=required_columns([newest]))
    return (*widen_column_statements(table, lacking.widen), *add_column_statements(table, lacking.add))
