"""What `mkdocs` does besides for this site: pages and files from outside `docs/`, and links to them.

Links in the documents are those of the repository, so that they work where the repository is read. Here each becomes the
link between the same two files in the site, where what is in `docs/` is at the top.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
BESIDE = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "benchmarks/**/*.py",
    "benchmarks/**/*.md",
    "benchmarks/results/*.json",
    "deploy/**/*",
    "examples/**/*",
    "pyproject.toml",
)
"""Files from outside `docs/` that documents may link to."""
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)\s]*)?\)")
_FENCE = re.compile(r"(^```.*?^```)", re.S | re.M)


def on_files(files: Any, config: Any) -> Any:
    """Add what is beside `docs/`."""
    for pattern in BESIDE:
        for path in sorted(ROOT.glob(pattern)):
            if path.is_file() and "__pycache__" not in path.parts:
                place = path.relative_to(ROOT).as_posix()
                files.append(File(place, str(ROOT), config["site_dir"], config["use_directory_urls"]))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Have links lead to where files are in the site."""
    source = Path(page.file.abs_src_path).relative_to(ROOT).as_posix()
    here = posixpath.dirname(page.file.src_uri)

    def in_site(found: re.Match[str]) -> str:
        shown, label, target, anchor = found.groups()
        if re.match(r"[a-z]+:|/", target):
            return found.group(0)
        place = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        path = ROOT / place
        if path.is_dir():
            index = [name for name in ("index.md", "README.md") if (path / name).exists()]
            if not index:
                return label
            place = f"{place}/{index[0]}"
        place = place.removeprefix("docs/")
        return f"{shown}[{label}]({posixpath.relpath(place, here or '.')}{anchor or ''})"

    parts = _FENCE.split(markdown)
    return "".join(part if part.startswith("```") else _LINK.sub(in_site, part) for part in parts)
