"""The irreversible lock of a grader process (Linux, x86_64 and aarch64). Standard library only; run inside the worker.

Three walls, each enough for most attacks: resource limits, Landlock without a single rule (where the kernel has it),
and a seccomp allow-list that knows no open, no socket, no fork, no exec and no kill. Whatever code may need later
must be imported before `lock` is called, because nothing can be opened afterwards.
"""

import ctypes
import os
import platform
import resource
import struct
import sys

IS_X86 = platform.machine() == "x86_64"
IS_ARM = platform.machine() == "aarch64"

#: system call → numbers on x86_64 and aarch64 (None: not there).
ALLOWED: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "pread64": (17, 67),
    "readv": (19, 65),
    "writev": (20, 66),
    "select": (23, None),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "nanosleep": (35, 101),
    "getitimer": (36, 102),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "exit": (60, 93),
    "gettimeofday": (96, 169),
    "getrusage": (98, 165),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "sigaltstack": (131, 132),
    "gettid": (186, 178),
    "time": (201, None),
    "futex": (202, 98),
    "sched_getaffinity": (204, 123),
    "restart_syscall": (219, 128),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "getrandom": (318, 278),
    "rseq": (334, 293),
}
#: fcntl could direct signals at other processes (F_SETOWN, F_SETSIG), so only harmless commands pass.
FCNTL = (72, 25)
FCNTL_COMMANDS = (1, 2, 3)  # F_GETFD, F_SETFD, F_GETFL

_SECCOMP, _CAPSET = (317, 277), (126, 91)
_LANDLOCK_CREATE, _LANDLOCK_RESTRICT = 444, 446
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS = 1, 4, 24, 38
_SIGKILL = 9

_LOAD, _JEQ, _JGE, _RETURN = 0x20, 0x15, 0x35, 0x06
_KILL_PROCESS, _EPERM, _ALLOW = 0x80000000, 0x00050001, 0x7FFF0000
_ARCH_X86, _ARCH_ARM = 0xC000003E, 0xC00000B7

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


class LockFailed(OSError):
    """A wall could not be raised, so no grader runs here."""


def is_supported() -> bool:
    return sys.platform == "linux" and (IS_X86 or IS_ARM)


def landlock_abi() -> int:
    """The kernel's Landlock version, 0 when it has none."""
    if not is_supported():
        return 0
    return max(0, int(_libc.syscall(_LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))))


def lock(keep_fds: set[int], *, memory_bytes: int, cpu_seconds: int) -> dict[str, object]:
    """Raise every wall around this process; returns the layers that stand. There is no way back."""
    os.environ.clear()
    sys.path[:] = []
    sys.argv[:] = [""]
    _limit(memory_bytes, cpu_seconds)
    _close_all_but(keep_fds)
    _drop_capabilities()
    _libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    _libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)
    if _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise LockFailed(ctypes.get_errno(), "no_new_privs")
    abi = _landlock()
    _seccomp()
    return {"seccomp": True, "landlock": abi, "rlimits": True, "capabilities": "none"}


def _limit(memory_bytes: int, cpu_seconds: int) -> None:
    limits = {
        resource.RLIMIT_AS: memory_bytes,
        resource.RLIMIT_CPU: cpu_seconds,
        resource.RLIMIT_FSIZE: 0,
        resource.RLIMIT_NOFILE: 32,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_NPROC: 0,
    }
    for limit, value in limits.items():
        _, hard = resource.getrlimit(limit)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def _close_all_but(keep_fds: set[int]) -> None:
    before = -1
    for fd in [*sorted(keep_fds), 65536]:
        if fd > before + 1:  # closerange(0, 0) would close everything
            os.closerange(before + 1, fd)
        before = fd


def _call(numbers: tuple[int, int] | int, *arguments: object) -> int:
    number = numbers if isinstance(numbers, int) else numbers[0 if IS_X86 else 1]
    result = int(_libc.syscall(number, *arguments))
    if result < 0:
        raise LockFailed(ctypes.get_errno(), f"system call {number}")
    return result


def _drop_capabilities() -> None:
    if os.geteuid() == 0:
        for capability in range(64):
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
    _call(_CAPSET, struct.pack("Ii", 0x20080522, 0), ctypes.create_string_buffer(24))


def _landlock() -> int:
    """Handle every right the kernel knows and grant none."""
    abi = landlock_abi()
    if abi < 1:
        return 0
    files = (1 << 13) - 1
    for since, bit in ((2, 13), (3, 14), (5, 15)):
        files |= (1 << bit) if abi >= since else 0
    attributes = struct.pack("QQQ", files, 3 if abi >= 4 else 0, 3 if abi >= 6 else 0)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    ruleset = _call(_LANDLOCK_CREATE, attributes, ctypes.c_size_t(size), ctypes.c_uint32(0))
    _call(_LANDLOCK_RESTRICT, ruleset, ctypes.c_uint32(0))
    os.close(ruleset)
    return abi


def _program() -> bytes:
    """The seccomp filter: wrong architecture dies, known calls pass, everything else answers EPERM."""
    place = 0 if IS_X86 else 1
    numbers = sorted(number for pair in ALLOWED.values() if (number := pair[place]) is not None)
    lines = [(_LOAD, 0, 0, 4), (_JEQ, 1, 0, _ARCH_X86 if IS_X86 else _ARCH_ARM), (_RETURN, 0, 0, _KILL_PROCESS)]
    lines.append((_LOAD, 0, 0, 0))
    if IS_X86:  # the x32 calls live above this bit
        lines += [(_JGE, 0, 1, 0x40000000), (_RETURN, 0, 0, _KILL_PROCESS)]
    fcntl = [(_JEQ, 0, len(FCNTL_COMMANDS) + 3, FCNTL[place]), (_LOAD, 0, 0, 24)]
    fcntl += [(_JEQ, len(FCNTL_COMMANDS) - i, 0, command) for i, command in enumerate(FCNTL_COMMANDS)]
    fcntl += [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    lines += fcntl
    lines += [(_JEQ, len(numbers) - i, 0, number) for i, number in enumerate(numbers)]
    lines += [(_RETURN, 0, 0, _EPERM), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _seccomp() -> None:
    program = _program()
    buffer = ctypes.create_string_buffer(program, len(program))

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("filter", ctypes.c_void_p)]

    _call(
        _SECCOMP,
        ctypes.c_uint(1),
        ctypes.c_uint(0),
        ctypes.byref(Program(len(program) // 8, ctypes.cast(buffer, ctypes.c_void_p))),
    )
