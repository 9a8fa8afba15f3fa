"""What a change of collations does to the log, decided without Spark."""

from __future__ import annotations

import json

import pytest

import geolake_nb as gl
from geolake_nb.errors import CollationError, RefusedError, SchemaError
from geolake_nb.formats.delta.add_action import StatsEdit, collated_add, lacks
from geolake_nb.formats.delta.collate import finish_collations, with_versions
from geolake_nb.formats.delta.protocol import read_protocol
from geolake_nb.model.collation import Collation
from geolake_nb.scan.value_scan import CollatedString

V = "78.3.0.0"
DE, CI = Collation("icu", "de_CI"), Collation("icu", "UNICODE_CI")


def string(name, collation=None, **metadata):
    collations = {"__COLLATIONS": {name: collation}} if collation else {}
    return {"name": name, "type": "string", "nullable": True, "metadata": collations | metadata}


def stats(low=None, sections=None, rows=2, nulls=0, **more):
    value = {"numRecords": rows, "nullCount": {"name": nulls, "other": nulls}}
    if low is not None:
        value |= {"minValues": {"name": low}, "maxValues": {"name": low}}
    if sections:
        value["statsWithCollation"] = {
            key: {"minValues": dict.fromkeys(names, "a"), "maxValues": dict.fromkeys(names, "z")}
            for key, names in sections.items()
        }
    return json.dumps(value | more)


def table(folder, *files, fields=None, protocol=None, hints=None, properties=None, partitions=()):
    """A Delta table of these files, by their statistics; its data files are not there."""
    fields = fields or [string("name"), string("other"), {**string("id"), "type": "long"}]
    protocol = protocol or {"minReaderVersion": 1, "minWriterVersion": 2}
    metadata = {
        "id": "t",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(partitions),
        "configuration": properties or {},
        "createdTime": 5,
    }
    actions = [{"commitInfo": {"operation": "WRITE"}}, {"protocol": protocol}, {"metaData": metadata}]
    if hints is not None:
        domain = {"domain": "collations", "configuration": json.dumps({"writeVersions": hints}), "removed": False}
        actions.append({"domainMetadata": domain})
    for number, text in enumerate(files):
        add = {"path": f"f{number}.parquet", "partitionValues": {}, "size": 10, "modificationTime": 1}
        actions.append({"add": add | {"dataChange": True, "tags": {"k": "1.50"}, "stats": text}})
    log = folder / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").write_text("\n".join(json.dumps(action) for action in actions))
    return gl.open(str(folder))


def collated(folder, *files, collations=("icu.de_CI", None), **options):
    fields = [string("name", collations[0]), string("other", collations[1])]
    features = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["collations", "domainMetadata"]}
    return table(folder, *files, fields=fields, protocol=features, **options)


def finished(opened, plan, ranges=None, versions=None):
    """The actions after Spark has said its part."""
    change = plan.change
    known = versions or {DE: V, CI: V}
    job = with_versions(change.job, known, where="t")
    return [json.loads(action) for action in finish_collations(opened._storage, change, job, ranges).actions]


def test_setting_a_collation(tmp_path):
    opened = table(tmp_path / "t", stats("a"), stats(None, nulls=2), stats("b"))
    plan = opened.plan_collations({"name": "icu.de_CI"})
    assert plan.change.reads.files == 2  # one has nothing but nulls
    assert [step.name for step in plan.change.irreversible_steps] == ["collations"]
    assert "deltalake" in plan.change.irreversible_steps[0].why
    ranges = {"f0.parquet": {("name",): ("Ä", "z")}, "f2.parquet": {}}
    protocol, metadata, domain, add = finished(opened, plan, ranges)
    assert read_protocol(protocol["protocol"]).summary == "reader 1, writer 7"
    names = ["appendOnly", "collations", "domainMetadata", "invariants"]
    assert sorted(protocol["protocol"]["writerFeatures"]) == names
    before = opened.snapshot.details.metadata.raw
    after = metadata["metaData"]
    assert {**after, "schemaString": 0} == {**before, "schemaString": 0}
    assert json.loads(after["schemaString"])["fields"][0]["metadata"] == {"__COLLATIONS": {"name": "icu.de_CI"}}
    assert domain["domainMetadata"]["configuration"] == f'{{"writeVersions":{{"icu.de_CI":["{V}"]}}}}'
    assert add["add"]["path"] == "f0.parquet"
    assert add["add"]["dataChange"] is False
    assert add["add"]["tags"] == {"k": "1.50"}
    made = json.loads(add["add"]["stats"])
    assert made.pop("statsWithCollation") == {
        f"icu.de_CI.{V}": {"minValues": {"name": "Ä"}, "maxValues": {"name": "z"}}
    }
    assert made == json.loads(stats("a"))


