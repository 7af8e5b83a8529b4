"""The version stands in several files, which must agree."""

import re
import tomllib
from pathlib import Path


ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_kernels_are_of_the_same_version():
    for major in (12, 13):
        assert PROJECT["optional-dependencies"][f"cuda{major}"] == [
            f"jax[cuda{major}]>=0.10",
            f"jaxmatch-cuda{major}=={PROJECT['version']}",
        ]


def test_citation_and_changelog_tell_the_version():
    """And the date, once there is one."""
    citation = (ROOT / "CITATION.cff").read_text()
    cited = re.findall(r"^(?:version|date-released): \"?([^\"\n]+)", citation, re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text()
    (version, date), *_ = re.findall(r"^## (\d\S*) - (\S+)$", changelog, re.MULTILINE)
    assert cited == [version] + [date] * (date != "unreleased")
    assert version == PROJECT["version"]


def test_page_of_installation_tells_the_version():
    page = (ROOT / "docs" / "index.md").read_text()
    assert re.findall(r"^Version (\S+)", page, re.MULTILINE) == [PROJECT["version"]]
