"""Line 9: the command that a finding prints makes the finding go away, or the finding says why no command can."""

from __future__ import annotations

import pytest

from geolake_nb.formats.rules import RULES
from tests.five_documents.broken_tables import BROKEN
from tests.five_documents.fixes import try_fix


def test_every_rule_has_a_table_that_breaks_it():
    assert [rule.id for rule in RULES if rule.id not in BROKEN] == []
    known = {rule.id for rule in RULES}
    assert [case for case in BROKEN if case.partition(" ")[0] not in known] == []


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.usefixtures("spark")
def test_the_command_of_a_finding_makes_it_go_away(case, tmp_path):
    outcome = try_fix(case, tmp_path / "table")
    assert outcome.is_good, f"{outcome}\n{outcome.output}"


def test_the_command_of_an_overlap_names_the_column_to_cluster_by(tmp_path, spark):
    outcome = try_fix("layout.overlap", tmp_path / "table")
    assert outcome.command == "geolake rewrite TABLE --cluster geom"


@pytest.mark.parametrize("size", ["100kb", "2gb"])
def test_a_rewrite_for_the_size_of_files_uses_the_target_size_of_the_table(size):
    from tests.checks.check_tables import delta, files, geo_stats

    table = delta().changed(properties={"delta.targetFileSize": size})
    megabytes = 200 if size == "100kb" else 1
    (finding, *_) = (
        table.changed(files=files({"geom": geo_stats(), "track": geo_stats()}, megabytes=megabytes))
        .check()
        .of("layout")
    )
    assert finding.fix.endswith({"100kb": " --file-size 102400B", "2gb": " --file-size 2048MiB"}[size])
