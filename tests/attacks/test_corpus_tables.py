"""The tables: what they must say, and what is wrong with one that doesn't."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from corpus_cases import CORPUS

from harness.selftest.corpus import Attack, Corpus, CorpusError, Honest, default_folder, load_corpus

CLASSES = '[A1]\nname = "One"\ntechnique = "somehow"\nmeets = "something"\n'
ATTACK = '[[attack]]\nfile = "one.py"\nclasses = ["A1"]\nproblem = "p"\ndevice = "any"\nverdict = ["rejected"]\n'
Write = Callable[..., Path]


@pytest.fixture
def written(tmp_path: Path) -> Write:
    """Write a small corpus."""

    def write(table: str = ATTACK, classes: str = CLASSES, files: tuple[str, ...] = ("one.py",)) -> Path:
        (tmp_path / "problems" / "p").mkdir(parents=True, exist_ok=True)
        (tmp_path / "problems" / "p" / "reference.py").write_text("")
        (tmp_path / "group").mkdir(exist_ok=True)
        (tmp_path / "group" / "expected.toml").write_text(table)
        (tmp_path / "classes.toml").write_text(classes)
        for name in files:
            (tmp_path / "group" / name).write_text("")
        return tmp_path

    return write


def test_a_small_one_is_read(written: Write) -> None:
    corpus = load_corpus(written())
    (case,) = corpus.cases("cpu")
    assert case.name == "group/one"
    assert case.path.is_file()
    assert case.problem.is_dir()
    assert corpus.elsewhere("cpu") == []


def test_an_entry_is_for_its_device(written: Write) -> None:
    corpus = load_corpus(written(ATTACK.replace('"any"', '"cuda"')))
    assert corpus.cases("cpu") == []
    assert [case.name for case in corpus.elsewhere("cpu")] == ["group/one"]
    assert [case.kind for case in corpus.cases("cuda")] == ["cuda"]


@pytest.mark.parametrize(
    ("table", "classes", "files", "word"),
    [
        (ATTACK + 'verdikt = ["x"]\n', CLASSES, ("one.py",), "verdikt"),
        (ATTACK, CLASSES + 'meats = "x"\n', ("one.py",), "meats"),
        (ATTACK.replace("rejected", "refused"), CLASSES, ("one.py",), "refused"),
        (ATTACK.replace('"A1"', '"A2"'), CLASSES, ("one.py",), "A2"),
        (ATTACK.replace('"p"', '"q"'), CLASSES, ("one.py",), "no problem"),
        (ATTACK, CLASSES, (), "does not exist"),
        (ATTACK, CLASSES, ("one.py", "two.py"), "two.py"),
        (ATTACK + ATTACK, CLASSES, ("one.py",), "twice"),
        (ATTACK, CLASSES + CLASSES.replace("A1", "A2"), ("one.py",), "no submission does A2"),
        (ATTACK, CLASSES + 'not_built = "can\'t be"\n', ("one.py",), "not to be built"),
        (ATTACK.replace("rejected", "accepted") + 'mode = "run"\n', CLASSES, ("one.py",), "at_least"),
        (ATTACK + 'at_least = 0.5\ntwin = "one.py"\n', CLASSES, ("one.py",), "at_least"),
        (ATTACK.replace("rejected", "accepted") + 'mode = "run"\nat_least = 0.5\ntwin = "x.py"\n', CLASSES, ("one.py",),
         "x.py"),
        ("[[attack", CLASSES, ("one.py",), "not UTF-8 TOML"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(written: Write, table: str, classes: str, files: tuple[str, ...], word: str) -> None:
    with pytest.raises(CorpusError, match=word):
        load_corpus(written(table, classes, files))


def test_a_folder_without_one_is_said(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="cannot be read"):
        load_corpus(tmp_path)


def test_a_checkout_has_its_own() -> None:
    assert default_folder() == CORPUS.folder


def test_every_class_of_the_catalogue_is_there() -> None:
    counts = {"A": 30, "B": 28, "C": 18, "D": 12, "E": 25}
    assert list(CORPUS.classes) == [f"{area}{n}" for area, count in counts.items() for n in range(1, count + 1)]


def test_honest_code_is_as_much_in_view_as_attacks() -> None:
    honest = [entry for entry in all_entries(CORPUS) if isinstance(entry, Honest)]
    assert len(honest) >= 30
    assert sum(entry.device != "cuda" for entry in honest) >= 15


def test_classes_that_are_not_about_cuda_are_tried_without_it() -> None:
    built = {
        name
        for entry in all_entries(CORPUS)
        if isinstance(entry, Attack) and entry.device != "cuda" and entry.tested
        for name in entry.classes
    }
    only_cuda = {name for name, each in CORPUS.classes.items() if name not in built and not each.not_built}
    assert only_cuda <= ABOUT_CUDA


ABOUT_CUDA = {
    *("A1", "A2", "A21", "A27", "B2", "D1", "D2", "D3", "D4", "D5", "D6", "D8", "D11", "D12", "E15", "E21", "E22"),
}


def all_entries(corpus: Corpus) -> list[Attack | Honest]:
    return [entry for entries in corpus.tables.values() for entry in entries]
