"""Older formats of the watermark to the current one, one step per version.

Documents of other tools are not older formats: `legacy` reads those, for an
import only, so that a damaged current document never passes for an old one.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

UPGRADE_STEPS: Final[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {}
"""From version N to N + 1. Version 1 is the first."""


def upgrade_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """The content in the current version's words."""
    while step := UPGRADE_STEPS.get(fields["format_version"]):
        fields = step(fields) | {"format_version": fields["format_version"] + 1}
    return fields
