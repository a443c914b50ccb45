"""The statements that a landing would make or change its target by, told before it is looked at under its fence."""

from collections.abc import Sequence

from syncd.lake.manifest import Manifest
from syncd.lake.quarantine import replays_of
from syncd.redshift.column_types import TargetType
from syncd.redshift.quoting import TableRef
from syncd.redshift.target_table import (
    Found,
    add_statements,
    changes,
    create_statements,
    noted,
    require_no_ends,
    wanted_columns,
    widen_statements,
)
from syncd.settings import Mode, TargetSettings


def ddl_for(
    table: TableRef,
    found: Found | None,
    manifests: Sequence[Manifest],
    settings: TargetSettings,
    mode: Mode,
    *,
    about: str,
) -> tuple[str, ...]:
    """What makes the target take these files; of rows that nobody has read yet, texts are as narrow as can be.

    Raises:
        SchemaDrift: something stands in the way that only a person should change.
    """
    rows = [manifest for manifest in manifests if manifest.tombstones is None]
    if not rows:
        return ()
    # What a replay brings back was read with the columns of then.
    rows.sort(key=lambda manifest: replays_of(manifest.plan) is None)
    newest = rows[-1]
    cursor = next((each for each in newest.passages if each.name == newest.identity.cursor), None)
    own = noted(settings, mode, TargetType.of_text(cursor.redshift) if cursor else None)
    wanted = (*wanted_columns(rows), *own)
    if found is None:
        return create_statements(table, wanted, settings, about=about)
    require_no_ends(table, found, mode)
    # A table that somebody else made may go without columns of ours.
    kept = [column for column in wanted if column.name in found or not column.name.startswith("_syncd_")]
    lacking = changes(table, found, kept, now=wanted_columns([newest]))
    return (*widen_statements(table, lacking.widen), *add_statements(table, lacking.add))
