"""What we do not know is refused: a sentence names it, and no byte of the table changes."""

from __future__ import annotations

import base64
import json
import re
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pq_encryption
import pytest

import geolake_nb as gl
from geolake_nb.api.writing import plan_write
from geolake_nb.cli import main
from geolake_nb.errors import GeolakeError, RefusedError, UnsupportedTableError
from geolake_nb.formats.iceberg.metadata import TRANSACTION
from tests import small_tables
from tests.changes.repair_tables import GEOMETRY, typed, wkb
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol
from tests.formats.havasu_tables import geometry_entry, make_havasu_table
from tests.formats.iceberg_tables import FileEntry, column, make_iceberg_table
from tests.formats.parquet_sets import GEO, make_set, points
from tests.promises.table_bytes import table_bytes
from tests.storage.s3_endpoint import ignoring_conditions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

POINTS = ["POINT (10 50)", "POINT (11 52)"]
FIELDS = (field("id", "long"), field("geom", GEOMETRY), field("raw", "binary"), field("name", "string"))
ROWS = pa.table(
    {"id": pa.array([1, 2], pa.int64()), "geom": typed(wkb(*POINTS)), "raw": wkb(*POINTS), "name": ["a", "b"]}
)

# ---- Delta

# Delta, Valid Feature Names in Table Features, with those of accepted and proposed changes that engines write today.
FOR_READERS = {
    "catalogManaged", "catalogOwned-preview", "columnMapping", "deletionVectors", "geospatial-dev",
    "redirectReaderWriter-preview", "timestampNtz", "typeWidening", "typeWidening-preview", "v2Checkpoint",
    "vacuumProtocolCheck", "variantShredding", "variantShredding-preview", "variantType", "variantType-preview",
}  # fmt: skip
FOR_WRITERS = {
    "allowColumnDefaults", "appendOnly", "changeDataFeed", "checkConstraints", "checkpointProtection", "clustering",
    "collations", "collations-preview", "coordinatedCommits-preview", "domainMetadata", "generatedColumns",
    "icebergCompatV1", "icebergCompatV2", "icebergCompatV3", "icebergWriterCompatV1", "icebergWriterCompatV3",
    "identityColumns", "inCommitTimestamp", "inCommitTimestamp-preview", "invariants", "materializePartitionColumns",
    "redirectWriterOnly-preview", "rowTracking",
}  # fmt: skip
# Proposals to Delta that nobody may take for known, and names of nobody.
STRANGE_READERS = {"decFloat", "fileType", "parquetEncryption", "timestampNanos", "columnMapping-v2", "GEOSPATIAL"}
STRANGE_WRITERS = {"invisibleColumns", "recordLevelIndex", "tableBranching", "rowTracking ", "Ünbekannt \u202e", ""}

VERBS = {
    "repair": ["repair", "TABLE"],
    "repair that reads all": ["repair", "TABLE", "--verify"],
    "rewrite": ["rewrite", "TABLE", "--cluster", "geom"],
    "compact": ["rewrite", "TABLE"],
    "enable": ["enable", "TABLE", f"raw={GEOMETRY}", "--consent", "geospatial"],
    "collations": ["collations", "TABLE", "name=icu.de_CI", "--consent", "collations"],
    "undo": ["undo", "TABLE"],
}
ALL = {*VERBS, "append"}
NEW_FILES = {"rewrite", "compact", "enable", "append"}
NEW_METADATA = {"enable", "collations"}
# Which changes a writer may not make without doing for the feature what we do not.
REFUSED = {
    **dict.fromkeys(["catalogManaged", "catalogOwned-preview", "coordinatedCommits-preview"], ALL),
    **dict.fromkeys(["redirectReaderWriter-preview", "redirectWriterOnly-preview"], ALL),
    **{name: NEW_FILES | NEW_METADATA for name in FOR_WRITERS if re.match("iceberg(Writer)?Compat", name)},
    # Delta, Row tracking: new files need ids that no other commit draws.
    "rowTracking": NEW_FILES,
    "materializePartitionColumns": NEW_FILES,
    **dict.fromkeys(STRANGE_READERS | STRANGE_WRITERS, ALL),
}


