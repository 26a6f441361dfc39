"""Notebooks print what is stored in them: cell by cell in this process, and, where there is time, in a kernel."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

Cell = dict


def code_cells(notebook: dict) -> list[Cell]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def text_of(text: str | list[str]) -> str:
    return text if isinstance(text, str) else "".join(text)


def shown(cell: Cell) -> str:
    """What a cell prints, and then the text of what its last line is."""
    parts = []
    for output in cell["outputs"]:
        assert output["output_type"] in ("stream", "execute_result"), output
        parts.append(text_of(output["text"] if "text" in output else output["data"]["text/plain"]))
    return "".join(parts).strip()


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_print_what_is_stored(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "__main__"}
    stored = code_cells(json.loads(path.read_text()))
    assert [cell["execution_count"] for cell in stored] == list(range(1, len(stored) + 1))
    for number, cell in enumerate(stored, 1):
        tree = ast.parse(text_of(cell["source"]))
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        capsys.readouterr()
        exec(compile(tree, f"{path.name}, cell {number}", "exec"), names)
        value = eval(compile(ast.Expression(last.value), path.name, "eval"), names) if last else None
        printed = capsys.readouterr().out + (repr(value) if value is not None else "")
        assert printed.strip() == shown(cell), f"{path.name}, cell {number}"


@pytest.mark.long
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_runs_in_a_kernel_and_shows_what_is_stored(path, tmp_path):
    import nbformat
    from nbclient import NotebookClient

    stored = code_cells(json.loads(path.read_text()))
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=240,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(tmp_path)}},
    )
    client.execute()
    assert [shown(cell) for cell in code_cells(notebook)] == [shown(cell) for cell in stored]


def test_notebooks_are_linked_where_one_looks_for_them():
    assert NOTEBOOKS
    for page in ("README.md", "docs/index.md", "examples/README.md"):
        linked = set(re.findall(r"(\w+)\.ipynb", (ROOT / page).read_text()))
        assert linked == {path.stem for path in NOTEBOOKS}, page
