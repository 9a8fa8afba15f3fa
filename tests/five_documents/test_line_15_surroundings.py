"""Line 15: the suite does not depend on how, where and beside what it is started."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading

import pytest

from tests.__main__ import apt_get

_CONFTEST = "import tests.conftest, signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"


def test_tests_that_are_started_with_sigint_ignored_can_be_interrupted():
    command = f"trap '' INT; {sys.executable} -c '{_CONFTEST}'"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_a_command_that_ignores_sighup_as_under_nohup_goes_on(tmp_path):
    code = (
        "import os, signal, sys; from geolake_nb.cli import _cancelled_by_signals\n"
        "with _cancelled_by_signals():\n"
        "    os.kill(os.getpid(), signal.SIGHUP)\n"
        "    print('alive')"
    )
    for trap, expected in (("trap '' HUP; ", "alive\n"), ("", "")):
        command = f'{trap}exec {sys.executable} -c "$CODE"'
        done = subprocess.run(
            ["sh", "-c", command], env={**os.environ, "CODE": code}, capture_output=True, text=True, check=False
        )
        assert done.stdout == expected
        assert ("KeyboardInterrupt" in done.stderr) == (not expected)


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="there is no apt-get")
def test_apt_get_waits_for_the_lock_of_another_one(tmp_path):
    lists = tmp_path / "lists"
    (lists / "partial").mkdir(parents=True)
    options = [f"Dir::State::Lists={lists}", "Dir::Etc::SourceList=/dev/null", "Dir::Etc::SourceParts=/dev/null"]
    words = ["update", "-qq", *(word for option in options for word in ("-o", option))]
    with (lists / "lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        with pytest.raises(SystemExit, match="Could not get lock"):
            apt_get(*words, patience=0)
        threading.Timer(1, lock.close).start()
        apt_get(*words)
        assert lock.closed


def test_the_name_of_a_signal_is_in_the_exit_code():
    code = "import os, signal; from geolake_nb import cli\n"
    code += "cli.schema.run = lambda _: os.kill(os.getpid(), signal.SIGTERM)\n"
    code += "raise SystemExit(cli.main(['schema', 'roads']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, "geolake: cancelled\n")
