"""Which system calls a sandboxed command is refused: one table, for bubblewrap's filter and for Docker's profile.

A list of what is refused, not of what is allowed: torch, the CUDA driver and the compilers use hundreds of calls, and
other ones in their next version. So it names what lets a process look into others, widen its own rights, reach drivers
and parsers that were not written for strangers, or keep memory where nobody counts it.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h of Linux 6.18.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

NUMBERS: dict[str, tuple[int | None, int | None]] = {
    # Other processes' memory, descriptors and registers.
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    # Large pieces of the kernel that a stranger can program.
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    # Keys outlive the process and are not within a namespace.
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    # File systems.
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "open_tree_attr": (467, 467),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "sysfs": (139, None),
    "ustat": (136, None),
    "uselib": (134, None),
    # Others' namespaces; new ones are in ARGUMENTS.
    "setns": (308, 268),
    # The machine as a whole.
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "create_module": (174, None),
    "query_module": (178, None),
    "get_kernel_syms": (177, None),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "adjtimex": (159, 171),
    "clock_adjtime": (305, 266),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "vhangup": (153, 58),
    "_sysctl": (156, None),
    "nfsservctl": (180, 42),
    "lookup_dcookie": (212, 18),
    # Memory that no process's figures show: System V's segments and queues, POSIX queues, pages hidden from the kernel.
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "semctl": (66, 191),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "memfd_secret": (447, 447),
}
"""Refused whatever the arguments, with EPERM: on x86_64, on aarch64; None where that machine has no such call."""

CLONE3 = (435, 435)
"""Answered with ENOSYS: its flags lie in memory, where a filter can't look, and the C library then takes clone."""


@dataclass(frozen=True)
class ArgumentRule:
    """A call that is refused when one of its arguments shows one of some patterns."""

    name: str
    numbers: tuple[int, int]
    argument: int
    """Which argument, from 0. Its lower 32 bits count: for each of these calls the kernel itself looks at no more."""
    patterns: tuple[tuple[int, int], ...]
    """(mask, value): refused when `argument & mask == value`, for any of them."""
    error: int = errno.EPERM


_WORD = 0xFFFF_FFFF
_NEW_NAMESPACES = (
    0x0002_0000,  # mount
    0x0200_0000,  # cgroup
    0x0400_0000,  # UTS
    0x0800_0000,  # IPC
    0x1000_0000,  # user
    0x2000_0000,  # PID
    0x4000_0000,  # network
)
_NEW_TIME = 0x80
"""The time namespace's flag, for unshare alone: in clone those bits are the signal at the child's end."""
_FAMILIES = (1, 2, 10, 16)
"""AF_UNIX, AF_INET, AF_INET6, AF_NETLINK: what a C library and a process group need. A network namespace holds these
in; it does not hold AF_VSOCK, which speaks to the host of a virtual machine, and the other families are drivers."""
_BAD_FAMILIES = tuple((_WORD, family) for family in range(64) if family not in _FAMILIES)
_LARGE_FAMILIES = tuple((1 << bit, 1 << bit) for bit in range(6, 32))

ARGUMENTS = (
    ArgumentRule("clone", (56, 220), 0, tuple((flag, flag) for flag in _NEW_NAMESPACES)),
    ArgumentRule("unshare", (272, 97), 0, tuple((flag, flag) for flag in (*_NEW_NAMESPACES, _NEW_TIME))),
    # Only the question which one it is (0xffffffff, all bits set): others switch protections of memory off.
    ArgumentRule("personality", (135, 92), 0, tuple((1 << bit, 0) for bit in range(32))),
    ArgumentRule("socket", (41, 198), 0, _BAD_FAMILIES + _LARGE_FAMILIES, errno.EAFNOSUPPORT),
    ArgumentRule("socketpair", (53, 199), 0, _BAD_FAMILIES + _LARGE_FAMILIES, errno.EAFNOSUPPORT),
    # TIOCSTI and TIOCLINUX type into a terminal that the command may have been given.
    ArgumentRule("ioctl", (16, 29), 1, ((_WORD, 0x5412), (_WORD, 0x541C))),
    # Room on a disk without writing to it: gigabytes between two looks at what is used. The C library writes instead.
    ArgumentRule("fallocate", (285, 47), 1, ((_WORD, 0), (0x01, 0x01), (0x10, 0x10)), errno.EOPNOTSUPP),
)
