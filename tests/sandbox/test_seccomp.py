"""The filter of system calls: what the program says of every call, and what a sandboxed command then meets."""

from __future__ import annotations

import errno
import json
import platform
import re
import shutil
import signal
import struct
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.sandbox import SANDBOXES, Command, Limits, Mount, Sandbox, seccomp
from harness.sandbox.syscalls import ARGUMENTS, CLONE3, NUMBERS

MACHINES = sorted(seccomp.ARCHES)
U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)
HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"#define __NR_(\w+)\s+(\d+)"),
    "aarch64": ("/usr/include/asm-generic/unistd.h", r"#define __NR(?:3264)?_(\w+)\s+(\d+)"),
}


def run_filter(machine: str, arch: int, number: int, arguments: tuple[int, ...]) -> int:
    """Run the program's bytes as the kernel does (Documentation/networking/filter.rst)."""
    data = struct.pack("<IIQ6Q", number, arch, 0, *arguments)
    code = [struct.unpack("=HBBI", part) for part in re.findall(rb"(?s).{8}", seccomp.program(machine))]
    at, accumulator = 0, 0
    for _ in range(len(code)):
        operation, if_true, if_false, operand = code[at]
        at += 1
        if operation == seccomp.LOAD:
            accumulator = struct.unpack_from("<I", data, operand)[0]
        elif operation == seccomp.JUMP_EQUAL:
            at += if_true if accumulator == operand else if_false
        elif operation == seccomp.JUMP_SET:
            at += if_true if accumulator & operand else if_false
        elif operation == seccomp.RETURN:
            return int(operand)
        else:
            raise AssertionError(f"the program has an instruction {operation:#x}")
    raise AssertionError("the program does not end")


def expected(machine: str, number: int, arguments: tuple[int, ...]) -> int:
    """The same, straight from the table."""
    column = {"x86_64": 0, "aarch64": 1}[machine]
    if machine == "x86_64" and number & 0x4000_0000:
        return seccomp.ERRNO | errno.EPERM
    if number in {numbers[column] for numbers in NUMBERS.values()}:
        return seccomp.ERRNO | errno.EPERM
    if number == CLONE3[column]:
        return seccomp.ERRNO | errno.ENOSYS
    for rule in ARGUMENTS:
        if number == rule.numbers[column]:
            word = arguments[rule.argument] & 0xFFFF_FFFF
            if any(word & mask == value for mask, value in rule.patterns):
                return seccomp.ERRNO | rule.error
    return seccomp.ALLOW


@pytest.mark.parametrize("machine", MACHINES)
@given(number=st.one_of(U32, st.integers(0, 470)), arguments=st.tuples(U64, U64, U64, U64, U64, U64))
def test_the_program_says_what_the_table_says(machine: str, number: int, arguments: tuple[int, ...]) -> None:
    assert run_filter(machine, seccomp.ARCHES[machine], number, arguments) == expected(machine, number, arguments)


@pytest.mark.parametrize("machine", MACHINES)
@given(data=st.data())
def test_arguments_are_looked_at(machine: str, data: st.DataObject) -> None:
    rule = data.draw(st.sampled_from(ARGUMENTS))
    number = rule.numbers[{"x86_64": 0, "aarch64": 1}[machine]]
    words = st.one_of(U64, st.integers(0, 64), st.sampled_from([value for _, value in rule.patterns]))
    # The upper half is noise: the kernel ignores it, so it must not hide the lower one.
    arguments = tuple(data.draw(words) | data.draw(U32) << 32 for _ in range(6))
    assert run_filter(machine, seccomp.ARCHES[machine], number, arguments) == expected(machine, number, arguments)


@pytest.mark.parametrize("machine", MACHINES)
@given(arch=U32, number=st.integers(0, 470))
def test_another_set_of_calls_ends_the_process(machine: str, arch: int, number: int) -> None:
    if arch != seccomp.ARCHES[machine]:
        assert run_filter(machine, arch, number, (0,) * 6) == seccomp.KILL_PROCESS


