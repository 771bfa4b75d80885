"""The parts of a release: one version, a changelog by release, wheels that run where their tags say, archives."""

from __future__ import annotations

import datetime
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import build_wheels
import pytest
import release_version
from release import (
    MEMBERS,
    ReleaseFailed,
    build,
    export_commit,
    require_committed,
    tag_problem,
    without_page_links,
    write_checksums,
)
from release_check import BACKENDS, Installation, missing_backends
from release_version import VersionsDiffer

WORKSPACE = Path(__file__).resolve().parents[3]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A copy of the files that name the version."""
    for path in [*release_version.files(), release_version.CHANGELOG]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(WORKSPACE / path, tmp_path / path)
    return tmp_path


def test_version__of_all_files__is_one_and_the_changelog_s_first() -> None:
    number = release_version.version()
    date, text = release_version.section()
    assert text.startswith("### ") or (date, text) == (release_version.UNRELEASED, "\n")
    assert set(release_version.versions()[number]) == set(map(str, release_version.files()))


def test_version__one_file_with_another__is_named(workspace: Path) -> None:
    chart = workspace / "prover/deploy/chart/Chart.yaml"
    chart.write_text(chart.read_text().replace(release_version.version(), "9.9.9"))
    with pytest.raises(VersionsDiffer, match=r"9\.9\.9: prover/deploy/chart/Chart\.yaml"):
        release_version.version(workspace)


def test_changelog__closed_and_begun__has_a_date_and_a_section_for_the_next_version_everywhere(workspace: Path) -> None:
    changelog = workspace / release_version.CHANGELOG
    before, text = release_version.version(), release_version.section(workspace)[1]
    if release_version.section(workspace)[0] == release_version.UNRELEASED:
        with pytest.raises(VersionsDiffer, match="unreleased"):
            release_version.begin("7.8.9", workspace)
        release_version.close(workspace)
        assert release_version.section(workspace) == (datetime.datetime.now(datetime.UTC).date().isoformat(), text)
    with pytest.raises(VersionsDiffer, match="was closed on"):
        release_version.close(workspace)
    with pytest.raises(VersionsDiffer, match="no version"):
        release_version.begin("7.8", workspace)
    release_version.begin("7.8.9", workspace)
    assert release_version.version(workspace) == "7.8.9"
    assert release_version.section(workspace) == (release_version.UNRELEASED, "\n")
    assert f"## {before} (" in changelog.read_text()
    assert '"zkc-shared==7.8.9"' in (workspace / "prover/pyproject.toml").read_text()
    pages = [workspace / path for path in release_version.files() if path.suffix == ".md"]
    assert pages
    assert [page.name for page in pages if before in page.read_text()] == []


def test_notes__links__stay_only_if_they_lead_out_of_the_tree() -> None:
    notes = "See [keys](prover/docs), [known\nlimits](../a#b) and [semver](https://semver.org).\n"
    assert without_page_links(notes) == "See keys, known\nlimits and [semver](https://semver.org).\n"
    assert "](" not in without_page_links(release_version.section()[1]).replace("](https:", "")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A workspace whose files are committed."""
    for member in MEMBERS:
        (tmp_path / member / "src").mkdir(parents=True)
        (tmp_path / member / "src/module.py").write_text("")
    (tmp_path / ".gitignore").write_text("*.so\n")
    author = ("-c", "user.name=test", "-c", "user.email=test@example.com")
    for words in (["init", "--quiet"], ["add", "."], [*author, "commit", "--quiet", "--message=all"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    monkeypatch.setattr("release.WORKSPACE", tmp_path)
    monkeypatch.setattr("release._STATE", tmp_path / "state")
    return tmp_path


def test_release__committed_tree_with_ignored_files_and_files_of_no_archive__is_built_without_them(
    repository: Path,
) -> None:
    (repository / "prover/src/native.so").write_text("")
    (repository / "notes.txt").write_text("")
    require_committed()
    for _ in range(2):
        sources = export_commit()
        files = {str(path.relative_to(sources)) for path in sources.rglob("*") if path.is_file()}
        assert files == {".gitignore", *(f"{member}/src/module.py" for member in MEMBERS)}
        (sources / "object.o").write_text("")


def test_release__archives__are_built_from_the_exported_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show_sources(_folder: Path, _option: str, sources: Path) -> None:
        raise ReleaseFailed(f"built from {sources}")

    monkeypatch.setattr("release.fetch", lambda: None)
    monkeypatch.setattr("release._build", show_sources)
    with pytest.raises(ReleaseFailed, match=f"built from {repository}/state/sources"):
        build()


def test_release__charts__are_packaged_from_the_exported_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def show_sources(service: str, _folder: Path, _version: str, sources: Path) -> Path:
        raise ReleaseFailed(f"{service} packaged from {sources}")

    monkeypatch.setattr("release.fetch", lambda: None)
    monkeypatch.setattr("release._build", lambda *_: [])
    monkeypatch.setattr("release.package_chart", show_sources)
    with pytest.raises(ReleaseFailed, match=f"prover packaged from {repository}/state/sources"):
        build()


@pytest.mark.parametrize(
    "name", ["shared/src/new.py", "prover/deploy/chart/values-ours.yaml", "forester/deploy/chart/templates/größer.yaml"]
)
def test_release__file_that_no_commit_has__is_refused_by_its_name(repository: Path, name: str) -> None:
    (repository / name).parent.mkdir(parents=True, exist_ok=True)
    (repository / name).write_text("")
    with pytest.raises(ReleaseFailed, match=f": {name}; commit or remove them"):
        require_committed()


def test_release__changed_file__is_refused(repository: Path) -> None:
    (repository / "shared/src/module.py").write_text("changed = True\n")
    with pytest.raises(ReleaseFailed, match="uncommitted changes"):
        require_committed()


def audit(tag: str, *, libraries: dict[str, str] | None = None, newer_cpu: bool = False) -> dict[str, object]:
    """Return an answer of auditwheel."""
    return {
        "overall_tag": tag,
        "external_libs": libraries or {},
        "unsupported_isa": newer_cpu,
        "versioned_symbols": {"libc.so.6": ["GLIBC_2.25"]},
    }


def test_tag__of_a_wheel_for_old_systems__is_accepted() -> None:
    assert tag_problem(audit("manylinux_2_26_x86_64"), "x86_64") is None
    assert tag_problem(audit("manylinux_2_28_aarch64"), "aarch64") is None


@pytest.mark.parametrize(
    ("answer", "architecture", "problem"),
    [
        (audit("manylinux_2_34_x86_64"), "x86_64", "needs glibc 2.34, and its tag promises 2.28"),
        (audit("linux_x86_64"), "x86_64", "runs on linux_x86_64 only"),
        (audit("manylinux_2_26_x86_64"), "aarch64", "runs on manylinux_2_26_x86_64 only"),
        (audit("manylinux_2_26_x86_64", libraries={"libgmp.so": "/usr/lib"}), "x86_64", "libgmp"),
        (audit("manylinux_2_26_x86_64", newer_cpu=True), "x86_64", "newer CPU"),
    ],
)
def test_tag__that_promises_too_much__is_refused(answer: dict[str, object], architecture: str, problem: str) -> None:
    assert problem in str(tag_problem(answer, architecture))


def test_wheel__kernel_without_a_backend__is_refused(tmp_path: Path) -> None:
    kernel = next((WORKSPACE / "prover/build/dev").glob("_native*.so")).read_bytes()
    for name, content, missing in (
        ("whole.whl", kernel, []),
        ("without.whl", kernel.replace(b"g16_backend_ifma\0", b"g16_backend_none\0"), ["ifma"]),
    ):
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            archive.writestr("prover/kernel/_native.abi3.so", content)
        architecture = platform.machine()
        assert missing_backends(tmp_path / name, architecture) == [n for n in missing if n in BACKENDS[architecture]]


def test_installation__environment_with_a_compiler__is_refused(tmp_path: Path) -> None:
    (tmp_path / "gcc").symlink_to("/bin/true")
    with pytest.raises(ReleaseFailed, match="gcc"):
        Installation(tmp_path / "python", tmp_path)


def test_checksums__of_a_folder__are_read_by_sha256sum(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tar.gz"):
        (tmp_path / name).write_text(name)
    write_checksums(tmp_path)
    command = ["sha256sum", "--check", "--strict", "SHA256SUMS"]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (0, "a.tar.gz: OK\nb.whl: OK\n")


@pytest.mark.parametrize("member", ["shared", "prover", "forester"])
def test_sdist__of_a_member__has_what_a_build_needs_and_nothing_that_was_made_here(member: str, tmp_path: Path) -> None:
    with tarfile.open(build_wheels.build_sdist(member, tmp_path)) as archive:
        files = {entry.name.partition("/")[2] for entry in archive if entry.isfile()}
    build = {"CMakeLists.txt", f"src/{member}/_native.c"} if member == "shared" else set()
    kernel = {"CMakeLists.txt", "native/include/groth16.h", "native/src/backend.c"} if member == "prover" else set()
    assert {"pyproject.toml", "PKG-INFO", "LICENSE", "README.md"} | build | kernel <= files
    assert {name.partition("/")[0] for name in files} <= {
        *("pyproject.toml", "PKG-INFO", "LICENSE", "README.md", "CMakeLists.txt", "src", "native"),
    }
    tracked = subprocess.run(
        [*("git", "ls-files", "--"), member], cwd=WORKSPACE, capture_output=True, text=True, check=False
    )
    if tracked.returncode == 0:
        assert {f"{member}/{name}" for name in files} - set(tracked.stdout.splitlines()) == {f"{member}/PKG-INFO"}


def test_headers__that_choose_by_architecture__are_resolved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    include = tmp_path / "include" / "python3.11"
    chosen = include.parent / f"{platform.machine()}-linux-gnu" / "python3.11"
    for folder, text in (
        (include, f"#include <{chosen.relative_to(include.parent)}/pyconfig.h>\n"),
        (chosen, "real\n"),
    ):
        folder.mkdir(parents=True)
        (folder / "pyconfig.h").write_text(text)
    monkeypatch.setattr("build_wheels.sysconfig.get_path", lambda _: str(include))
    assert (build_wheels.copied_headers(tmp_path) / "pyconfig.h").read_text() == "real\n"


@pytest.mark.parametrize("architecture", build_wheels.ARCHITECTURES)
def test_compiler__in_a_workspace_with_spaces__is_started_with_its_words(
    architecture: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "a work space" / "python"
    python.parent.mkdir()
    python.write_text('#!/bin/sh\nprintf "%s|" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setattr("build_wheels.sys.executable", str(python))
    monkeypatch.setattr("build_wheels.metadata.version", lambda _: "1")
    monkeypatch.setattr("build_wheels._BUILD", tmp_path / "a work space")
    compiler = build_wheels.compiler_settings(architecture)["CMAKE_C_COMPILER"]
    answer = subprocess.run([compiler, "-c", "a b.c"], capture_output=True, text=True, check=True)
    assert answer.stdout == f"-m|ziglang|cc|-target|{architecture}-linux-gnu.{build_wheels.GLIBC}|-c|a b.c|"


def test_programs__of_releases__explain_themselves() -> None:
    for name in ("release.py", "release_version.py"):
        answer = subprocess.run(
            [sys.executable, f"shared/scripts/{name}", "--help"],
            cwd=WORKSPACE,
            capture_output=True,
            text=True,
            check=False,
        )
        assert answer.returncode == 2
        assert "CHANGELOG.md" in answer.stderr or "dist/VERSION" in answer.stderr
