"""The order of strings by ICU itself: the library of a Spark, asked by a few lines of Java and without any Spark."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_SOURCE = """
import com.ibm.icu.text.Collator;
import com.ibm.icu.util.ULocale;
import java.io.*;
import java.util.*;
import static java.nio.charset.StandardCharsets.UTF_8;

public class IcuRanks {
  public static void main(String[] arguments) throws Exception {
    Collator collator = Collator.getInstance(new ULocale(arguments[0]));
    collator.setStrength(Integer.parseInt(arguments[1]));
    List<String> texts = new BufferedReader(new InputStreamReader(System.in, UTF_8)).lines().toList();
    TreeMap<String, Integer> ranks = new TreeMap<>(collator::compare);
    for (String text : texts) ranks.put(text, 0);
    int rank = 0;
    for (Map.Entry<String, Integer> entry : ranks.entrySet()) entry.setValue(rank++);
    for (String text : texts) System.out.println(ranks.get(text));
  }
}
"""
_LOCALES = {"UNICODE": ""}
# Spark: a collation that ignores accents and case compares primary differences only.
_STRENGTHS = {"_CI_AI": 0, "_CI": 1, "": 2}


def icu_of_spark() -> Path:
    """The ICU that the installed Spark compares with."""
    pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed")
    return next((Path(pyspark.__file__).parent / "jars").glob("icu4j-*.jar"))


def icu_ranks(texts: list[str], collation: str, folder: Path, jar: Path | None = None) -> dict[str, int]:
    """The place of each text in the order of a collation of Spark; what is equal shares a place."""
    if shutil.which("javac") is None:
        pytest.skip("there is no Java compiler")
    assert not any("\n" in text for text in texts)
    source = folder / "IcuRanks.java"
    source.write_text(_SOURCE, encoding="utf-8")
    ending = next(ending for ending in _STRENGTHS if collation.endswith(ending))
    name = collation.removesuffix(ending)
    run = subprocess.run(
        ["java", "-cp", str(jar or icu_of_spark()), str(source), _LOCALES.get(name, name), str(_STRENGTHS[ending])],
        input="\n".join(texts).encode(),
        capture_output=True,
        check=True,
    )
    return dict(zip(texts, map(int, run.stdout.split()), strict=True))