def delta_table(folder: Path, *features: str, readers: tuple[str, ...] = (), **more) -> Path:
    """A table with work for every verb: no bounds, a column of WKB, a string, small files, a change of ours."""
    made = LogMaker(folder)
    made.commit(0, protocol("geospatial", *features, reader=("geospatial", *readers)), metadata(*FIELDS, **more))
    adds = []
    for name in ("a.parquet", "b.parquet"):
        pq.write_table(ROWS, folder / name)
        adds.append(add(name, {"numRecords": 2}, size=(folder / name).stat().st_size))
    made.commit(1, {"commitInfo": {"operation": "WRITE"}}, *adds)
    ours = {"engineInfo": "geolake_nb/0.1", "operation": "GEOLAKE REPAIR"}
    made.commit(2, {"commitInfo": ours}, add("b.parquet", {"numRecords": 2, "x": 1}, size=adds[1]["add"]["size"]))
    return folder


def planned(folder: Path, verb: str) -> gl.Plan:
    table = gl.open(folder)
    return {
        "repair": table.plan_repair,
        "repair that reads all": lambda: table.plan_repair(verify=True),
        "rewrite": lambda: table.plan_rewrite(cluster_by="geom"),
        "compact": table.plan_rewrite,
        "enable": lambda: table.plan_enable({"raw": gl.geometry()}),
        "collations": lambda: table.plan_collations({"name": "icu.de_CI"}),
        "undo": table.plan_undo,
        "append": lambda: plan_write(ROWS, folder, mode="append"),
    }[verb]()


@pytest.mark.parametrize("name", sorted(FOR_READERS | FOR_WRITERS | STRANGE_READERS | STRANGE_WRITERS))
def test_a_feature_of_delta_is_implemented_or_refused_by_its_name(tmp_path, capsys, name):
    readers = (name,) if name in FOR_READERS | STRANGE_READERS else ()
    folder = delta_table(tmp_path / "t", name, readers=readers)
    before = table_bytes(folder)
    refused = REFUSED.get(name, set())
    for verb in sorted(ALL - refused):
        assert not planned(folder, verb).is_empty, verb
    for verb in sorted(refused - {"append"}):
        words = [str(folder) if word == "TABLE" else word for word in VERBS[verb]]
        for more in ([], ["--allow-unknown-features"]):
            assert main([*words, "--apply", *more]) == 3, verb
            out, message = capsys.readouterr()
            assert out == "", verb
            assert message.startswith("geolake: "), verb
            assert message.count("\n") == 1, verb
            assert name.replace("\u202e", "\\u202e") in message, verb
            assert "feature" in message
    if "append" in refused:
        with pytest.raises((RefusedError, UnsupportedTableError), match=f"feature.*{re.escape(repr(name))}"):
            gl.write(ROWS, folder, mode="append")
    assert table_bytes(folder) == before


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda made: made.commit(3, {"protocol": {"minReaderVersion": 4, "minWriterVersion": 7}}), "reader version 4"),
        (
            lambda made: made.commit(3, {"protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 8,
                "readerFeatures": ["columnMapping"],
                "writerFeatures": ["columnMapping"],
            }}),
            "writer version 8",
        ),
        (lambda made: made.commit(3, metadata(*FIELDS, field("n", "decfloat(16)"))), "decfloat"),
        (lambda made: made.commit(3, metadata(*FIELDS, **{"delta.columnMapping.mode": "magic"})), "'magic'"),
    ],
    ids=["reader version", "writer version", "type", "column mapping"],
)  # fmt: skip
def test_what_else_of_delta_is_not_known_is_refused(tmp_path, capsys, change, expected):
    folder = delta_table(tmp_path / "t", "columnMapping", readers=("columnMapping",))
    change(LogMaker(folder))
    refuse_every_verb(folder, capsys, expected, ["--allow-unknown-features"])


