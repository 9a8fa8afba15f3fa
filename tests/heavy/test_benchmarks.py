"""What the command of all benchmarks decides from figures, which are made up here; nothing is measured."""

from __future__ import annotations

import pytest

from tests.heavy import benchmarks
from tests.heavy.benchmarks import BEGIN, END, Record, Run, faults, measured, recorded, table, warnings, with_table
from tests.heavy.ratio import Ratio

KEY = ("open", "deltalake")
BEFORE = {KEY: Record(2.0, 2.0)}


def ratio(times: float, *, wanted: float = 0) -> Ratio:
    return Ratio(*KEY, times, wanted)


RUNS: dict[str, tuple[list[Run], str | None]] = {
    "as before": ([Run("a", (ratio(2.0),))], None),
    "a fifth below": ([Run("a", (ratio(1.6),))], None),
    "more than a fifth below": ([Run("a", (ratio(1.59),))], "open was 2.00 times as fast as deltalake, now 1.59"),
    "slower than wanted": ([Run("a", (ratio(2.0, wanted=3),), 1)], "TOO SLOW: at least 3 wanted"),
    "a limit of its own": ([Run("a", (ratio(2.0),), 1)], "a ends with 1"),
    "killed": ([Run("a", (ratio(2.0),), -9)], "a ends with -9"),
    "gone": ([Run("a", (Ratio("open", "another", 9.0),))], "open was recorded against deltalake"),
    "no ratios": ([Run("a", ())], "open was recorded against deltalake"),
    "a new one": ([Run("a", (ratio(2.0),)), Run("b", (Ratio("map", "folium", 0.1),))], None),
}


@pytest.mark.parametrize("what", RUNS)
def test_what_fails_a_run(what):
    runs, fault = RUNS[what]
    problems = faults(runs, BEFORE)
    assert bool(problems) == (fault is not None)
    assert fault is None or fault in "\n".join(problems)


def test_what_was_left_out_is_not_missed():
    assert faults([Run("b", ())], BEFORE, whole=False) == []
    assert faults([Run("b", (), 1)], BEFORE, whole=False) != []


@pytest.mark.parametrize(
    ("first", "expected"),
    [
        (Run("a", (ratio(2.0),)), 1),
        (Run("a", (ratio(1.0),)), 2),
        (Run("a", (ratio(2.0, wanted=3),)), 2),
        (Run("a", (ratio(2.0),), 1), 2),
    ],
    ids=["good", "worse", "too slow", "a limit of its own"],
)
def test_what_falls_short_is_run_once_more(first, expected, capsys):
    answers = [first, Run("a", (ratio(3.0),), 7)]
    given = iter(answers)
    assert measured(["a", "--rounds", "2"], BEFORE, lambda words: next(given)) is answers[expected - 1]
    assert ("a is run once more" in capsys.readouterr().out) == (expected == 2)


def test_the_best_is_kept_through_many_small_steps_down():
    """Each step is within a fifth of the last one; the table never forgets where it began."""
    text = f"# Title\n{BEGIN}\n| open | deltalake | 2.00 |\n{END}\nThe end.\n"
    warned = []
    for times in (1.7, 1.5, 1.3):
        before = recorded(text)
        assert before[KEY].best == 2.0
        assert faults([Run("a", (ratio(times),))], before) == []
        warned.append(len(warnings([ratio(times)], before)))
        text = with_table(text, table([ratio(times)], "1 May", before))
        assert f"| open | deltalake | {times:.2f} | 2.00 |" in text
    assert warned == [0, 1, 1]
    text = with_table(text, table([ratio(2.5)], "2 May", recorded(text)))
    assert recorded(text) == {KEY: Record(2.5, 2.5)}
    assert text.startswith("# Title\n")
    assert text.endswith("\nThe end.\n")


@pytest.mark.parametrize(("times", "code", "writes"), [(2.1, 0, True), (2.1, 1, False), (1.0, 0, False)])
def test_a_run_that_fails_leaves_the_page_as_it_is(tmp_path, monkeypatch, times, code, writes):
    page = tmp_path / "benchmarks.md"
    page.write_text(f"{BEGIN}\n| open | deltalake | 2.00 |\n{END}\n")
    before = page.read_text()
    monkeypatch.setattr(benchmarks, "install_peers", lambda: None)
    monkeypatch.setattr(benchmarks, "PAGE", page)
    monkeypatch.setattr(benchmarks, "PLOT", tmp_path / "plot.svg")
    monkeypatch.setattr(benchmarks, "plot", lambda ratios, path: path.touch())
    monkeypatch.setattr(benchmarks, "RUNS", {"a": ["bench_a"]})
    monkeypatch.setattr(benchmarks, "run", lambda words, folder: Run(words[0], (ratio(times),), code))
    monkeypatch.setattr("sys.argv", ["benchmarks"])
    assert benchmarks.main() == (0 if writes else 1)
    assert (page.read_text() != before) == writes
    assert (tmp_path / "plot.svg").exists() == writes
