from pathlib import Path

import pytest
from pydantic import BaseModel

from syncd.config import model
from syncd.config.check import build_settings
from syncd.config.yaml_reader import parse_document

DOCS = (Path(__file__).parents[4] / "docs" / "reference" / "configuration.md").read_text()
PARTS = (
    model.Source,
    model.Tunnel,
    model.Lake,
    model.Warehouse,
    model.Iam,
    model.Spark,
    model.Daemon,
    model.Table,
    model.File,
)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.__name__)
def test_every_key_is_documented(part: type[BaseModel]) -> None:
    missing = [
        field.alias or name for name, field in part.model_fields.items() if f"`{field.alias or name}`" not in DOCS
    ]

    assert not missing


def test_the_example_is_accepted() -> None:
    example = DOCS.split("```yaml\n")[1].split("```")[0]

    environ = {"MYSQL_PASSWORD": "x", "REDSHIFT_PASSWORD": "y"}

    assert len(build_settings(parse_document(example, path="syncd.yaml", environ=environ)).streams) == 2
