"""The pages run: every python block of the top-level pages and of `docs/`, each page's blocks in one namespace."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(page: str) -> None:
    """Execute the python blocks in order; a text block right after one must be what it printed."""
    namespace: dict[str, object] = {}
    printed = None
    for fence in FENCE.finditer(page):
        language, block = fence.groups()
        if language == "python":
            lines = page.count("\n", 0, fence.start()) + 1  # a failure then names the page's own line
            with contextlib.redirect_stdout(io.StringIO()) as stream:
                exec(compile("\n" * lines + block, "page", "exec"), namespace)  # noqa: S102
            printed = stream.getvalue()
        elif language == "text" and printed is not None:
            assert block == printed
            printed = None
        else:
            printed = None


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_page_runs(path: Path) -> None:
    """What a page shows is what the library does."""
    run(path.read_text(encoding="utf-8"))


def test_a_wrong_page_fails() -> None:
    """The runner sees an error, and an output that is not what the block prints."""
    run("```python\nx = 1\n```\n\nwords\n\n```python\nprint(x + 1)\n```\n\n```text\n2\n```\n")

    with pytest.raises(AssertionError):
        run("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(NameError):
        run("```python\nunknown\n```\n")
