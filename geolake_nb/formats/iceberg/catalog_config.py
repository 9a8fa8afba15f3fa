"""Catalogs by name: their properties in `.pyiceberg.yaml` and in the environment, as in PyIceberg."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import MissingDependencyError, OpenError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["configured_catalogs"]

_FILE = ".pyiceberg.yaml"
_PREFIX = "pyiceberg_catalog__"
_LARGEST = 1024 * 1024


def configured_catalogs(environment: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
    """The properties of every catalog that is configured, by name in lower case.

    The file is the first of `$PYICEBERG_HOME`, the home folder and the working directory; the environment takes
    precedence.

    >>> configured_catalogs({"HOME": "/none", "PYICEBERG_CATALOG__PROD__S3__ACCESS_KEY_ID": "me"})["prod"]
    {'s3.access-key-id': 'me'}
    """
    variables = os.environ if environment is None else environment
    catalogs = _from_files(variables)
    for name, value in variables.items():
        if not name.lower().startswith(_PREFIX):
            continue
        # PyIceberg: two underscores become a dot in the property, one becomes a dash.
        catalog, _, key = name.lower().removeprefix(_PREFIX).partition("__")
        if catalog and key:
            spelled = key.replace("__", ".").replace("_", "-")
            catalogs.setdefault(catalog.replace("_", "-"), {})[spelled] = value
    return catalogs


def _from_files(environment: Mapping[str, str]) -> dict[str, dict[str, str]]:
    folders = [environment.get("PYICEBERG_HOME"), environment.get("HOME") or str(Path.home()), str(Path.cwd())]
    for folder in folders:
        path = Path(folder, _FILE) if folder else None
        if path is not None and path.is_file():
            return _read(path)
    return {}


def _read(path: Path) -> dict[str, dict[str, str]]:
    try:
        import yaml  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDependencyError(
            "reading the configuration of catalogs needs PyYAML", where=str(path), remedy="run: pip install pyyaml"
        ) from None
    try:
        text = path.read_text("utf-8")
        if len(text) > _LARGEST:
            raise OpenError("the configuration is too large", where=str(path))
        content = yaml.safe_load(text)
    except (OSError, ValueError, RecursionError, yaml.YAMLError):
        # The error may quote a line of the file, and that line may contain a secret.
        raise OpenError("the configuration of catalogs is not valid YAML", where=str(path)) from None
    catalogs = content.get("catalog") if isinstance(content, dict) else None
    if not isinstance(catalogs, dict):
        return {}
    return {str(name).lower(): _flat(values) for name, values in catalogs.items() if isinstance(values, dict)}


def _flat(settings: dict[Any, Any]) -> dict[str, str]:
    values = {str(key).lower(): value for key, value in settings.items() if value is not None}
    return {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in values.items()}
