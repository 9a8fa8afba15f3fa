"""The bridge is put into PyIceberg and taken out again, and nothing else imports PyIceberg."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata

import pytest
from pyiceberg import manifest, schema, types
from pyiceberg.catalog import rest
from pyiceberg.expressions import (
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    In,
    IsNull,
    Not,
    Or,
    StartsWith,
    visitors,
)
from pyiceberg.io import pyarrow as pia
from pyiceberg.table import CommitTableRequest, StaticTable, Transaction, inspect, update
from pyiceberg.table import metadata as table_metadata
from pyiceberg.table.update import snapshot

import geolake_nb.pyiceberg as geo
from geolake_nb.errors import MissingDependencyError, UnsupportedTableError
from tests.pyiceberg.geo_rows import make_table, rows

MODULES = (manifest, schema, types, rest, visitors, pia, inspect, update, table_metadata, snapshot)


def everything():
    """Each function and class attribute of the modules that the bridge touches."""
    state = {}
    for module in (*MODULES, sys.modules[Transaction.__module__]):
        for name, value in vars(module).items():
            state[module.__name__, name] = value
            if isinstance(value, type):
                state |= {(module.__name__, name, key): part for key, part in vars(value).items() if callable(part)}
    state["code"] = BooleanExpression.handle_primitive_type.__func__.__code__
    return state


def test_disable_takes_out_all_that_enable_put_in():
    geo.disable()
    before = everything()
    geo.enable()
    assert everything() != before
    geo.disable()
    after = everything()
    assert after.keys() == before.keys()
    # Methods of classes are made anew each time that they are asked for, and compare as equal.
    assert [key for key in before if after[key] is not before[key] and after[key] != before[key]] == []


def test_enable_and_disable_may_be_called_again():
    geo.enable()
    once = everything()
    geo.enable()
    assert everything() == once
    geo.disable()
    geo.disable()
    assert not geo.is_enabled()


def test_a_release_that_was_not_tested_is_refused(monkeypatch):
    monkeypatch.setattr(metadata, "version", lambda name: "0.13.0")
    with pytest.raises(UnsupportedTableError, match=r"not tested with PyIceberg 0\.13\.0; install one of: 0\.12\.0"):
        geo.enable()
    assert not geo.is_enabled()


def test_a_missing_pyiceberg_is_named(monkeypatch):
    def absent(name):
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", absent)
    with pytest.raises(MissingDependencyError, match=r"geolake-nb\[pyiceberg\]"):
        geo.enable()


def test_nothing_is_imported_that_is_not_used():
    code = (
        "import sys, geolake_nb, geolake_nb.pyiceberg as geo; assert 'pyiceberg' not in sys.modules;"
        "geo.extract_envelope_from_wkb(bytes.fromhex('0101000000' + '00' * 16));"
        "assert 'pyiceberg' not in sys.modules; assert not any(name.startswith('pyspark') for name in sys.modules);"
        "geo.enable(); assert not any(name.startswith('pyspark') for name in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("geometry", types.GeometryType()),
        ("geometry(OGC:CRS84)", types.GeometryType()),
        ("geometry(EPSG:3857)", types.GeometryType("EPSG:3857")),
        ("geometry('EPSG:3857')", types.GeometryType("EPSG:3857")),
        ("geography", types.GeographyType()),
        ("geography(OGC:CRS84)", types.GeographyType()),
        ("geography(OGC:CRS84, spherical)", types.GeographyType()),
        ("geography(srid:4326, karney)", types.GeographyType("srid:4326", "karney")),
        ("geography('EPSG:4326', 'karney')", types.GeographyType("EPSG:4326", "karney")),
    ],
)
def test_both_forms_of_a_type_are_read(bridge, text, read):
    assert types.IcebergType.model_validate(text) == read
    field = types.NestedField.model_validate({"id": 1, "name": "g", "required": False, "type": text})
    assert field.field_type == read


@pytest.mark.parametrize("text", ["geometry()", "geometry(EPSG:1", "geography(EPSG:4326, straight)", "geometryx"])
def test_other_texts_are_refused_as_before(bridge, text):
    with pytest.raises(Exception, match="Could not parse"):
        types.IcebergType.model_validate(text)


def test_the_form_of_java_is_written_into_metadata_requests_and_manifests(bridge, catalog):
    table = make_table(catalog)
    table.append(rows(0))
    written = table.io.new_input(table.metadata_location).open().read().decode()
    assert '"type":"geometry(OGC:CRS84)"' in written
    assert '"type":"geography(OGC:CRS84, spherical)"' in written
    request = CommitTableRequest(
        identifier={"namespace": ["ns"], "name": "t"},
        requirements=(),
        updates=(update.AddSchemaUpdate(schema=table.schema()),),
    )
    assert '"type":"geometry(OGC:CRS84)"' in request.model_dump_json()
    (listed,) = table.current_snapshot().manifests(table.io)
    assert b'"type":"geometry(OGC:CRS84)"' in table.io.new_input(listed.manifest_path).open().read()


def test_a_table_opens_by_its_metadata_file(bridge, catalog):
    table = make_table(catalog)
    table.append(rows(0))
    opened = StaticTable.from_metadata(table.metadata_location)
    assert opened.schema() == table.schema()
    assert opened.scan().to_arrow().num_rows == 3


def test_tables_of_version_2_are_written_as_before(catalog):
    def written(name):
        table = catalog.create_table(name, schema=rows(0).select(["id", "name"]).schema)
        table.append(rows(0).select(["id", "name"]))
        table.overwrite(rows(5).select(["id", "name"]), EqualTo("id", 1))
        listed = table.current_snapshot().manifests(table.io)
        entries = [entry for file in listed for entry in file.fetch_manifest_entry(table.io)]
        columns = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts", "lower_bounds")
        return (
            table.metadata.format_version,
            [len(file) for file in listed],
            [[getattr(entry.data_file, column) for column in (*columns, "upper_bounds")] for entry in entries],
            [len(entry.data_file) for entry in entries],
            table.scan().to_arrow().sort_by("id").to_pylist(),
        )

    alone = written("ns.alone")
    geo.enable()
    try:
        assert written("ns.bridged") == alone
    finally:
        geo.disable()


def public_behaviour():
    """A sample of what PyIceberg does where no geo column is concerned."""
    plain = [
        types.BooleanType(), types.IntegerType(), types.LongType(), types.FloatType(), types.DoubleType(),
        types.DecimalType(9, 2), types.DateType(), types.TimeType(), types.TimestampType(), types.TimestamptzType(),
        types.StringType(), types.UUIDType(), types.BinaryType(), types.FixedType(3),
        types.ListType(9, types.StringType()), types.StructType(types.NestedField(8, "x", types.LongType())),
    ]  # fmt: skip
    fields = [types.NestedField(100 + number, f"c{number}", type_) for number, type_ in enumerate(plain)]
    table = schema.Schema(*fields)
    filters = [
        EqualTo("c1", 1), Or(IsNull("c10"), In("c2", [1, 2])), Not(And(GreaterThan("c4", 1.5), StartsWith("c10", "a"))),
    ]  # fmt: skip
    yield table.model_dump_json()
    yield str(pia.schema_to_pyarrow(table))
    yield repr(pia._pyarrow_to_schema_without_ids(pia.schema_to_pyarrow(table, include_field_ids=False)))
    yield [(str(type_), repr(type_), type_.model_dump_json()) for type_ in (*plain, *GEO)]
    for filter_ in filters:
        yield filter_.model_dump_json()
        yield repr(BooleanExpression.model_validate_json(filter_.model_dump_json()))
        bound = visitors.bind(table, visitors.rewrite_not(filter_), case_sensitive=True)
        yield repr(bound)
        yield str(pia.expression_to_pyarrow(bound))
        yield visitors.extract_field_ids(bound)
        yield repr(visitors.translate_column_names(bound, table))
    for value in ("no type", "geometry(", {"type": "st-nothing", "term": "c1"}, {"type": "eq"}):
        model = types.IcebergType if isinstance(value, str) else BooleanExpression
        with pytest.raises((ValueError, TypeError, types.ValidationError)) as caught:
            model.model_validate(value)
        yield type(caught.value).__name__


GEO = (types.GeometryType(), types.GeometryType("EPSG:3857"), types.GeographyType("EPSG:4326", "planar"))


def test_public_behaviour_elsewhere_is_the_same():
    geo.disable()
    alone = list(public_behaviour())
    geo.enable()
    try:
        assert list(public_behaviour()) == alone
    finally:
        geo.disable()
    assert list(public_behaviour()) == alone