def refuse_every_verb(folder: Path, capsys, expected: str, more=(), *, rows=ROWS, form="delta"):
    """Each command with --apply, and new rows, end in one sentence; no byte changes."""
    before = table_bytes(folder)
    for verb, words in VERBS.items():
        assert main([*(str(folder) if word == "TABLE" else word for word in words), "--apply", *more]) == 3, verb
        out, message = capsys.readouterr()
        assert (out, message.count("\n")) == ("", 1), verb
        of_delta = verb in ("enable", "collations") and "supports delta tables" in message
        assert expected in message or of_delta, (verb, message)
    with pytest.raises(GeolakeError, match=re.escape(expected)):
        gl.write(rows, folder, mode="append", format=form)
    assert table_bytes(folder) == before


# ---- stores that cannot keep two writers apart


@pytest.fixture
def careless(s3):
    """The options of a store that overwrites whatever a request says."""
    with ignoring_conditions(s3.url) as address:
        yield s3.options | {"aws_endpoint": address}


def two_snapshots(folder: Path) -> Path:
    entries = [geometry_entry(name, small_tables.shapes(small_tables.PLACES[0])) for name in "ab"]
    columns = [column(1, "id", "long"), column(2, "geom", "binary", **{"havasu.geometry-encoding": "ewkb"})]
    make_iceberg_table(folder, columns, entries[:1], entries[1:], location="s3://lake/refused/havasu-undo")
    return folder


def iceberg_in_bucket(folder: Path) -> Path:
    entry = FileEntry("a.parquet", rows=4, table=small_tables.data((1, 2)))
    columns = [column(1, "id", "long"), column(2, "geom", "geometry")]
    make_iceberg_table(folder, columns, [entry], version=3, location="s3://lake/refused/iceberg-repair")
    return folder


STORED: dict[str, tuple[Callable, Callable]] = {
    "delta enable": (lambda folder: make_log(folder, protocol(), metadata()), lambda table: table.plan_enable({})),
    "delta repair": (lambda folder: small_tables.make_delta(folder, bounds=False), lambda table: table.plan_repair()),
    "delta rewrite": (small_tables.make_delta, lambda table: table.plan_rewrite(cluster_by="geom")),
    "delta undo": (delta_table, lambda table: table.plan_undo()),
    "havasu undo": (two_snapshots, lambda table: table.plan_undo(table.version)),
    "iceberg repair": (iceberg_in_bucket, lambda table: table.plan_repair()),
    "parquet repair": (make_set, lambda table: table.plan_repair()),
    "parquet rewrite": (make_set, lambda table: table.plan_rewrite(cluster_by="geom")),
}
# What needs no Spark where `single_writer` is given.
ALONE = {"delta enable", "delta repair", "delta undo", "havasu undo", "parquet repair"}


def make_log(folder: Path, *actions: dict) -> Path:
    LogMaker(folder).commit(0, *actions)
    return folder


@pytest.mark.parametrize("what", STORED)
def test_a_store_that_overwrites_is_refused_unless_there_is_one_writer(tmp_path, s3, careless, what):
    make, plan = STORED[what]
    prefix = f"refused/{what.replace(' ', '-')}"
    url = s3.upload(make(tmp_path / "t"), "lake", prefix)
    before = s3.objects("lake", prefix)
    with pytest.raises(RefusedError, match=r"concurrent (writers|commits).*single_writer=True"):
        plan(gl.open(url, storage_options=careless)).apply(consent="geospatial")
    assert s3.objects("lake", prefix) == before
    if what in ALONE:
        plan(gl.open(url, storage_options=careless)).apply(consent="geospatial", single_writer=True)
        assert s3.objects("lake", prefix) != before


# ---- Iceberg and Havasu


POINT = small_tables.data((1, 2))
ICEBERG = [column(1, "id", "long"), column(2, "geom", "geometry")]


def iceberg_table(folder: Path, *, columns=ICEBERG, entry: Mapping[str, Any] | None = None, **more) -> Path:
    """Two files without bounds in two snapshots, of which ours is the second."""
    files = [FileEntry(f"{name}.parquet", rows=4, table=POINT, **(entry or {})) for name in "ab"]
    make_iceberg_table(folder, columns, files[:1], files[1:], version=3, **more)
    return rewritten_metadata(
        folder, lambda metadata: metadata["snapshots"][1]["summary"].update({TRANSACTION: "ours"})
    )


