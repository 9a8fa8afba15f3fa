"""`geolake demo`: the notebooks in a folder, what they need, and JupyterLab open on the first of them."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from geolake_nb.cli import main
from geolake_nb.spark.session import local_jars
from tests.jupyter.browser import artefacts, headless_browser

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
FIRST = "01-why-does-my-query-read-everything.ipynb"
COMMAND = [sys.executable, "-c", "import sys; from geolake_nb.cli import main; sys.exit(main())", "demo"]


def prepare(capsys, folder):
    code = main(["demo", "--prepare", "--folder", str(folder)])
    return code, *capsys.readouterr()


def test_prepare_copies_every_notebook_and_says_where_things_are(capsys, tmp_path):
    local_jars()  # a machine that has none yet hears of that too
    code, out, err = prepare(capsys, tmp_path / "new" / "demo")
    assert (code, err) == (0, "")
    copied = sorted((tmp_path / "new" / "demo").iterdir())
    assert [path.name for path in copied] == [path.name for path in NOTEBOOKS]
    assert [path.read_bytes() for path in copied] == [path.read_bytes() for path in NOTEBOOKS]
    message = [line.partition(":")[0] for line in out.splitlines()]
    assert message == ["notebooks", "Java", "jars of Delta and Iceberg", "compiled kernels"]
    assert f"notebooks: {len(NOTEBOOKS)} in {tmp_path}" in out
    assert str(local_jars()[0].parent) in out


def test_what_a_user_has_changed_is_kept_and_what_is_gone_comes_back(capsys, tmp_path):
    prepare(capsys, tmp_path)
    mine, gone = tmp_path / NOTEBOOKS[0].name, tmp_path / NOTEBOOKS[1].name
    mine.write_text("mine")
    gone.unlink()
    code, out, _ = prepare(capsys, tmp_path)
    assert code == 0
    assert mine.read_text() == "mine"
    assert gone.read_bytes() == NOTEBOOKS[1].read_bytes()
    [line] = [line for line in out.splitlines() if line.startswith("kept")]
    assert line.endswith(f": {mine.name}")


def test_without_java_one_sentence_says_what_to_install(capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    code, out, err = prepare(capsys, tmp_path)
    assert code == 3
    assert out.startswith("notebooks: ")
    [line] = err.splitlines()
    assert re.match(r"geolake: Spark needs Java, .*; install Java 17 or later .*openjdk-17-jre-headless", line)


def test_a_folder_that_cannot_be_created_is_reported(capsys, tmp_path):
    (tmp_path / "file").touch()
    code, out, err = prepare(capsys, tmp_path / "file")
    assert (code, out) == (3, "")
    message = "the folder cannot be created: File exists; name another --folder"
    assert err == f"geolake: {tmp_path / 'file'}: {message}\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_while_jars_are_fetched_leaves_no_part_of_them(tmp_path, number):
    with socket.socket() as silent:  # a repository that takes requests and never answers
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        repository = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        process = subprocess.Popen(
            [*COMMAND, "--prepare", "--folder", str(tmp_path / "demo")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "XDG_CACHE_HOME": str(tmp_path), "DEFAULT_ARTIFACT_REPOSITORY": repository},
            text=True,
            start_new_session=True,
        )
        silent.settimeout(300)
        try:
            with silent.accept()[0]:
                if number == signal.SIGTERM:
                    process.terminate()  # as a scheduler does, to the command alone
                else:
                    os.killpg(process.pid, number)  # as a terminal does, to Java too
                _, err = process.communicate(timeout=300)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
    assert (process.returncode, err) == (128 + number, "geolake: cancelled\n")
    assert list((tmp_path / "geolake_nb" / "jars").iterdir()) == []


def test_a_port_in_use_is_refused(capsys, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code = main(["demo", "--no-browser", "--folder", str(tmp_path / "demo"), "--port", str(port)])
    message = f"geolake: 127.0.0.1: port {port} cannot be used: Address already in use; name another --port\n"
    assert (code, *capsys.readouterr()) == (3, "", message)


@pytest.fixture
def unused_jupyter(tmp_path, monkeypatch):
    """Folders of its own for all that Jupyter and the demo write, but the jars that are here already."""
    cache = tmp_path / "cache" / "geolake_nb"
    cache.mkdir(parents=True)
    (cache / "jars").symlink_to(local_jars()[0].parents[1])
    for name, folder in {"XDG_CACHE_HOME": cache.parent, "JUPYTER_CONFIG_DIR": tmp_path / "users"}.items():
        monkeypatch.setenv(name, str(folder))
    for name in ("JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR"):
        monkeypatch.setenv(name, str(tmp_path / "jupyter"))


@pytest.fixture
def served(tmp_path, unused_jupyter):
    """The running command and the URL that it has printed."""
    with (tmp_path / "errors").open("wb") as errors:
        process = subprocess.Popen(
            [*COMMAND, "--no-browser", "--folder", "demo"],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=tmp_path,
            env={key: value for key, value in os.environ.items() if not key.startswith("PYTEST")},
            text=True,
        )
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if line.startswith("JupyterLab: "):
            break
    else:
        pytest.fail("".join(lines) + (tmp_path / "errors").read_text())
    yield process, lines[-1].split()[1]
    process.send_signal(signal.SIGINT)
    try:
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_no_browser_prints_a_url_that_answers_and_ctrl_c_ends_it(served, tmp_path):
    process, address = served
    with urllib.request.urlopen(address) as page:
        assert page.status == 200
        assert "@jupyterlab/apputils-extension:announcements" in page.read().decode()
    server, _, token = address.replace("lab/tree", "api/contents").partition("?token=")
    authorized = urllib.request.Request(server, headers={"Authorization": f"token {token}"})
    with urllib.request.urlopen(authorized) as answer:
        assert json.load(answer)["content"]["cells"]
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(server)
    assert server.endswith(f"/{FIRST}")
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert (tmp_path / "errors").read_text() == ""
    assert not (tmp_path / "users").exists(), "the user's own settings are not touched"


def test_the_page_shows_the_first_notebook_and_asks_no_other_host(served, tmp_path):
    _, address = served
    with headless_browser() as browser:
        page = browser.new_page()
        calls: list[str] = []
        page.on("request", lambda request: calls.append(request.url))
        page.set_default_timeout(120_000)  # a server that has just begun, on a busy machine
        page.goto(address)
        page.wait_for_selector(".jp-NotebookPanel .jp-Cell")
        page.wait_for_selector(f".lm-mod-current >> text={FIRST}")
        page.wait_for_timeout(2000)  # what JupyterLab asks once it is up
        page.screenshot(path=artefacts(tmp_path) / "demo.png")
        assert page.locator("text=Jupyter news").count() == 0
    hosts = {re.match(r"\w+:(?://)?([^/:,;]*)", url)[1] for url in calls if not url.startswith(("data:", "blob:"))}
    assert hosts == {"127.0.0.1"}
    assert not [url for url in calls if "/lab/api/news" in url or "/lab/api/update" in url]