def test_the_same_plan_has_the_same_hash(tmp_path):
    opened = table(tmp_path / "t", stats("a"))
    first, second = (opened.plan_collations({"name": "icu.de_CI"}) for _ in range(2))
    assert first.hash == second.hash
    assert first.hash != opened.plan_collations({"name": "icu.de"}).hash
    assert "name compares by icu.de_CI." in str(first)


def test_a_legacy_protocol_with_column_mapping_keeps_reader_2(tmp_path):
    mapped = {"delta.columnMapping.mode": "name"}
    fields = [string("name", **{"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "c-1"})]
    legacy = {"minReaderVersion": 2, "minWriterVersion": 5}
    opened = table(tmp_path / "t", "{}", fields=fields, protocol=legacy, properties=mapped)
    protocol, *_, add = finished(
        opened, opened.plan_collations({"name": "icu.de_CI"}), {"f0.parquet": {("name",): ("a", "b")}}
    )
    assert protocol["protocol"]["minReaderVersion"] == 2
    assert "columnMapping" in protocol["protocol"]["writerFeatures"]
    section = json.loads(add["add"]["stats"])["statsWithCollation"][f"icu.de_CI.{V}"]
    assert section == {"minValues": {"c-1": "a"}, "maxValues": {"c-1": "b"}}


def test_the_preview_feature_is_enough(tmp_path):
    features = ["collations-preview", "domainMetadata"]
    protocol = {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": features}
    opened = table(tmp_path / "t", stats("a"), protocol=protocol)
    change = opened.plan_collations({"name": "icu.de_CI"}).change
    assert not change.irreversible_steps
    assert not any("protocol" in json.loads(action) for action in change.actions)


def test_strings_without_statistics(tmp_path):
    array = {"type": "array", "elementType": "string", "containsNull": True}
    fields = [string("part"), string("name"), {**string("tags"), "type": array}, string("late")]
    count = {"delta.dataSkippingNumIndexedCols": "2"}
    opened = table(tmp_path / "t", "{}", fields=fields, properties=count, partitions=["part"])
    changes = dict.fromkeys(["part", "name", "tags.element", "late"], "icu.de_CI")
    plan = opened.plan_collations(changes)
    assert [column.path for column in plan.change.job.columns] == [("name",)]
    assert str(plan).count("gets no statistics") == 3
    # Only the check by Spark is left where there is nothing to measure.
    only = opened.plan_collations({"tags.element": "icu.de_CI"})
    assert only.change.job.files == ()
    assert [next(iter(action)) for action in finished(opened, only)] == ["protocol", "metaData"]


def test_dropping_needs_no_spark(tmp_path):
    stored = {f"icu.de_CI.{V}": ["name"], "icu.de_CI.77": ["name"], f"icu.sv.{V}": ["name"]}
    opened = collated(tmp_path / "t", stats("a", stored), stats("b"), hints={"icu.de_CI": [V], "icu.sv": [V]})
    plan = opened.plan_collations({"name": None})
    assert plan.change.job is None
    metadata, domain, add = [json.loads(action) for action in plan.change.actions]
    assert json.loads(metadata["metaData"]["schemaString"])["fields"][0]["metadata"] == {}
    assert domain["domainMetadata"]["configuration"] == f'{{"writeVersions":{{"icu.sv":["{V}"]}}}}'
    # A collation that no column had is somebody else's.
    assert list(json.loads(add["add"]["stats"])["statsWithCollation"]) == [f"icu.sv.{V}"]
    assert not plan.change.irreversible_steps


def test_a_collation_that_another_column_has_stays_for_that_column(tmp_path):
    key = f"icu.de_CI.{V}"
    both = ("icu.de_CI", "icu.de_CI")
    opened = collated(tmp_path / "t", stats("a", {key: ["name", "other"]}), collations=both, hints={"icu.de_CI": [V]})
    _metadata, add = [json.loads(action) for action in opened.plan_collations({"name": None}).change.actions]
    section = json.loads(add["add"]["stats"])["statsWithCollation"]
    assert section == {key: {"minValues": {"other": "a"}, "maxValues": {"other": "z"}}}


def test_the_last_hint_takes_the_domain_along(tmp_path):
    opened = collated(tmp_path / "t", stats("a"), hints={"icu.de_CI": [V]})
    _metadata, domain = [json.loads(action) for action in opened.plan_collations({"name": None}).change.actions]
    assert domain["domainMetadata"] == {"domain": "collations", "configuration": "", "removed": True}


def test_changing_a_collation(tmp_path):
    opened = collated(tmp_path / "t", stats("a", {f"icu.de_CI.{V}": ["name"]}), hints={"icu.de_CI": [V]})
    plan = opened.plan_collations({"NAME": "icu.UNICODE_CI"})
    _metadata, domain, add = finished(opened, plan, {"f0.parquet": {("name",): ("b", "c")}})
    assert json.loads(domain["domainMetadata"]["configuration"]) == {"writeVersions": {"icu.UNICODE_CI": [V]}}
    assert list(json.loads(add["add"]["stats"])["statsWithCollation"]) == [f"icu.UNICODE_CI.{V}"]


def test_nothing_to_do(tmp_path):
    opened = collated(tmp_path / "t", stats("a", {f"icu.de_CI.{V}": ["name"]}), hints={"icu.de_CI": [V]})
    assert opened.plan_collations({"name": "ICU.de_CI", "other": None}).is_empty
    assert opened.plan_collations({"other": "spark.UTF8_BINARY"}).is_empty
    assert opened.plan_collations(refresh=True).is_empty
    assert opened.plan_collations().is_empty


def test_refresh_reads_stale_files_only(tmp_path):
    good, old = {f"icu.de_CI.{V}": ["name"]}, {"icu.de_CI.77": ["name"]}
    files = [stats("a", good), stats("b", old), stats("c"), stats(None, nulls=2)]
    opened = collated(tmp_path / "t", *files, hints={"icu.de_CI": ["77", V]})
    (column,) = opened.collations.columns
    assert column.stale == ("f1.parquet", "f2.parquet")
    assert column.files == {V: 1, "77": 1}
    assert f"wants {V}" in str(opened.collations)
    job = opened.plan_collations(refresh=True).change.job
    assert job.files == column.stale
    with pytest.raises(RefusedError, match=r"requests statistics of icu.de_CI.78.3.0.0.*79"):
        with_versions(job, {DE: "79"}, where="t")


def test_refresh_without_hints_goes_by_spark_s_version(tmp_path):
    opened = collated(tmp_path / "t", stats("a", {"icu.de_CI.77": ["name"]}), stats("b", {f"icu.de_CI.{V}": ["name"]}))
    plan = opened.plan_collations(refresh=True)
    assert plan.change.job.files == ("f0.parquet", "f1.parquet")
    domain, add = finished(opened, plan, {"f0.parquet": {("name",): ("b", "c")}})
    assert set(json.loads(add["add"]["stats"])["statsWithCollation"]) == {"icu.de_CI.77", f"icu.de_CI.{V}"}
    assert json.loads(domain["domainMetadata"]["configuration"]) == {"writeVersions": {"icu.de_CI": [V]}}


def test_upgrade_drops_other_versions(tmp_path):
    both = {"icu.de_CI.77": ["name"], f"icu.de_CI.{V}": ["name"], "icu.sv.77": ["name"]}
    opened = collated(tmp_path / "t", stats("a", both), stats("b"), hints={"icu.de_CI": ["77"], "icu.sv": ["77"]})
    plan = opened.plan_collations(upgrade=True)
    domain, first, second = finished(opened, plan, {"f1.parquet": {("name",): ("b", "c")}})
    wanted = {"writeVersions": {"icu.de_CI": [V], "icu.sv": ["77"]}}
    assert json.loads(domain["domainMetadata"]["configuration"]) == wanted
    assert set(json.loads(first["add"]["stats"])["statsWithCollation"]) == {f"icu.de_CI.{V}", "icu.sv.77"}
    assert set(json.loads(second["add"]["stats"])["statsWithCollation"]) == {f"icu.de_CI.{V}"}


@pytest.mark.parametrize("stored", ["spark.UTF8_BINARY", "icu.de_CI.72"])
def test_identifiers_that_a_schema_should_not_have_are_repaired(tmp_path, stored):
    opened = collated(tmp_path / "t", stats("a"), collations=(stored, None))
    wanted = None if "UTF8" in stored else "icu.de_CI"
    (metadata,) = [json.loads(action) for action in opened.plan_collations({"name": wanted}).change.actions]
    expected = {"__COLLATIONS": {"name": wanted}} if wanted else {}
    assert json.loads(metadata["metaData"]["schemaString"])["fields"][0]["metadata"] == expected


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"id": "icu.de"}, CollationError, "id is a int64, and only strings have collations; use one of: name, other"),
        ({"nam": "icu.de"}, SchemaError, "no column 'nam'"),
        ({"name": "de"}, CollationError, "name: expected a collation identifier, got 'de'"),
        ({"name": "icu.de.72"}, CollationError, "has a version, which a schema must not have; use icu.de"),
        ({"name": "glibc.de_DE"}, CollationError, "Spark cannot open a schema with the collation glibc.de_DE"),
        ({"name": "icu.de", "NAME": None}, CollationError, "named twice"),
    ],
)
def test_what_is_refused(tmp_path, changes, error, message):
    with pytest.raises(error, match=message):
        table(tmp_path / "t", stats("a")).plan_collations(changes)


