"""Adds a page with the source of each program of `examples` to the site, as `examples/`."""

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


FOLDER = Path(__file__).parents[2] / "examples"
IMPORT = re.compile(r"^\s*(?:from|import) (_[a-z]\w*)", re.MULTILINE)
LINK = re.compile(r"\]\(\.\./\.\./examples/(\w+)\.py\)")


def on_files(files: Files, config: Any, **_: Any) -> Files:
    for program in sorted(FOLDER.glob("[!_]*.py")):
        name = f"examples/{program.stem}.md"
        files.append(File.generated(config, name, content=page_of(program.stem)))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """In the repository pages link to the programs; in the site to their pages."""
    return LINK.sub(r"](../examples/\1.md)", markdown)


def page_of(program: str) -> str:
    lines = [
        "---",
        "search:",
        "  exclude: true",
        "---",
        f"# {program}.py",
        "",
        f"A program of the [gallery](../guides/gallery.md#{program}).",
    ]
    for name in files_of(program):
        source = (FOLDER / f"{name}.py").read_text()
        lines += ["", f"## `examples/{name}.py`", "", "~~~~python", source.rstrip(), "~~~~"]
    return "\n".join(lines) + "\n"


def files_of(program: str) -> list[str]:
    """The program, then the modules beside it that it imports, directly or not."""
    names = [program]
    for name in names:
        found = IMPORT.findall((FOLDER / f"{name}.py").read_text())
        names += [x for x in dict.fromkeys(found) if x not in names]
    return names
