"""The table of refused system calls (syscalls.py) in the two forms that sandboxes take.

    program()   a classic BPF program as bytes: what `bwrap --seccomp FD` reads, and prctl(PR_SET_SECCOMP) takes
    profile()   Docker's JSON

The kernel runs the program at every system call, over this struct seccomp_data (linux/seccomp.h):

    0  nr    4  arch    8  instruction pointer    16 + 8i  argument i, the lower half first on both machines
"""

from __future__ import annotations

import errno
import os
import platform
import struct
from typing import Any

from harness.sandbox.syscalls import ARGUMENTS, CLONE3, NUMBERS, ArgumentRule

# linux/audit.h
ARCHES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
X32_BIT = 0x4000_0000
"""Set in the numbers of x86's third, hardly used set of system calls, whose own numbers the table does not have."""

# linux/seccomp.h
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF_0000, 0x0005_0000, 0x8000_0000

# linux/bpf_common.h: load a word at an offset, jump if equal, jump if a bit is set, return.
LOAD, JUMP_EQUAL, JUMP_SET, RETURN = 0x20, 0x15, 0x45, 0x06

Instruction = tuple[int, int, int, int]
"""Operation, how many instructions to skip if true, if false, operand."""

_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_WORD = 0xFFFF_FFFF


def why_not() -> str | None:
    """Why there is no program for this machine, in one sentence, or None when there is."""
    if platform.machine() not in ARCHES:
        return f"the table of system calls has no column for {platform.machine()}"
    return None


def program(machine: str | None = None) -> bytes:
    """The filter for a machine (`platform.machine()`), this one by default. Raises ValueError for an unknown one."""
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions(machine or platform.machine()))


def program_file() -> int:
    """A descriptor to read this machine's program from, at its start; the caller closes it."""
    made = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(made, program())
    os.lseek(made, 0, os.SEEK_SET)
    return made


def instructions(machine: str) -> list[Instruction]:
    """The program, step by step."""
    if machine not in ARCHES:
        raise ValueError(f"there is no table of system calls for {machine}")
    column = list(ARCHES).index(machine)
    steps: list[Instruction] = [
        (LOAD, 0, 0, _ARCH),
        # Calls of another set (32 bits, by int 0x80) have other numbers, so that nothing below would hold for them.
        (JUMP_EQUAL, 1, 0, ARCHES[machine]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, _NR),
    ]
    if machine == "x86_64":
        steps += [(JUMP_SET, 0, 1, X32_BIT), (RETURN, 0, 0, ERRNO | errno.EPERM)]
    refused = [(numbers[column], errno.EPERM) for numbers in NUMBERS.values()] + [(CLONE3[column], errno.ENOSYS)]
    for number, error in refused:
        if number is not None:
            steps += [(JUMP_EQUAL, 0, 1, number), (RETURN, 0, 0, ERRNO | error)]
    for rule in ARGUMENTS:
        block = _argument_block(rule)
        steps += [(JUMP_EQUAL, 0, len(block), rule.numbers[column]), *block]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _argument_block(rule: ArgumentRule) -> list[Instruction]:
    """Load the argument, try each pattern, and end either way: no other rule is about the same call."""
    tests = len(rule.patterns)
    block: list[Instruction] = [(LOAD, 0, 0, _ARGUMENTS + 8 * rule.argument)]
    for at, (mask, value) in enumerate(rule.patterns):
        # After the last test comes the return that allows, and then the one that refuses.
        to_refusal = tests - at
        if mask == _WORD:
            block.append((JUMP_EQUAL, to_refusal, 0, value))
        elif value == mask and mask.bit_count() == 1:
            block.append((JUMP_SET, to_refusal, 0, mask))
        elif value == 0 and mask.bit_count() == 1:
            block.append((JUMP_SET, 0, to_refusal, mask))
        else:
            raise ValueError(f"{rule.name}: no instruction for mask {mask:#x} and value {value:#x}")
    return [*block, (RETURN, 0, 0, ALLOW), (RETURN, 0, 0, ERRNO | rule.error)]


def profile() -> dict[str, Any]:
    """The same table as a profile for Docker (`--security-opt seccomp=`), which picks the numbers itself."""
    calls: list[dict[str, Any]] = [
        {"names": list(NUMBERS), "action": "SCMP_ACT_ERRNO", "errnoRet": errno.EPERM},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": errno.ENOSYS},
    ]
    for rule in ARGUMENTS:
        # One entry a pattern: libseccomp joins the conditions of one entry by "and".
        calls += [
            {
                "names": [rule.name],
                "action": "SCMP_ACT_ERRNO",
                "errnoRet": rule.error,
                "args": [{"index": rule.argument, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}],
            }
            for mask, value in rule.patterns
        ]
    # No other set of calls is named, so that libseccomp refuses all of theirs.
    arches = [f"SCMP_ARCH_{platform.machine().upper()}"]
    return {"defaultAction": "SCMP_ACT_ALLOW", "architectures": arches, "syscalls": calls}
