"""Which collations Spark has, in which version, and whether it reads a schema as intended."""

from __future__ import annotations

import difflib
import json
from typing import TYPE_CHECKING, Any

from geolake_nb.errors import CollationError, GeolakeError, RefusedError
from geolake_nb.formats.delta.schema import from_delta_schema
from geolake_nb.model.collation import Collation
from geolake_nb.model.schema import join_path
from geolake_nb.model.types import is_geo_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

__all__ = ["check_schema", "known_collations", "spark_collations"]

_SHOWN = 5


def spark_collations(spark: SparkSession) -> dict[Collation, str]:
    """Every collation that Spark has, with the version by which it compares."""
    rows = spark.sql("SELECT NAME, ICU_VERSION FROM collations()").collect()
    # Spark's own collations fold case by the tables of ICU and go by its version, which the list leaves out.
    icu = next((row["ICU_VERSION"] for row in rows if row["ICU_VERSION"]), None)
    if icu is None:
        raise GeolakeError("Spark does not report its ICU version", remedy="use Spark 4.0 or later")
    return {Collation("icu" if row["ICU_VERSION"] else "spark", row["NAME"]): row["ICU_VERSION"] or icu for row in rows}


def known_collations(spark: SparkSession, wanted: Mapping[tuple[str, ...], Collation]) -> dict[Collation, str]:
    """Spark's version of each collation; one that Spark does not have, or calls by another name, is refused.

    `wanted` goes by the path of the string.
    """
    known = spark_collations(spark)
    for path, collation in wanted.items():
        if collation not in known:
            raise CollationError(
                f"Spark has no collation {collation}", where=join_path(path), remedy=_near(collation, known)
            )
    return {collation: known[collation] for collation in wanted.values()}


def check_schema(spark: SparkSession, schema: str, wanted: Mapping[tuple[str, ...], Collation]) -> None:
    """Raise unless Spark's parser reads the schema and finds these collations in it."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        raise RefusedError(
            "the schema is checked in the session's JVM, which Spark Connect does not expose",
            remedy="use a classic session",
        )
    from py4j.protocol import Py4JJavaError

    try:
        read = jvm.org.apache.spark.sql.types.DataType.fromJson(_without_geo(schema)).json()
    except Py4JJavaError as problem:
        text = str(problem.java_exception.toString()).splitlines()[0][:300]
        raise CollationError(f"Spark cannot read the schema with its collations: {text}") from None
    fields = dict(from_delta_schema(read).walk_parts())
    for path, collation in wanted.items():
        kept = getattr(fields[path].type, "collation", None)
        if kept != collation:
            raise CollationError(
                f"Spark reads the collation {collation} as {kept or 'none'}",
                where=join_path(path),
                remedy=None if kept is None else f"use {kept}",
            )


def _near(collation: Collation, known: Iterable[Collation]) -> str:
    """Suggestions: the same name in Spark's own spelling, else the names that are close to it."""
    names = {other.name.casefold(): other for other in known if not other.is_default}
    name = collation.name.casefold()
    parts = sorted(name.split("_"))
    same = [other for folded, other in names.items() if folded == name or sorted(folded.split("_")) == parts]
    close = [names[match] for match in difflib.get_close_matches(name, names, n=_SHOWN, cutoff=0.5)]
    shown = same or close
    if not shown:
        return "SELECT * FROM collations() lists Spark's names"
    return f"use one of: {', '.join(sorted(str(other) for other in shown))}"


def _without_geo(schema: str) -> str:
    """The schema with plain binary for geo types: Spark knows few of their CRSs, and they are not the question."""

    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(item) for item in value]
        if not isinstance(value, dict):
            return "binary" if isinstance(value, str) and is_geo_text(value) else value
        types = ("type", "fields", "elementType", "keyType", "valueType")
        return {key: plain(item) if key in types else item for key, item in value.items()}

    return json.dumps(plain(json.loads(schema)), ensure_ascii=False)
