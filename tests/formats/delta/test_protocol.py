from __future__ import annotations

import pytest

from geolake_nb.errors import CorruptTableError, UnsupportedTableError
from geolake_nb.formats.delta.protocol import feature, read_protocol
from tests.formats.delta.log_maker import LogMaker, add, field, metadata, protocol

# Delta PROTOCOL.md, "Valid Feature Names in Table Features", and the RFCs geospatial, collated strings, type widening.
READERS_AND_WRITERS = [
    "columnMapping",
    "deletionVectors",
    "timestampNtz",
    "v2Checkpoint",
    "catalogManaged",
    "vacuumProtocolCheck",
    "geospatial",
    "geospatial-dev",
    "typeWidening",
    "variantType",
    "variantShredding",
]
WRITERS = [
    "appendOnly",
    "invariants",
    "checkConstraints",
    "generatedColumns",
    "allowColumnDefaults",
    "changeDataFeed",
    "identityColumns",
    "rowTracking",
    "domainMetadata",
    "icebergCompatV1",
    "icebergCompatV2",
    "clustering",
    "inCommitTimestamp",
    "collations",
    "collations-preview",
]


@pytest.mark.parametrize("name", READERS_AND_WRITERS + WRITERS)
def test_every_feature_of_the_protocol_is_known(name):
    known_feature = feature(name)
    assert known_feature.known
    assert known_feature.meaning.endswith(".")
    assert known_feature.needed_to_write
    assert known_feature.needed_to_read == (name in READERS_AND_WRITERS)


LEGACY = {
    (1, 1): set(),
    (1, 2): {"appendOnly", "invariants"},
    (1, 3): {"appendOnly", "invariants", "checkConstraints"},
    (1, 4): {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns"},
    (2, 5): {"appendOnly", "invariants", "checkConstraints", "changeDataFeed", "generatedColumns", "columnMapping"},
    (2, 6): {
        "appendOnly",
        "invariants",
        "checkConstraints",
        "changeDataFeed",
        "generatedColumns",
        "columnMapping",
        "identityColumns",
    },
}


@pytest.mark.parametrize("versions", LEGACY)
def test_old_versions_imply_features(versions):
    protocol = read_protocol({"minReaderVersion": versions[0], "minWriterVersion": versions[1]})
    assert {item.name for item in protocol.features} == LEGACY[versions]


@pytest.mark.parametrize(("reader", "writer"), [(4, 7), (99, 99)])
def test_reader_versions_from_the_future_are_refused(reader, writer):
    with pytest.raises(UnsupportedTableError, match="versions up to"):
        read_protocol(
            {"minReaderVersion": reader, "minWriterVersion": writer, "readerFeatures": [], "writerFeatures": []}
        )


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {"minReaderVersion": "3"},
        {"minReaderVersion": 3, "minWriterVersion": 7},
        {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": [1]},
    ],
)
def test_a_broken_protocol_is_named(broken):
    with pytest.raises(CorruptTableError, match="the protocol has no"):
        read_protocol(broken)


def test_an_unknown_reader_feature_is_refused_by_its_name(tmp_path):
    made = LogMaker(tmp_path).commit(0, protocol("fromTheFuture", "geospatial"), metadata(), add("a"))
    with pytest.raises(
        UnsupportedTableError, match="version 0: the table needs the unknown reader feature 'fromTheFuture'"
    ):
        made.open()
    snapshot = made.open(allow_unknown_features=True)
    assert [feature.name for feature in snapshot.protocol.features if not feature.known] == ["fromTheFuture"]
    assert len(snapshot.files) == 1


def test_an_unknown_writer_feature_does_not_prevent_reading(tmp_path):
    snapshot = LogMaker(tmp_path).commit(0, protocol("strangeWrites", reader=()), metadata(), add("a")).open()
    assert [(feature.name, feature.known, feature.needed_to_read) for feature in snapshot.protocol.features] == [
        ("strangeWrites", False, False)
    ]


def test_the_features_are_checked_before_the_schema_is_read(tmp_path):
    made = LogMaker(tmp_path).commit(0, protocol("hologram"), metadata(field("h", "hologram(3)")))
    with pytest.raises(UnsupportedTableError, match="hologram"):
        made.open()
    made.commit(0, protocol(), metadata(field("h", "hologram(3)")))
    with pytest.raises(CorruptTableError, match="the schema cannot be read: h: unknown Delta type"):
        made.open()
