"""What a JVM logs and prints while a block runs."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

_MARK = "the log is being read"


@contextmanager
def jvm_output(spark: SparkSession, file: Path) -> Iterator[None]:
    """Write to the file all that the JVM of the session logs from warnings on, and prints; see that it got there."""
    jvm: Any = spark._jvm
    system, log4j = jvm.java.lang.System, jvm.org.apache.logging.log4j
    before = system.out, system.err
    printed = jvm.java.io.PrintStream(jvm.java.io.FileOutputStream(str(file), True), True)
    context = log4j.LogManager.getContext(False)
    # Loggers print their records to the standard error that was there when they began: this one begins now.
    layout = log4j.core.layout.PatternLayout.newBuilder().withPattern("%p %c %m%n%throwable").build()
    appender = log4j.core.appender.OutputStreamAppender.createAppender(layout, None, printed, "read", False, True)
    appender.start()
    root = context.getConfiguration().getRootLogger()
    level = root.getLevel()
    root.addAppender(appender, None, None)
    root.setLevel(log4j.Level.WARN)
    context.updateLoggers()
    system.setOut(printed)
    system.setErr(printed)
    try:
        log4j.LogManager.getLogger("geolake").warn(_MARK)
        system.err.println(f"{_MARK}, printed")
        yield
    finally:
        system.setOut(before[0])
        system.setErr(before[1])
        root.removeAppender("read")
        root.setLevel(level)
        context.updateLoggers()
        printed.close()
    lines = file.read_text().splitlines()
    assert f"WARN geolake {_MARK}" in lines
    assert f"{_MARK}, printed" in lines
