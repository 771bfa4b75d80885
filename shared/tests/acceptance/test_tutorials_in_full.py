"""Tutorials with their long blocks: packages from npm, keys of one's own, folded keys."""

import subprocess
from pathlib import Path

import pytest
from tutorial import WORKSPACE, can_isolate, play, steps

PAGES = [
    page
    for page in sorted(WORKSPACE.glob("*/docs/tutorials/*.md"))
    if steps(page, long=True) != steps(page, long=False)
]
# Those that the page installs.
PACKAGES = ("@lightprotocol/stateless.js@0.23.3", "@solana/web3.js@1.98.4")


@pytest.fixture(scope="session")
def npm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of npm with the packages of the tutorials, because their shell reaches no registry."""
    folder = tmp_path_factory.mktemp("npm")
    command = ["npm", "install", "--silent", "--cache", str(folder / "cache"), *PACKAGES]
    try:
        answer = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("npm is not installed")
    if answer.returncode != 0:
        pytest.skip(f"npm cannot fetch {', '.join(PACKAGES)}: {answer.stderr.strip()[-300:]}")
    return folder / "cache"


@pytest.mark.skipif(not can_isolate(), reason="unshare --net is not permitted, so ports may be in use")
@pytest.mark.timeout(1500)  # keys are set up and folded
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tutorial__with_its_long_blocks__does_what_it_shows(page: Path, tmp_path: Path, npm_cache: Path) -> None:
    variables = {"npm_config_cache": str(npm_cache), "npm_config_offline": "true"}
    assert play(page, tmp_path, limit_s=1200, long=True, variables=variables) > len(steps(page))
