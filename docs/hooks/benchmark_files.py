"""Adds the notes and results of `benchmarks` to the site, as `notes/` and `results/`."""

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


ROOT = Path(__file__).parents[2]
SHOWN = {"notes": (".md",), "results": (".png", ".json", ".jsonl", ".log")}


def on_files(files: Files, config: Any, **_: Any) -> Files:
    for folder, kinds in SHOWN.items():
        for path in sorted((ROOT / "benchmarks" / folder).iterdir()):
            if path.suffix in kinds:
                name = f"{folder}/{path.name}"
                files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """In the repository pages link to files of `benchmarks`; in the site they stand beside them."""
    up = "../" * page.file.src_uri.count("/")
    for folder in SHOWN:
        markdown = markdown.replace(f"]({up}../benchmarks/{folder}/", f"]({up}{folder}/")
    return markdown
