"""The table of attack classes in docs/trust.md, made from the corpus.

python -m scripts.trust_table           # prints it
python -m scripts.trust_table --write   # puts it between the page's two marks
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness.selftest.corpus import Attack, Corpus, default_folder, load_corpus

PAGE = Path(__file__).resolve().parent.parent / "docs" / "trust.md"
BEGIN, END = "<!-- made by scripts/trust_table.py -->\n", "<!-- end -->\n"
AREAS = {
    "A": "Timing",
    "B": "Output",
    "C": "Precision and what was asked for",
    "D": "Whose work it is",
    "E": "Process, files, channel",
}


def table(corpus: Corpus) -> str:
    """One table for each area."""
    parts = []
    for area, title in AREAS.items():
        lines = [f"### {title}\n", "| class | how it fools a grader | what it meets here | in the corpus |"]
        lines.append("| --- | --- | --- | --- |")
        for name, each in corpus.classes.items():
            if name.startswith(area):
                cells = (f"{name} {each.name}", each.technique, each.meets, _entries(corpus, name))
                lines.append(f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _entries(corpus: Corpus, name: str) -> str:
    if why := corpus.classes[name].not_built:
        return f"not built: {why}"
    found = []
    for group, entries in corpus.tables.items():
        for entry in entries:
            if isinstance(entry, Attack) and name in entry.classes:
                where = " (GPU)" if entry.device == "cuda" else ""
                known = ": **gets through**" if entry.open else ""
                found.append(f"`{group}/{Path(entry.file).stem}`{where}{known}")
    return ", ".join(found)


def with_table(page: str, corpus: Corpus) -> str:
    """The page with the table as it is now."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(corpus)}\n{END}{after}"


def main() -> int:
    """Print or write."""
    corpus = load_corpus(default_folder())
    if "--write" in sys.argv:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), corpus), encoding="utf-8")
    else:
        print(table(corpus))
    return 0


if __name__ == "__main__":
    sys.exit(main())
