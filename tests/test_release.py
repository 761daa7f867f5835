"""The files of a release parse, and agree with pyproject.toml, the changelog and each other."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
VERSION: str = runpy.run_path(str(ROOT / "src" / "pellucid" / "version.py"))["__version__"]
PREFIX = "Programming Language :: Python :: 3."
PYTHONS = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["project"]["classifiers"]
    if classifier.startswith(PREFIX)
]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
DOCKERFILES = sorted((ROOT / "docker").glob("*.Dockerfile"))
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def read_yaml(file: Path) -> dict[str, Any]:
    return yaml.safe_load(file.read_text("utf-8"))


def steps_of(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_changelog_begins_with_this_version_and_its_sections_are_those_of_the_format() -> None:
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    versions = re.findall(r"^## \[(\S+)\] - (.+)$", text, re.M)
    assert len(versions) == len(re.findall(r"^## ", text, re.M))
    released = [version for version in versions if version[0] != "Unreleased"]
    assert released[0][0] == VERSION
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", released[0][1])
    sections = set(re.findall(r"^### (.+)$", text, re.M))
    assert sections <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def test_the_citation_is_of_this_version() -> None:
    citation = read_yaml(ROOT / "CITATION.cff")
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == VERSION
    assert f"## [{VERSION}] - {citation['date-released']}" in text
    assert citation["license"] == PROJECT["project"]["license"]
    assert citation["authors"] == [{"name": "The pellucid contributors"}]


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_has_least_rights_limits_and_pinned_actions(file: Path) -> None:
    workflow = read_yaml(file)
    assert workflow["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 90 for job in workflow["jobs"].values())
    for step in steps_of(workflow):
        assert ("uses" in step) != ("run" in step)
        if "uses" in step:
            assert re.fullmatch(r"[\w./-]+@(v\d+|release/v\d+|[0-9a-f]{40})", step["uses"])


@pytest.mark.parametrize("file", WORKFLOWS, ids=lambda file: file.name)
def test_a_workflow_names_only_extras_and_tests_that_there_are(file: Path) -> None:
    extras = PROJECT["project"]["optional-dependencies"].keys()
    for step in steps_of(read_yaml(file)):
        for names in re.findall(r"\.\[([\w,-]+)\]", step.get("run", "")):
            assert set(names.split(",")) <= extras
        for path in re.findall(r"(?<!\S)tests/\S+", step.get("run", "")):
            assert (ROOT / path).exists(), path


def test_the_tests_run_on_every_python_and_system_that_is_promised() -> None:
    matrix = read_yaml(ROOT / ".github/workflows/ci.yml")["jobs"]["tests"]["strategy"]["matrix"]
    assert matrix["python"] == PYTHONS
    assert PROJECT["project"]["requires-python"] == f">={PYTHONS[0]}"
    assert matrix["os"] == ["ubuntu-latest", "macos-latest", "windows-latest"]
    newest = read_yaml(ROOT / ".github/workflows/newest.yml")["jobs"]
    assert newest["tests"]["strategy"]["matrix"]["python"] == [PYTHONS[0], PYTHONS[-1]]
    assert "lowest-direct" in str(newest["oldest"]["steps"])


def test_a_release_is_attested_has_a_list_of_its_parts_and_needs_no_token() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text("utf-8")
    workflow = read_yaml(ROOT / ".github/workflows/release.yml")
    used = [step["uses"].partition("@")[0] for step in steps_of(workflow) if "uses" in step]
    assert {"actions/attest-build-provenance", "actions/attest-sbom"} <= set(used)
    (publish,) = (
        step for step in steps_of(workflow) if "gh-action-pypi-publish" in step.get("uses", "")
    )
    assert publish["with"]["attestations"] is True
    assert "cyclonedx-py" in text
    assert "secrets." not in text
    assert workflow["jobs"]["publish"]["permissions"] == {"id-token": "write"}


@pytest.mark.parametrize("file", DOCKERFILES, ids=lambda file: file.name)
def test_a_dockerfile_has_a_supported_python_no_root_and_files_that_there_are(file: Path) -> None:
    lines = file.read_text("utf-8").replace("\\\n", " ").splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    (base,) = (line[1] for line in words if line[0] == "FROM")
    assert base.removeprefix("python:").removesuffix("-slim") in PYTHONS
    users = [line[1] for line in words if line[0] == "USER"]
    assert users
    assert "root" not in users
    ignored = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    for line in words:
        if line[0] == "COPY":
            for name in line[1:-1]:
                assert (ROOT / name).exists()
                assert f"!{name}" in ignored
    assert words[-2] == ["ENTRYPOINT", '["pellucid"]']
    assert "Not built by us" in file.read_text("utf-8")


@pytest.mark.parametrize("file", TEMPLATES, ids=lambda file: file.name)
def test_an_issue_template_parses_and_asks_for_what_we_need(file: Path) -> None:
    template = read_yaml(file)
    if file.name == "config.yml":
        assert template["blank_issues_enabled"] is True
        return
    assert {"name", "description", "body"} <= template.keys()
    ids = [field["id"] for field in template["body"]]
    assert len(set(ids)) == len(ids)
    if file.name == "bug.yml":
        assert "pellucid doctor" in str(template)


def test_private_reports_go_through_the_host_and_name_no_address() -> None:
    for name in ("SECURITY.md", "CODE_OF_CONDUCT.md"):
        text = (ROOT / name).read_text("utf-8")
        assert "Report a vulnerability" in text
        assert "@" not in text


def test_what_keeps_the_tools_fresh_agrees_with_pyproject() -> None:
    updates = read_yaml(ROOT / ".github/dependabot.yml")["updates"]
    assert {update["package-ecosystem"] for update in updates} == {
        "github-actions",
        "pip",
        "docker",
    }
    assert all((ROOT / update["directory"].strip("/")).is_dir() for update in updates)
    hooks = read_yaml(ROOT / ".pre-commit-config.yaml")["repos"]
    (ruff,) = (repo for repo in hooks if repo["repo"].endswith("ruff-pre-commit"))
    (pin,) = (x for x in PROJECT["project"]["optional-dependencies"]["checks"] if "ruff" in x)
    assert ruff["rev"].startswith(pin.replace("ruff==", "v").rstrip("*"))


def test_what_a_source_distribution_names_is_there() -> None:
    included = PROJECT["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all((ROOT / name).exists() for name in included)
