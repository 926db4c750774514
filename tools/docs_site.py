"""A hook of MkDocs that brings files from outside docs/ into the site. See mkdocs.yml.

- CONTRIBUTING.md, CHANGELOG.md and SECURITY.md become pages, the results of benchmarks become files.
- Links to what is not on the site (source files, folders) become plain text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"

# Files of the repository outside docs/, and where the site has them.
ROOT_PAGES = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md", "SECURITY.md": "security.md"}
PAGES = {**ROOT_PAGES, "README.md": "index.md"}
RESULTS = "benchmarks/results"

LINK = re.compile(r"(?P<image>!?)\[(?P<label>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<path>[^()#\s:]+)(?P<anchor>#[^()\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, uri in ROOT_PAGES.items():
        files.append(File.generated(config, uri, content=(ROOT / name).read_text(encoding="utf-8")))
    for result in sorted((ROOT / RESULTS).iterdir()):
        if result.suffix in (".json", ".png"):
            files.append(File.generated(config, f"{RESULTS}/{result.name}", abs_src_path=str(result)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    uri = page.file.src_uri
    here = ROOT if uri in ROOT_PAGES.values() else (DOCS / uri).parent
    site_folder = os.path.dirname(uri)
    return _linked_inside_site(markdown, here, site_folder, files)


def _linked_inside_site(markdown: str, here: Path, site_folder: str, files: Files) -> str:
    """The text with each link to a file of the repository made a link inside the site, or plain text."""

    def link(found: re.Match[str]) -> str:
        target = Path(os.path.normpath(here / found["path"]))
        if not target.exists() or not target.is_relative_to(ROOT):
            return found[0]
        uri = _uri(target, files)
        if uri is None:
            return found["label"]
        return f"{found['image']}[{found['label']}]({os.path.relpath(uri, site_folder or '.')}{found['anchor'] or ''})"

    return LINK.sub(link, markdown)


def _uri(target: Path, files: Files) -> str | None:
    """The source of the page, or the file, that shows a file of the repository on the site."""
    name = target.relative_to(ROOT).as_posix()
    if target.is_relative_to(DOCS):
        name = target.relative_to(DOCS).as_posix()
        return f"{name}/README.md" if target.is_dir() and (target / "README.md").exists() else name
    if name in PAGES:
        return PAGES[name]
    return name if files.get_file_from_path(name) is not None else None
