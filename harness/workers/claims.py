"""What a worker may answer, checked: every message from the other side becomes one of these or a WireError."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)

from harness.wire.frames import WireError


class _Claim(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Name = Annotated[str, StringConstraints(max_length=512)]
Text = Annotated[str, StringConstraints(max_length=64 << 10)]
Size = Annotated[int, Field(ge=0, lt=1 << 62)]
Microseconds = Annotated[float, Field(ge=0, allow_inf_nan=False, lt=1e12), AfterValidator(lambda us: round(us, 6))]
"""To a picosecond: no clock reads less, and what is made of smaller ones may be larger than any number."""


class _Answer(_Claim):
    """An answer to an order carries the order's ticket: nobody can answer what was not asked yet."""

    ticket: Name


class Hello(_Claim):
    """The worker is up and has imported torch; the submission is not there yet."""

    type: Literal["hello"]
    protocol: int
    torch: Name
    python: Name


class Build(_Claim):
    """The submission wants an extension. What is in `request` is checked by whoever builds."""

    type: Literal["build"]
    request: dict[str, Any]


class Done(_Answer):
    """An order was carried out."""

    type: Literal["done"]


class StateEntry(_Claim):
    """One entry of the submission's state_dict."""

    key: Name
    dtype: Name
    shape: Annotated[list[Size], Field(max_length=64)]
    strides: Annotated[list[Size], Field(max_length=64)] | None


class Constructed(_Answer):
    """The model is there, with this state."""

    type: Literal["constructed"]
    state: Annotated[list[StateEntry], Field(max_length=100_000)]


class LeafClaim(_Claim):
    """What a returned tensor says of itself."""

    kind: Name
    plain: bool
    dtype: Name
    shape: Annotated[list[Size], Field(max_length=64)]
    device: Name
    strides: Annotated[list[Size], Field(max_length=64)] | None = None
    """Of one that lies in memory in another order than the usual, without its gaps: its bytes come as they are stored,
    where that is asked."""
    copied: bool = False
    """Whether there are gaps between its elements, or they are conjugate or negative views, so that a digest needs a
    copy of it."""


class Output(_Claim):
    """The form of what one call returned."""

    value: dict[str, Any]
    leaves: Annotated[list[LeafClaim], Field(max_length=10_000)]


class Returned(_Answer):
    """A call came back."""

    type: Literal["returned"]
    outputs: Annotated[list[Output], Field(min_length=1, max_length=1)]


class Ready(_Answer):
    """A loop is ready to begin."""

    type: Literal["ready"]


class Ran(_Answer):
    """A loop has ended, and this is the seal on its outputs."""

    type: Literal["ran"]
    seal: Name


class Timed(_Answer):
    """Timed calls came back: what they returned, and what the worker's own clock says of each."""

    type: Literal["timed"]
    outputs: Annotated[list[Output], Field(max_length=4096)]
    elapsed_us: Annotated[list[Microseconds], Field(max_length=4096)]
    host_us: Annotated[list[Microseconds], Field(max_length=4096)]
    around_us: Microseconds
    """What the device took for what precedes a call in a turn and for what follows it, in the mean between two marks; 0
    where there are none, and where it was waited for."""


class TracedKernel(_Claim):
    """One kernel, over all calls that were traced."""

    name: Name
    calls: Annotated[int, Field(ge=0, lt=1 << 31)]
    time_us: Microseconds


class Traced(_Answer):
    """What the profiler saw of some calls."""

    type: Literal["traced"]
    kernels: Annotated[list[TracedKernel], Field(max_length=500)]
    note: Name


class DeviceEvent(_Claim):
    """Something that a GPU did in a call that was traced."""

    kind: Literal["kernel", "copy", "fill"]
    name: Annotated[int, Field(ge=0, lt=20_000)]
    """Place in `names`."""
    start_us: Microseconds
    us: Microseconds
    stream: Size
    grid: Annotated[list[Size], Field(max_length=3)]
    block: Annotated[list[Size], Field(max_length=3)]
    registers: Size
    shared_bytes: Size
    bytes: Size
    """Of a copy or a fill."""


class HostEvent(_Claim):
    """Something that the host did in it: a call of CUDA's API; on a CPU an operator."""

    name: Annotated[int, Field(ge=0, lt=20_000)]
    """Place in `names`."""
    start_us: Microseconds
    us: Microseconds
    thread: Size


class Timeline(_Answer):
    """What the profiler saw of one call, in order."""

    type: Literal["timeline"]
    names: Annotated[list[Name], Field(max_length=20_000)]
    device: Annotated[list[DeviceEvent], Field(max_length=8000)]
    host: Annotated[list[HostEvent], Field(max_length=8000)]
    cut: Size
    """Device events after those, which are left out."""
    cut_us: Microseconds
    """What those took."""
    cpu_us: Microseconds
    wall_us: Microseconds
    """On a CPU: processor time and wall clock of calls that were not traced; 0 on a GPU."""
    note: Name

    @model_validator(mode="after")
    def _names_exist(self) -> Timeline:
        used = [*(event.name for event in self.device), *(event.name for event in self.host)]
        if max(used, default=-1) >= len(self.names):
            raise ValueError("an event has no name")
        return self


class Failed(_Answer):
    """The submission failed in an order."""

    type: Literal["failed"]
    category: Literal["exception", "exit", "signature", "no_entry", "cuda", "device_memory", "host_memory", "output"]
    error: Name
    message: Text
    traceback: Text
    evidence: Annotated[dict[Name, Name | int | float | bool], Field(max_length=20)]


Claim = Hello | Build | Done | Constructed | Returned | Ready | Ran | Timed | Traced | Timeline | Failed

_ADAPTER: TypeAdapter[Claim] = TypeAdapter(Annotated[Claim, Field(discriminator="type")])


def parse(message: dict[str, Any]) -> Claim:
    """The claim that a message makes. Raises WireError for what is none."""
    try:
        return _ADAPTER.validate_python(message)
    except (ValidationError, RecursionError) as error:
        first = str(error).splitlines()[:3]
        raise WireError(f"a message that is no answer: {' '.join(first)[:300]}") from error