EDIT = StatsEdit((CollatedString(("n",), ("n",), None, DE),), ((DE, V),))


def add_of(text, **more):
    return json.dumps({"path": "a", "dataChange": True, "stats": text, **more})


def test_other_statistics_keep_their_text():
    text = (
        '{"numRecords": 2, "minValues":{"d":1.50}, "statsWithCollation":{ "icu.sv.1":{"minValues":{"n":"\\u00e4"}} }}'
    )
    after = json.loads(collated_add(add_of(text), EDIT, {("n",): ("a", "b")}))["add"]["stats"]
    section = f'"icu.de_CI.{V}":{{"minValues":{{"n":"a"}},"maxValues":{{"n":"b"}}}}'
    assert after == text.replace('"\\u00e4"}}', f'"\\u00e4"}}}},{section}')


def test_a_file_with_deleted_rows_gets_wide_bounds():
    vector = {"storageType": "u", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1}
    made = json.loads(collated_add(add_of("{}", deletionVector=vector), EDIT, {("n",): ("a", "b")}))
    assert json.loads(made["add"]["stats"])["tightBounds"] is False
    assert made["add"]["deletionVector"] == vector
    assert collated_add(add_of("{}", deletionVector=vector), EDIT, {}) is None


def test_one_side_alone_is_a_bound():
    made = json.loads(collated_add(add_of("{}"), EDIT, {("n",): (None, "b")}))
    assert json.loads(made["add"]["stats"]) == {"statsWithCollation": {f"icu.de_CI.{V}": {"maxValues": {"n": "b"}}}}
    assert not lacks(json.dumps(made["add"]), EDIT)