@pytest.mark.parametrize("machine", MACHINES)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    path, pattern = HEADERS[machine]
    if not Path(path).exists():
        pytest.skip(f"there is no {path}")
    known = {name: int(number) for name, number in re.findall(pattern, Path(path).read_text())}
    column = {"x86_64": 0, "aarch64": 1}[machine]
    table = {name: numbers[column] for name, numbers in NUMBERS.items()} | {"clone3": CLONE3[column]}
    table |= {rule.name: rule.numbers[column] for rule in ARGUMENTS}
    assert len(known) > 300
    # Headers older than the table lack the newest calls; what both have agrees, and what one lacks is lacking in both.
    assert {n: v for n, v in table.items() if n in known} == {n: known[n] for n in table if n in known}
    assert {n for n, v in table.items() if n not in known and v is not None} <= {"open_tree_attr"}


def test_an_unknown_machine_is_said() -> None:
    with pytest.raises(ValueError, match="riscv64"):
        seccomp.program("riscv64")


def test_a_docker_profile_names_each_call_once_for_each_pattern() -> None:
    profile = json.loads(json.dumps(seccomp.profile()))
    named = [name for entry in profile["syscalls"] for name in entry["names"] if "args" not in entry]
    assert sorted(named) == sorted([*NUMBERS, "clone3"])
    for rule in ARGUMENTS:
        entries = [entry for entry in profile["syscalls"] if entry["names"] == [rule.name]]
        assert [(e["args"][0]["value"], e["args"][0]["valueTwo"]) for e in entries] == list(rule.patterns)
        assert {(e["errnoRet"], e["args"][0]["index"]) for e in entries} == {(rule.error, rule.argument)}
    assert profile["defaultAction"] == "SCMP_ACT_ALLOW"


SYSTEM = [Path(p) for p in ("/usr", "/bin", "/lib", "/lib64", "/sbin", sys.base_prefix) if Path(p).exists()]
OUTERMOST = tuple(Mount(p) for p in dict.fromkeys(SYSTEM) if not any(o in p.parents for o in SYSTEM))
CALLS = """
import ctypes, json
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    result = libc.syscall(ctypes.c_long(number), *[ctypes.c_ulong(each) for each in arguments])
    return ctypes.get_errno() if result == -1 else 0
"""


@pytest.fixture(params=[name for name in SANDBOXES if name != "none"])
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    kind = SANDBOXES[request.param]
    if why := kind.unavailable():
        pytest.skip(why)
    return kind()


def ask(sandbox: Sandbox, script: str, **env: str) -> object:
    argv = (str(Path(sys.executable).resolve()), "-I", "-S", "-c", CALLS + script)
    with sandbox.start(Command(argv=argv, env=env, mounts=OUTERMOST), Limits()) as running:
        assert running.wait(60).code == 0, running.output()
        return json.loads(running.output())


def column() -> int:
    return {"x86_64": 0, "aarch64": 1}[platform.machine()]


def test_every_named_call_fails_inside(sandbox: Sandbox) -> None:
    numbers = {name: each[column()] for name, each in NUMBERS.items() if each[column()] is not None}
    bad = 2**64 - 1  # no pointer, no descriptor, no flag: without the filter most of them would say EFAULT or EBADF
    answers = ask(sandbox, f"print(json.dumps({{n: call(v, *[{bad}] * 6) for n, v in {numbers!r}.items()}}))")
    assert answers == dict.fromkeys(numbers, errno.EPERM)


def test_new_namespaces_are_refused_and_threads_are_not(sandbox: Sandbox) -> None:
    clone, unshare = (rule.numbers[column()] for rule in ARGUMENTS[:2])
    script = f"""
import os, subprocess, threading
flags = [1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)]
out = {{"clone": [call({clone}, flag | 17) for flag in flags], "unshare": [call({unshare}, flag) for flag in flags]}}
out["clone3"] = call({CLONE3[column()]}, 0, 0)
out["setns"] = call({NUMBERS["setns"][column()]}, os.open("/proc/self/ns/user", os.O_RDONLY), 0)
done = []
threads = [threading.Thread(target=done.append, args=(1,)) for _ in range(20)]
[t.start() for t in threads]; [t.join() for t in threads]
out["threads"] = len(done)
out["spawned"] = subprocess.run(["/bin/sh", "-c", "true | true"], close_fds=False).returncode
print(json.dumps(out))
"""
    assert ask(sandbox, script) == {
        "clone": [errno.EPERM] * 7,
        "unshare": [errno.EPERM] * 7,
        "clone3": errno.ENOSYS,
        "setns": errno.EPERM,
        "threads": 20,
        "spawned": 0,
    }


