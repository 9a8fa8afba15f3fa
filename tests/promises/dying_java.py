"""A JVM that stops at each point of a commit: where it creates, writes, renames or removes a file of a table.

At each point the JVM runs a shell script, with the number of the point as `$0`. What a killed process leaves is the
folder as it is at that moment: a script that copies the folder shows it, and one that kills the JVM proves it.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

# For the compiler that Spark has on board, which knows no lambdas.
_SOURCE = """
import java.io.IOException;
import java.io.OutputStream;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class Dying extends LocalFileSystem {
    static int passed = 0;

    public Dying() { super(new Raw()); }

    public static class Raw extends RawLocalFileSystem {
        synchronized void pass(Path path) throws IOException {
            if (!path.toUri().getPath().startsWith(getConf().get("dying.folder"))) return;
            synchronized (Dying.class) {
                passed++;
                String[] command = {"sh", "-c", getConf().get("dying.script"), Integer.toString(passed)};
                try {
                    if (new ProcessBuilder(command).start().waitFor() != 0) throw new IOException("the script failed");
                } catch (InterruptedException problem) {
                    throw new IOException(problem);
                }
            }
        }

        protected OutputStream createOutputStreamWithMode(Path path, boolean append, FsPermission permission)
                throws IOException {
            pass(path);
            return new Torn(this, path, super.createOutputStreamWithMode(path, append, permission));
        }

        public boolean rename(Path source, Path target) throws IOException {
            pass(source);
            boolean done = super.rename(source, target);
            pass(target);
            return done;
        }

        public boolean delete(Path path, boolean recursive) throws IOException {
            pass(path);
            return super.delete(path, recursive);
        }
    }

    static class Torn extends OutputStream {
        final Raw files;
        final Path path;
        final OutputStream to;

        Torn(Raw files, Path path, OutputStream to) {
            this.files = files;
            this.path = path;
            this.to = to;
        }

        public void write(int one) throws IOException { to.write(one); }

        public void write(byte[] data, int from, int count) throws IOException {
            files.pass(path);
            to.write(data, from, count / 2);
            to.flush();
            files.pass(path);
            to.write(data, from + count / 2, count - count / 2);
            to.flush();
        }

        public void flush() throws IOException { to.flush(); }

        public void close() throws IOException { to.close(); }
    }
}
"""


@contextmanager
def stopping_at_points(spark: SparkSession, folder: Path, script: str) -> Iterator[None]:
    """Run the script at every point for what is below the folder, as long as the block lasts."""
    jvm: Any = spark._jvm
    context: Any = spark._jsc
    settings = context.hadoopConfiguration()
    loader = settings.getClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(loader)
    compiler.cook(_SOURCE)
    own = {
        "dying.folder": str(folder),
        "dying.script": script,
        "fs.file.impl": "Dying",
        "fs.file.impl.disable.cache": "true",
    }
    for name, value in own.items():
        settings.set(name, value)
    thread = jvm.Thread.currentThread()
    before = thread.getContextClassLoader()
    # Iceberg takes the settings alone, and looks for classes where the thread does.
    for setter in (settings.setClassLoader, thread.setContextClassLoader):
        setter(compiler.getClassLoader())
    try:
        yield
    finally:
        settings.setClassLoader(loader)
        thread.setContextClassLoader(before)
        for name in own:
            settings.unset(name)