@pytest.mark.parametrize(
    "text", ["not json", '{"statsWithCollation":{},"statsWithCollation":{}}', '{"statsWithCollation":3}', "[]"]
)
def test_statistics_that_cannot_be_edited_are_left_alone(text):
    assert collated_add(add_of(text), EDIT, {("n",): ("a", "b")}) is None


def test_half_of_a_surrogate_pair_stays_an_escape():
    made = collated_add('{"stats":"{\\"x\\":\\"\\ud800\\"}"}', EDIT, {("n",): ("ä", "b")})
    assert made is not None
    made.encode()
    assert "\\ud800" in made


def test_delta_kernel_does_not_open_a_collated_map_key(tmp_path):
    map_ = {"type": "map", "keyType": "string", "valueType": "string", "valueContainsNull": True}
    opened = table(tmp_path / "t", fields=[{**string("m"), "type": map_}])
    plan = opened.plan_collations({"m.key": "icu.de_CI"})
    reads = {fact.engine: fact.reads.value for fact in plan.change.engines}
    assert reads["Delta Kernel (Java) 4.4"] == "no"
    assert any(says.startswith("Delta Kernel (Java) 4.4 cannot read the table") for says in plan.change.notes)
    assert not any("cannot read" in says for says in opened.plan_collations({"m.value": "icu.de_CI"}).change.notes)
