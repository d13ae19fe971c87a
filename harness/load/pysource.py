"""Python text that nobody has run yet: parse it safely, and list what it binds at its top level."""

from __future__ import annotations

import ast
import warnings


class SourceSyntaxError(Exception):
    """Text that is not Python. ``line`` and ``column`` count from 1 (0: unknown); ``text`` is that line, cut short."""

    def __init__(self, message: str, line: int = 0, column: int = 0, text: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.text = text[:200]


def parse_source(source: str) -> ast.Module:
    """Parse without running. Raises SourceSyntaxError, also for what makes Python's own parser give up."""
    try:
        with warnings.catch_warnings():  # an invalid escape in a CUDA string is the author's business
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except SyntaxError as error:
        text = (error.text or "").rstrip("\n")
        raise SourceSyntaxError(error.msg or "invalid syntax", error.lineno or 0, error.offset or 0, text) from None
    except (RecursionError, MemoryError):
        raise SourceSyntaxError("nested too deeply to be parsed") from None
    except ValueError as error:  # null bytes, lone surrogates
        raise SourceSyntaxError(str(error) or "text that cannot be parsed") from None


def top_level_names(tree: ast.Module) -> set[str]:
    """Names that running the module may bind in its namespace; ``"*"`` stands for a star import."""
    names: set[str] = set()
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
                # Its body binds in a scope of its own; its decorators and defaults bind nothing worth finding.
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update((alias.asname or alias.name).split(".")[0] for alias in aliases)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                pass
            case _:
                pending.extend(ast.iter_child_nodes(node))
    return names


def top_level_classes(tree: ast.Module) -> list[str]:
    """Names of the classes that the module defines at its top level, in order."""
    return [statement.name for statement in tree.body if isinstance(statement, ast.ClassDef)]