def havasu_table(folder: Path, **more) -> Path:
    make_havasu_table(folder, [geometry_entry("a", small_tables.shapes((1, 2)))], **({"fault": "missing"} | more))
    return folder


def rewritten_metadata(folder: Path, change: Callable[[dict], Any]) -> Path:
    path = folder / "metadata" / "v1.metadata.json"
    metadata = json.loads(path.read_text())
    change(metadata)
    path.write_text(json.dumps(metadata))
    return folder


def rewritten_avro(folder: Path, names: str, change: Callable[[dict], Any]) -> Path:
    for path in (folder / "metadata").glob(names):
        with path.open("rb") as file:
            reader = fastavro.reader(file)
            records, schema = list(reader), reader.writer_schema
            header = {key: value for key, value in reader.metadata.items() if not key.startswith("avro.")}
        for record in records:
            change(record)
        with path.open("wb") as file:
            fastavro.writer(file, schema, records, metadata=header)
    return folder


def packed_by(folder: Path, codec: bytes) -> Path:
    """Manifests that say that they are packed by another codec; its name is as long as deflate."""
    for path in (folder / "metadata").glob("*-m0.avro"):
        path.write_bytes(path.read_bytes().replace(b"deflate", codec))
    return folder


def kept_by_a_catalog(folder: Path) -> Path:
    path = folder / "metadata" / "v1.metadata.json"
    path.rename(path.with_name("00001-x.metadata.json"))
    return folder


KEYS = {"encryption-keys": [{"key-id": "k", "encrypted-key-metadata": "x"}]}
STRANGE_TABLES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "iceberg of version 4": (
        lambda folder: rewritten_metadata(
            iceberg_table(folder), lambda metadata: metadata.update({"format-version": 4})
        ),
        "format version 4",
    ),
    "iceberg with an unknown type": (
        lambda folder: iceberg_table(folder, columns=[*ICEBERG, column(3, "h", "hologram(3)")]),
        "hologram(3)",
    ),
    "iceberg with keys": (lambda folder: iceberg_table(folder, extra_metadata=KEYS), "encrypted"),
    "iceberg with a key for new files": (
        lambda folder: iceberg_table(folder, properties={"encryption.key-id": "k"}),
        "encrypted",
    ),
    "iceberg with encrypted files": (
        lambda folder: rewritten_avro(
            iceberg_table(folder), "*-m0.avro", lambda entry: entry["data_file"].update(key_metadata=b"k")
        ),
        "encrypted",
    ),
    "iceberg with encrypted manifests": (
        lambda folder: rewritten_avro(
            iceberg_table(folder), "snap-*.avro", lambda listed: listed.update(key_metadata=b"k")
        ),
        "encrypted",
    ),
    "iceberg with an encrypted manifest list": (
        lambda folder: rewritten_metadata(
            iceberg_table(folder), lambda metadata: metadata["snapshots"][1].update({"key-id": "k"})
        ),
        "encrypted",
    ),
    "iceberg with files of an unknown format": (
        lambda folder: iceberg_table(folder, entry={"format": "VORTEX"}),
        "VORTEX",
    ),
    "iceberg with files of unknown content": (lambda folder: iceberg_table(folder, entry={"content": 7}), "content 7"),
    "iceberg with an unknown codec": (lambda folder: packed_by(iceberg_table(folder), b"lz4-raw"), "lz4-raw"),
    "havasu of an unknown version": (lambda folder: havasu_table(folder, havasu_version="9.9.9"), "9.9.9"),
    "havasu on iceberg 3": (lambda folder: havasu_table(folder, version=3), "format version 3"),
    "havasu with an unknown encoding": (
        lambda folder: rewritten_metadata(
            havasu_table(folder),
            lambda metadata: metadata["schemas"][0]["fields"][1].update({"havasu.geometry-encoding": "twkb"}),
        ),
        "twkb",
    ),
    "havasu with unknown rasters": (
        lambda folder: rewritten_metadata(
            havasu_table(folder),
            lambda metadata: metadata["schemas"][0]["fields"].append(
                column(9, "rast", {"type": "struct", "fields": []}, **{"havasu.raster-encoding": "v9"})
            ),
        ),
        "v9",
    ),
    "havasu with keys": (lambda folder: havasu_table(folder, extra=KEYS), "encrypted"),
    "havasu with encrypted files": (
        lambda folder: rewritten_avro(
            havasu_table(folder), "*-m0.avro", lambda entry: entry["data_file"].update(key_metadata=b"k")
        ),
        "encrypted",
    ),
    "havasu with files that are not parquet": (lambda folder: havasu_table(folder, fault="not parquet"), "ORC"),
    "havasu kept by a catalog": (lambda folder: kept_by_a_catalog(havasu_table(folder)), "a catalog manages the table"),
}