def test_what_run_time_compilers_do_still_works(sandbox: Sandbox) -> None:
    """A C compiler as a child, its library loaded, pools of threads and of processes with semaphores and pipes."""
    script = """
import concurrent.futures, multiprocessing, os, subprocess, sys, tempfile
folder = tempfile.mkdtemp()
source, library = os.path.join(folder, "x.c"), os.path.join(folder, "x.so")
open(source, "w").write("int answer(void) { return 42; }")
done = subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], capture_output=True, text=True)
answer = ctypes.CDLL(library).answer() if done.returncode == 0 else done.stderr
with concurrent.futures.ThreadPoolExecutor(8) as pool: threads = sum(pool.map(lambda x: x * x, range(100)))
context = multiprocessing.get_context("fork")
with concurrent.futures.ProcessPoolExecutor(2, context) as pool: processes = sum(pool.map(abs, range(-50, 50)))
queue = context.Queue(); queue.put(1)
print(json.dumps([answer, threads, processes, queue.get(timeout=10)]))
"""
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    assert ask(sandbox, script, PATH="/usr/bin:/bin") == [42, 328350, 2500, 1]


def test_sockets_stay_within_the_network_namespace(sandbox: Sandbox) -> None:
    script = """
import socket
def make(family, kind=socket.SOCK_STREAM):
    try: socket.socket(family, kind).close()
    except OSError as error: return error.errno
    return 0
print(json.dumps({"good": [make(f, socket.SOCK_DGRAM) for f in (1, 2, 16)], "vsock": make(40), "alg": make(38, 5),
    "packet": make(17, 3), "large": make(1000), "pair": [each.family for each in socket.socketpair()]}))
"""
    refused = errno.EAFNOSUPPORT
    assert ask(sandbox, script) == {
        "good": [0, 0, 0],
        **dict.fromkeys(("vsock", "alg", "packet", "large"), refused),
        "pair": [1, 1],
    }


def test_the_personality_may_be_asked_for_and_not_changed(sandbox: Sandbox) -> None:
    number = next(rule.numbers[column()] for rule in ARGUMENTS if rule.name == "personality")
    assert ask(sandbox, f"print(json.dumps([call({number}, 0xffffffff), call({number}, 0x40000)]))") == [0, errno.EPERM]


@pytest.mark.skipif(platform.machine() != "x86_64", reason="only x86 has other sets of system calls")
def test_other_sets_of_calls_are_refused(sandbox: Sandbox) -> None:
    script = """
import mmap, os
rwx = mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
code = mmap.mmap(-1, 4096, prot=rwx, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid of 32 bits); int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(code))
def how(work):
    child = os.fork()
    if child == 0:
        os._exit(work())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
print(json.dumps({"x32": how(lambda: call(0x40000000 + 39)), "32 bits": how(ctypes.CFUNCTYPE(ctypes.c_int)(address))}))
"""
    answers = ask(sandbox, script)
    assert isinstance(answers, dict)
    # Refused; Docker's own filter, which comes on top there, ends the process instead.
    assert answers["x32"] in (errno.EPERM, -signal.SIGSYS)
    # A kernel without 32-bit calls ends it with SIGSEGV first.
    assert answers["32 bits"] in (-signal.SIGSYS, -signal.SIGSEGV)


def test_room_on_a_disk_is_only_had_by_writing(sandbox: Sandbox) -> None:
    (rule,) = (rule for rule in ARGUMENTS if rule.name == "fallocate")
    script = f"""
import os
fd = os.open("file", os.O_RDWR | os.O_CREAT)
out = [call({rule.numbers[column()]}, fd, mode, 0, 1 << 20) for mode in (0, 1, 16)]
out.append(os.fstat(fd).st_size)
os.posix_fallocate(fd, 0, 1 << 20)
out.append(os.fstat(fd).st_size)
print(json.dumps(out))
"""
    assert ask(sandbox, script) == [errno.EOPNOTSUPP] * 3 + [0, 1 << 20]
