"""Nested values of tensors and plain Python, taken apart for the wire and put together again.

    value     (x, [3, None], {"mask": m})
    skeleton  {"tuple": [{"leaf": 0}, {"list": [{"int": 3}, {"none": null}]}, {"dict": [["mask", {"leaf": 1}]]}]}
    leaves    [x, m]

The skeleton is JSON. A value that has no place in it (an object, a generator, a set) becomes {"other": "its.type"}, so
that the other side can say what it got. Used on both sides of the wire.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Skeleton = dict[str, Any]

MAX_NODES = 10_000
MAX_DEPTH = 50

# JSON keeps whole numbers whole only up to 64 bits in many readers, and no float's last bit: both travel as text.
_SCALARS: dict[str, type] = {"bool": bool, "int": int, "float": float, "complex": complex, "str": str}


class TreeError(ValueError):
    """A value that is too large, too deep or no skeleton at all."""


def take_apart(value: object, *, sort_keys: bool = False) -> tuple[Skeleton, list[torch.Tensor]]:
    """The skeleton of a value and its tensors in order. Raises TreeError for one too large or too deep.

    With `sort_keys` dictionaries that differ in order alone are the same.

    Only exact built-in containers are entered: a subclass could compute on access, and is {"other"}. The named tuples
    that torch's own operators return count as tuples.
    """
    leaves: list[torch.Tensor] = []
    return _enter(value, 0, leaves, [0], sort_keys), leaves


# No closure over `leaves`: a function that calls itself is a reference cycle, and tensors of gigabytes would stay until
# the next garbage collection.
def _enter(node: object, depth: int, leaves: list[torch.Tensor], nodes: list[int], sort_keys: bool) -> Skeleton:
    import torch

    nodes[0] += 1
    if nodes[0] > MAX_NODES or depth > MAX_DEPTH:
        raise TreeError(f"a value of more than {MAX_NODES} parts, or nested deeper than {MAX_DEPTH}")
    kind = type(node)
    if isinstance(node, torch.Tensor) and issubclass(kind, torch.Tensor):
        leaves.append(node)
        return {"leaf": len(leaves) - 1}
    if isinstance(node, tuple) and (kind is tuple or kind.__module__ == "torch.return_types"):
        return {"tuple": [_enter(item, depth + 1, leaves, nodes, sort_keys) for item in tuple.__iter__(node)]}
    if isinstance(node, list) and kind is list:
        return {"list": [_enter(item, depth + 1, leaves, nodes, sort_keys) for item in node]}
    if isinstance(node, dict) and kind is dict and all(type(key) in (str, int) for key in node):
        items = sorted(node.items(), key=lambda item: (str(type(item[0])), item[0])) if sort_keys else node.items()
        return {"dict": [[key, _enter(item, depth + 1, leaves, nodes, sort_keys)] for key, item in items]}
    if node is None:
        return {"none": None}
    for name, scalar in _SCALARS.items():
        if kind is scalar:
            return {name: node if name in ("bool", "str") else repr(node)}
    if kind is torch.dtype:
        return {"dtype": str(node).removeprefix("torch.")}
    if isinstance(node, torch.Size):
        return {"size": list(node)}
    return {"other": f"{kind.__module__}.{kind.__qualname__}"[:200]}


def put_together(skeleton: Skeleton, leaves: list[Any]) -> Any:
    """The value back from its skeleton and leaves. Raises TreeError for what is no skeleton."""
    kind, content = _only_item(skeleton)
    try:
        if kind == "leaf":
            return leaves[content]
        if kind == "tuple":
            return tuple(put_together(item, leaves) for item in content)
        if kind == "list":
            return [put_together(item, leaves) for item in content]
        if kind == "dict":
            return {key: put_together(item, leaves) for key, item in content}
        if kind == "none":
            return None
        if kind in _SCALARS:
            return _SCALARS[kind](content)
        if kind in ("dtype", "size"):
            import torch

            if kind == "size" and not all(type(size) is int and 0 <= size < 1 << 62 for size in content):
                raise TreeError("not a size")
            return getattr(torch, content) if kind == "dtype" else torch.Size(content)
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError, RuntimeError) as error:
        raise TreeError(f"not a skeleton: {error}") from error
    raise TreeError(f"a value of type {content!r} can't be passed on" if kind == "other" else f"unknown part {kind!r}")


def paths(skeleton: Skeleton, root: str) -> dict[int, str]:
    """Where each leaf stands, as one would write it: `output[0]['h']`, by leaf number."""
    kind, content = _only_item(skeleton)
    if kind == "leaf":
        return {content: root}
    found: dict[int, str] = {}
    for item, place in _placed(skeleton, root):
        found |= paths(item, place)
    return found


def _placed(skeleton: Skeleton, root: str) -> Iterator[tuple[Skeleton, str]]:
    """What a container holds, each with where it stands; of anything else nothing."""
    kind, content = _only_item(skeleton)
    if kind in ("tuple", "list"):
        yield from ((item, f"{root}[{index}]") for index, item in enumerate(content))
    elif kind == "dict":
        yield from ((item, f"{root}[{key!r}]") for key, item in content)


def difference(wanted: Skeleton, got: object, path: str, depth: int = 0) -> str | None:
    """The first place where two skeletons differ in structure, in words; None when they agree.

    `got` may be anything: it comes from the other side. Numbers are told apart by type only, their values are
    compared elsewhere.
    """
    if depth > MAX_DEPTH:
        return f"{path} is nested deeper than {MAX_DEPTH}"
    want_kind, want = _only_item(wanted)
    if not isinstance(got, dict) or len(got) != 1:
        return f"{path} is malformed"
    got_kind, content = next(iter(got.items()))
    if got_kind != want_kind:
        return f"{path} is {describe(got)}, the reference returns {describe(wanted)}"
    if want_kind == "leaf":
        return None if content == want else f"{path} is malformed"
    if want_kind in ("tuple", "list", "dict"):
        if not isinstance(content, list):
            return f"{path} is malformed"
        if want_kind == "dict":
            if not all(isinstance(item, list) and len(item) == 2 for item in content):
                return f"{path} is malformed"
            want_keys, got_keys = [key for key, _ in want], [key for key, _ in content]
            if want_keys != got_keys:
                return f"{path} has the keys {str(got_keys)[:200]}, the reference returns {want_keys}"
            steps = [(f"{path}[{key!r}]", item, content[at][1]) for at, (key, item) in enumerate(want)]
        else:
            if len(content) != len(want):
                return f"{path} has {len(content)} items, the reference returns {len(want)}"
            steps = [(f"{path}[{at}]", item, content[at]) for at, item in enumerate(want)]
        for place, wanted_item, got_item in steps:
            if found := difference(wanted_item, got_item, place, depth + 1):
                return found
    return None


def scalars(skeleton: Skeleton, root: str) -> dict[str, Any]:
    """The plain numbers and texts of a value, by the path at which they stand."""
    kind, _ = _only_item(skeleton)
    if kind not in ("tuple", "list", "dict", "leaf", "other"):
        return {root: put_together(skeleton, [])}
    found: dict[str, Any] = {}
    for item, place in _placed(skeleton, root):
        found |= scalars(item, place)
    return found


def describe(skeleton: object) -> str:
    """A skeleton's outermost part, in words: `a tensor`, `a list of 2`, `None`."""
    kind, content = _only_item(skeleton)
    if kind == "leaf":
        return "a tensor"
    if kind in ("tuple", "list", "dict"):
        return f"a {kind} of {len(content) if isinstance(content, list) else '?'}"
    if kind == "none":
        return "None"
    if kind == "other":
        return f"of type {str(content)[:200]}"
    return f"a Python {kind}"


def named(returned: Any, names: Sequence[str]) -> Any:
    """A dict of outputs from a tensor, a tuple or list of them, or a dict; what is none of these stays as it is."""
    if type(returned) is dict:
        return {name: returned[name] for name in names if name in returned} | {
            name: value for name, value in returned.items() if name not in names
        }
    values = list(returned) if type(returned) in (tuple, list) else [returned]
    return dict(zip(names, values, strict=True)) if len(values) == len(names) else returned


def _only_item(skeleton: object) -> tuple[str, Any]:
    if not isinstance(skeleton, dict) or len(skeleton) != 1:
        raise TreeError(f"not a skeleton: {str(skeleton)[:100]}")
    kind, content = next(iter(skeleton.items()))
    return kind, content