@pytest.mark.parametrize("what", STRANGE_TABLES)
def test_what_is_not_known_of_iceberg_and_havasu_is_refused(tmp_path, capsys, what):
    make, expected = STRANGE_TABLES[what]
    refuse_every_verb(make(tmp_path / "t"), capsys, expected, rows=POINT, form=what.partition(" ")[0])


# ---- Parquet


class Keys(pq_encryption.KmsClient):
    """Keeps keys as they are: what is tested is who has none."""

    def __init__(self, _: Any) -> None:
        super().__init__()

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)

    def unwrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64decode(key)


def encrypted_set(folder: Path, **options: Any) -> Path:
    """A set of which Arrow has encrypted the second file."""
    make_set(folder)
    factory = pq_encryption.CryptoFactory(Keys)
    wanted = pq_encryption.EncryptionConfiguration(footer_key="f", **options)
    properties = factory.file_encryption_properties(pq_encryption.KmsConnectionConfig(), wanted)
    rows = pq.read_table(folder / "1.parquet")
    with pq.ParquetWriter(folder / "1.parquet", rows.schema, encryption_properties=properties) as writer:
        writer.write_table(rows)
    return folder


def geo_set(folder: Path, **more: Any) -> Path:
    return make_set(folder, geo={**GEO, **more})


def geo_column(**more: Any) -> dict[str, Any]:
    return {"columns": {"geom": {"encoding": "WKB", "geometry_types": [], **more}}}


STRANGE_SETS: dict[str, tuple[Callable[[Path], Path], str]] = {
    "encrypted": (lambda folder: encrypted_set(folder, column_keys={"k": ["id", "geom"]}), "encrypted"),
    "encrypted in a plain column": (
        lambda folder: encrypted_set(folder, column_keys={"k": ["id"]}, plaintext_footer=True),
        "encrypted",
    ),
    "encrypted in the geo column": (
        lambda folder: encrypted_set(folder, column_keys={"k": ["geom"]}, plaintext_footer=True),
        "encrypted",
    ),
    "an unknown version of GeoParquet": (lambda folder: geo_set(folder, version="9.0.0"), "'9.0.0'"),
    "an unknown encoding": (lambda folder: geo_set(folder, **geo_column(encoding="twkb")), "'twkb'"),
    "unknown edges": (lambda folder: geo_set(folder, **geo_column(edges="wobbly")), "'wobbly'"),
}


@pytest.mark.parametrize("what", STRANGE_SETS)
def test_what_is_not_known_of_parquet_is_refused(tmp_path, capsys, what):
    make, expected = STRANGE_SETS[what]
    folder = make(tmp_path / "t")
    before = table_bytes(folder)
    # Nothing was changed here yet, so that there is nothing to undo.
    for verb in set(VERBS) - {"undo"}:
        words = [str(folder) if word == "TABLE" else word for word in VERBS[verb]]
        assert main([*words, "--apply"]) == 3, verb
        message = capsys.readouterr().err
        assert message.count("\n") == 1
        assert expected in message or "supports delta tables" in message, (verb, message)
    for write in (
        lambda: gl.write(points(0, 1), folder, mode="append", format="parquet"),
        lambda: gl.open(str(folder)).plan_convert(str(tmp_path / "new")).apply(),
    ):
        with pytest.raises(GeolakeError, match=re.escape(expected)):
            write()
    assert table_bytes(folder) == before
    assert not (tmp_path / "new").exists()
