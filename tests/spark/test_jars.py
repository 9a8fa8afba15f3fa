"""Jars are fetched once, from the repository that is named, and then need neither network nor Java."""

from __future__ import annotations

import zipfile

import pytest

from geolake_nb.errors import MissingDependencyError
from geolake_nb.formats.iceberg.jvm_table import ICEBERG_PACKAGE
from geolake_nb.spark.session import delta_package, java_version, kept_jars, local_jars

POM = "<project><modelVersion>4.0.0</modelVersion><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "geolake_nb" / "jars"


def publish(repository, package):
    """Put an empty jar into a Maven repository of files."""
    group, name, version = package.split(":")
    folder = repository / group.replace(".", "/") / name / version
    folder.mkdir(parents=True)
    (folder / f"{name}-{version}.pom").write_text(POM.format(group, name, version) + "</project>")
    with zipfile.ZipFile(folder / f"{name}-{version}.jar", "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")


def test_jars_come_from_the_named_repository_and_are_kept(cache, tmp_path, monkeypatch):
    repository = tmp_path / "a repository"
    for package in (delta_package(), ICEBERG_PACKAGE, "org.example:more:1"):
        publish(repository, package)
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", repository.as_uri() + "/")
    assert kept_jars("org.example:more:1") is None
    jars = local_jars("org.example:more:1")
    names = {f"{group}_{name}-{version}.jar" for group, name, version in
             (package.split(":") for package in (delta_package(), ICEBERG_PACKAGE, "org.example:more:1"))}  # fmt: skip
    assert {jar.name for jar in jars} == names
    assert [path.name for path in cache.iterdir()] == [jars[0].parent.name], "nothing else is left"
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:1/")
    assert local_jars("org.example:more:1") == jars


def test_without_a_repository_one_sentence_says_what_to_do(cache, monkeypatch):
    monkeypatch.setenv("DEFAULT_ARTIFACT_REPOSITORY", "http://127.0.0.1:1/")
    with pytest.raises(MissingDependencyError) as caught:
        local_jars()
    text = str(caught.value)
    assert text.startswith(f"{cache}: the jars of Delta and Iceberg are not cached and cannot be downloaded: ")
    assert "127.0.0.1" in text
    assert "geolake demo --prepare" in text
    assert "\n" not in text
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_is_reported(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(MissingDependencyError, match=r"cannot be cached here: Not a directory; set XDG_CACHE_HOME"):
        local_jars()


def test_the_package_is_the_one_that_delta_would_take():
    import delta
    from pyspark.sql import SparkSession

    builder = delta.configure_spark_with_delta_pip(SparkSession.builder)
    assert builder._options["spark.jars.packages"] == delta_package()


@pytest.mark.parametrize("version", ["11.0.2", "1.8.0_402", "16"])
def test_an_old_java_is_refused_by_its_version(version, tmp_path, monkeypatch):
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2018-10-16' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=rf"{java}: Spark does not run on Java {version}; install Java 17"):
        java_version()


def test_a_java_home_without_java_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MissingDependencyError, match=r"bin/java: Spark needs Java, and this one does not run"):
        java_version()
