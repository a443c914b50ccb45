import tomllib
from collections.abc import Iterator
from importlib import import_module
from inspect import getdoc
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]


def folder_rows() -> Iterator[str]:
    for module in _modules():
        if (ROOT / module.replace(".", "/")).is_dir():
            yield f"- `{module.replace('.', '/')}/`: {_summary(module)}"


def _summary(module: str) -> str:
    return (getdoc(import_module(module)) or "").partition("\n\n")[0].replace("\n", " ").removesuffix(".")


def _modules() -> Iterator[str]:
    """Yield the modules of the layers in pyproject.toml, from the top layer to the lowest."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    layers = next(contract["layers"] for contract in contracts if contract["type"] == "layers")
    for layer in layers:
        yield from (module.strip() for module in layer.split("|"))
