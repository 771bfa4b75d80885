"""The cron line and the units of the pages, as pasted: with the paths of this machine in place of theirs."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from container_files import WORKSPACE
from solders.keypair import Keypair

PAGES = WORKSPACE / "forester" / "docs" / "how-to"
PAYER = Keypair.from_seed(bytes([9]) * 32)
UNITS = (
    ("health.md", "forester-health.service"),
    ("health.md", "forester-health.timer"),
    ("install.md", "forester.service"),
)


def pasted(page: str, file: str) -> str:
    """Return the block that a page gives a file."""
    found = re.search(
        rf"^`{re.escape(file)}`.*?^```\w+\n(.*?)^```", (PAGES / page).read_text(), re.MULTILINE | re.DOTALL
    )
    assert found is not None, file
    return found[1]


def installed(folder: Path) -> dict[str, str]:
    """Lay out what the page installs below a folder; return the paths that replace those of the page."""
    program = folder / "opt" / "bin" / "forester"
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).with_name("forester"))
    secrets, state = folder / "etc", folder / "var"
    for made in (secrets, state):
        made.mkdir(mode=0o700)
    (secrets / "payer").write_text(json.dumps(list(bytes(PAYER))))
    (secrets / "rpc_url").write_text("http://127.0.0.1:1")
    (secrets / "derivation_pubkey").write_text(str(PAYER.pubkey()))
    for file in secrets.iterdir():
        file.chmod(0o400)
    return {"/opt/forester": str(folder / "opt"), "/etc/forester": str(secrets), "/var/lib/forester": str(state)}


def moved(text: str, places: dict[str, str]) -> str:
    for there, here in places.items():
        text = text.replace(there, here)
    return text


def test_cron__line_of_the_page__appends_one_json_line_and_reports_the_failure(tmp_path: Path) -> None:
    places = installed(tmp_path)
    *settings, line = moved(pasted("health.md", "/etc/cron.d/forester-health"), places).splitlines()
    assert "%" not in line, "cron would end the command there"
    *times, user, command = line.split(None, 6)
    assert (times, user) == (["*/5", "*", "*", "*", "*"], "forester")
    # All that cron sets; the logger is replaced, as it writes to the machine's log.
    variables = {"HOME": str(tmp_path), "LOGNAME": "forester", **dict(item.split("=", 1) for item in settings)}
    assert "/usr/bin/logger --tag" in command
    command = command.replace("/usr/bin/logger", "echo")
    words = [variables["SHELL"], "-c", command]
    for run in (1, 2):
        done = subprocess.run(
            [variables["SHELL"], "-c", command],
            env=variables,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "forester health failed" in done.stdout, done
        lines = (tmp_path / "var" / "health.jsonl").read_text().splitlines()
        assert len(lines) == run
        assert json.loads(lines[-1])["balance"] == {"healthy": False, "code": "unreachable"}
    lock = tmp_path / "var" / "health.lock"
    with subprocess.Popen(["/usr/bin/flock", str(lock), "cat"], stdin=subprocess.PIPE) as holder:
        while subprocess.run(["/usr/bin/flock", "--nonblock", str(lock), "true"]).returncode == 0:
            pass
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=120)
        assert (done.returncode, done.stdout) == (0, "")
        assert holder.stdin is not None
        holder.stdin.close()
    assert len((tmp_path / "var" / "health.jsonl").read_text().splitlines()) == 2


@pytest.mark.parametrize(("page", "unit"), UNITS)
def test_unit__of_a_page__is_accepted_by_systemd(page: str, unit: str, tmp_path: Path) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("systemd-analyze is not installed")
    places = installed(tmp_path / "files")
    units = tmp_path / "units"
    units.mkdir()
    for where, name in UNITS:
        text = moved(pasted(where, f"/etc/systemd/system/{name}"), places)
        (units / name).write_text(text.replace("User=forester", "User=root"))
    checked = subprocess.run([analyze, "verify", "--man=no", units / unit], capture_output=True, text=True, timeout=120)
    ours = [line for line in checked.stderr.splitlines() if "forester" in line]
    assert (checked.returncode, ours) == (0, []), checked.stderr
    if unit.endswith(".timer"):
        [calendar] = re.findall(r"^OnCalendar=(.+)$", (units / unit).read_text(), re.MULTILINE)
        normal = subprocess.run([analyze, "calendar", calendar], capture_output=True, text=True, check=True).stdout
        assert "*-*-* *:00/5:00" in normal


def test_unit__health__command_prints_one_line_with_the_settings_of_the_unit(tmp_path: Path) -> None:
    unit = moved(pasted("health.md", "/etc/systemd/system/forester-health.service"), installed(tmp_path))
    values = dict(line.split("=", 1) for line in unit.splitlines() if "=" in line)
    name, value = values["Environment"].split("=", 1)
    done = subprocess.run(
        values["ExecStart"].split(), env={name: value}, cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)["balance"]["code"] == "unreachable"
    assert done.stdout.count("\n") == 1
