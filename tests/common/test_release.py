"""The version stands in several files, which must agree; and what PyPI shows."""

import re
import tomllib
from pathlib import Path

import pytest


ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = SETTINGS["project"]
LINK = re.compile(r"\]\(([^)\s]+)|(?:src|href)=\"([^\"]+)")


def shown_on_pypi():
    """README as hatch-fancy-pypi-readme changes it when metadata are made."""
    hook = SETTINGS["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = "".join((ROOT / fragment["path"]).read_text() for fragment in hook["fragments"])
    for change in hook["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    return text


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


def test_links_on_pypi_are_absolute():
    """And each leads to a file of this release."""
    files = f"{PROJECT['urls']['Repository']}/blob/v{PROJECT['version']}/"
    before, after = (
        [a or b for a, b in LINK.findall(text)]
        for text in ((ROOT / "README.md").read_text(), shown_on_pypi())
    )
    assert len(before) == len(after) > 20
    for relative, link in zip(before, after, strict=True):
        if relative.startswith("https://"):
            assert link == relative
        else:
            path, _, end = relative.partition("#")
            assert (ROOT / path).exists()
            picture = path.endswith((".png", ".webp"))
            assert link == files + relative + "?raw=true" * picture and not (picture and end)


def test_code_on_pypi_is_that_of_readme():
    code = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
    assert code.findall(shown_on_pypi()) == code.findall((ROOT / "README.md").read_text())


@pytest.mark.parametrize("major", ["12", "13"])
def test_kernels_have_the_same_addresses(major):
    text = (ROOT / "packaging" / "cuda" / "pyproject.toml").read_text()
    text = text.replace("REPOSITORY", PROJECT["urls"]["Repository"]).replace("MAJOR", major)
    assert tomllib.loads(text)["project"]["urls"] == PROJECT["urls"]


def test_nothing_is_published_with_the_placeholder():
    """The name in `pyproject.toml`, if it is one still, is that which the workflow refuses."""
    refused = "repository.invalid"
    for path in (".github/workflows/release.yml", "CONTRIBUTING.md"):
        assert refused in (ROOT / path).read_text()
    addresses = re.findall(r"https://[^\s\"']+", (ROOT / "pyproject.toml").read_text())
    hosts = {address.split("/")[2] for address in addresses if "jaxmatch" in address}
    assert len(hosts) == 1 and (refused in hosts or not any(".invalid" in x for x in hosts))
