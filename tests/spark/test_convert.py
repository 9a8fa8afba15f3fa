"""Parquet and GeoParquet files become Delta tables: real ones of other projects, and made ones for each rule."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import geopandas as gpd
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import shapely

import geolake_nb as gl
from geolake_nb.errors import GeolakeError, JobError, RefusedError, SchemaError
from tests.spark.geo_rows import SHAPES, assert_bounds_are_sound, iso, logical_types, rows_of

pytestmark = pytest.mark.spark


def plan(source, target, **options):
    return gl.open(str(source)).plan_convert(str(target), **options)


def geo(columns, **more):
    made = {name: {"encoding": "WKB", "geometry_types": [], **facts} for name, facts in columns.items()}
    return {
        b"geo": json.dumps({"version": "1.1.0", "primary_column": next(iter(made)), "columns": made, **more}).encode()
    }


def wkbs(texts):
    return pa.array([iso(text) for text in texts], pa.binary())


def source_shapes(path, column) -> Counter:
    """The shapes of a file by geopandas or, where the file says nothing of them, by shapely, as WKT."""
    file = pq.ParquetFile(path, arrow_extensions_enabled=False)
    geo_text = (file.metadata.metadata or {}).get(b"geo")
    kind = json.loads(geo_text)["columns"].get(column, {}).get("encoding", "WKB") if geo_text else "WKB"
    if kind != "WKB":
        twin = Path(str(path).replace("encoding_native", "encoding_wkb"))
        if twin == Path(path):
            return Counter(map(str, gpd.read_parquet(path)[column]))
        file = pq.ParquetFile(twin, arrow_extensions_enabled=False)
    values = file.read(columns=[column]).column(0).to_pylist()
    return Counter(map(str, shapely.from_wkb(np.array(values, object))))


def written_shapes(path, column) -> Counter:
    names = gl.open(str(path)).files.table["path"].to_pylist()
    collected = Counter()
    for name in names:
        values = (
            pq.ParquetFile(f"{path}/{unquote(name)}", arrow_extensions_enabled=False).read(columns=[column]).column(0)
        )
        collected += Counter(map(str, shapely.from_wkb(np.array(values.to_pylist(), object))))
    return collected


def test_every_geo_file_of_the_corpus_converts_or_is_refused_with_a_reason(spark, corpus, tmp_path):
    files = sorted((corpus / "geoparquet").rglob("*.parquet")) + sorted((corpus / "parquet_geo").rglob("*.parquet"))
    assert len(files) > 25
    refused, strange = {}, 0
    for number, file in enumerate(files):
        target = tmp_path / str(number)
        source = gl.open(str(file))
        try:
            made = source.plan_convert(str(target))
        except GeolakeError as problem:
            refused[file.name] = str(problem)
            assert not target.exists()
            continue
        opens = all(fact.reads.value != "no" for fact in made.change.engines if fact.engine.startswith("Spark"))
        made.apply(spark=spark)
        rows = sum(source.files.table["rows"].to_pylist())
        table = gl.open(str(target))
        assert sum(table.files.table["rows"].to_pylist()) == rows
        columns = [path for path, _ in table.schema.geo_columns()]
        assert set(columns) >= {path for path, _ in source.schema.geo_columns()}
        for column in columns:
            assert written_shapes(target, column) == source_shapes(file, column)
            assert_bounds_are_sound(target, column, windows=5, complete="geography" not in str(table.schema))
        if opens:
            assert spark.read.format("delta").load(str(target)).count() == rows
        strange += not opens
        assert not [finding for finding in table.check(deep=True) if finding.severity.name == "ERROR"], file
    assert refused == {}
    assert strange >= 1  # a CRS of one's own is a property, which Spark cannot read yet


def test_a_partitioned_set_keeps_its_partitions_and_types_that_delta_lacks_become_others(spark, tmp_path):
    moment = dt.datetime(2024, 1, 2, 3, 4, 5)
    for year in (2023, 2024):
        for part in range(2):
            folder = tmp_path / "s" / f"year={year}"
            folder.mkdir(parents=True, exist_ok=True)
            columns = {
                "id": pa.array([part * 10 + 1, part * 10 + 2], pa.uint32()),
                "geom": wkbs(SHAPES[2 * part : 2 * part + 2]),
                "ms": pa.array([moment, None], pa.timestamp("ms", "UTC")),
                "box": pa.array([{"xmin": 1.0, "ymin": 2.0}, None]),
            }
            if part:
                columns["more"] = pa.array(["x", None])
            table = pa.table(columns).replace_schema_metadata(geo({"geom": {}}))
            pq.write_table(table, folder / f"{part}.parquet", row_group_size=1)
    made = plan(tmp_path / "s", tmp_path / "t")
    assert any("'id' is uint32" in sentence for sentence in made.change.notes)
    assert made.hash == plan(tmp_path / "s", tmp_path / "t").hash
    report = made.apply(spark=spark, expect=made.hash)
    assert report.metrics["rows_written"] == 8
    assert gl.open(str(tmp_path / "t")).snapshot.partition_columns == ("year",)
    zoned = moment.replace(tzinfo=dt.UTC).astimezone().replace(tzinfo=None)
    wanted = Counter()
    for year in (2023, 2024):
        for part in range(2):
            more = ("x", None) if part else (None, None)
            wanted[part * 10 + 1, iso(SHAPES[2 * part]), zoned, (1.0, 2.0), more[0], year] += 1
            wanted[part * 10 + 2, iso(SHAPES[2 * part + 1]), None, None, more[1], year] += 1
    result = rows_of(spark, tmp_path / "t", "id", "geom", "ms", "box", "more", "year")
    assert Counter({(*row[:3], row[3] and tuple(row[3]), *row[4:]): count for row, count in result.items()}) == wanted
    assert_bounds_are_sound(tmp_path / "t")
    other = plan(tmp_path / "s", tmp_path / "u", partition_by=["id"], cluster_by="geom")
    other.apply(spark=spark)
    assert gl.open(str(tmp_path / "u")).snapshot.partition_columns == ("id",)
    again = rows_of(spark, tmp_path / "u", "id", "geom", "ms", "box", "more", "year")
    assert sum(again.values()) == 8


def test_plain_bytes_and_texts_are_named_by_the_user_and_bad_rows_by_file_and_row(spark, tmp_path):
    good, bad = tmp_path / "s" / "good.parquet", tmp_path / "s" / "bad.parquet"
    good.parent.mkdir()
    texts = ["POINT (1 2)"] * 3
    pq.write_table(pa.table({"g": wkbs(texts), "w": texts}), good)
    pq.write_table(pa.table({"g": pa.array([iso("POINT (1 2)"), b"x", None]), "w": ["POINT (3 4)"] * 3}), bad)
    columns = {"g": gl.geometry(), "w": gl.geography(algorithm="karney")}
    with pytest.raises(JobError) as caught:
        plan(tmp_path / "s", tmp_path / "t", columns=columns).apply(spark=spark)
    assert "g: 1 value: bad.parquet, row 1: not valid WKB" in caught.value.what
    assert not (tmp_path / "t" / "_delta_log").exists()
    bad.unlink()
    plan(tmp_path / "s", tmp_path / "t", columns=columns).apply(spark=spark)
    assert json.loads(next(iter(logical_types(tmp_path / "t", "w"))))["algorithm"].lower() == "karney"
    assert written_shapes(tmp_path / "t", "w") == Counter({"POINT (1 2)": 3})


def test_what_cannot_be_converted_is_refused_before_anything_is_written(spark, tmp_path):
    source = tmp_path / "s"
    source.mkdir()
    pq.write_table(
        pa.table({"id": pa.array([1], pa.uint64()), "t": pa.array([1], pa.time64("us"))}), source / "a.parquet"
    )
    with pytest.raises(SchemaError, match="'id' is of type uint64"):
        plan(source, tmp_path / "t")
    pq.write_table(pa.table({"a b": [1]}), source / "a.parquet")
    with pytest.raises(SchemaError, match="'a b'"):
        plan(source, tmp_path / "t")
    pq.write_table(pa.table({"g": wkbs(["POINT (1 2)"])}).replace_schema_metadata(geo({"g": {}})), source / "a.parquet")
    other = {"g": {"crs": gl.geometry("EPSG:3857").crs.to_projjson()}}
    pq.write_table(pa.table({"g": wkbs(["POINT (1 2)"])}).replace_schema_metadata(geo(other)), source / "b.parquet")
    with pytest.raises(SchemaError, match="columns="):
        plan(source, tmp_path / "t")
    plan(source, tmp_path / "t", columns={"g": gl.geometry("SRID:0")})
    (source / "b.parquet").unlink()
    for path in (source, source / "below", tmp_path):
        with pytest.raises(RefusedError, match="would be in the same folder"):
            plan(source, path)
    spark.range(1).write.format("delta").save(str(tmp_path / "d"))
    with pytest.raises(RefusedError, match="already"):
        plan(source, tmp_path / "d")
    with pytest.raises(RefusedError, match="convert supports havasu and parquet tables"):
        gl.open(str(tmp_path / "d")).plan_convert(str(tmp_path / "e"))


def test_a_set_without_rows_makes_a_table_without_files(tmp_path):
    empty = pa.table({"id": pa.array([], pa.int64()), "g": wkbs([])})
    pq.write_table(empty.replace_schema_metadata(geo({"g": {}})), tmp_path / "a.parquet")
    plan(tmp_path / "a.parquet", tmp_path / "t").apply()
    assert str(gl.open(str(tmp_path / "t")).schema) == "id: int64\ng: geometry(OGC:CRS84)"
