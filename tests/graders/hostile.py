"""Snippets that try to get out of the sandbox or to harm it. Each `attack()` returns something true when it got through.

`harm` marks snippets that do damage instead of reading something: they only have to end, alone, within their limit.
"""

from graders.sandbox import Sandbox
from graders.sandbox_process import PythonFailed, PythonLimits

QUICK = PythonLimits(seconds=1.0, memory_bytes=512 << 20)

PRELUDE = """
import os, sys
try:
    import ctypes
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
except ImportError:  # WebAssembly has no way to call by hand
    ctypes = libc = None

def raw(number, *arguments):
    result = libc.syscall(number, *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), "refused")
    return result + 1
"""

READS = {
    "passwd by open": "open('/etc/passwd').read()",
    "passwd by os.open": "os.read(os.open('/etc/passwd', os.O_RDONLY), 10)",
    "passwd by openat": "raw(257, -100, b'/etc/passwd', 0)",
    "passwd by openat2": "raw(437, -100, b'/etc/passwd', ctypes.byref((ctypes.c_uint64 * 3)()), ctypes.c_size_t(24))",
    "passwd by old open": "raw(2, b'/etc/passwd', 0)",
    "shadow": "open('/etc/shadow').read()",
    "own source": "open('/proc/self/exe', 'rb').read(4)",
    "environment of itself": "open('/proc/self/environ', 'rb').read()",
    "environment of the parent": "open(f'/proc/{os.getppid()}/environ', 'rb').read()",
    "environment of process 1": "open('/proc/1/environ', 'rb').read()",
    "environment by getenv": "(setattr(libc.getenv, 'restype', ctypes.c_char_p), libc.getenv(b'PATH'), libc.getenv(b'SECRET_KEY'), libc.getenv(b'HOME'))[1:].count(None) < 3",
    "environment by os": "any(word in key.upper() for key in os.environ for word in ('KEY', 'SECRET', 'TOKEN', 'DATABASE', 'PATH'))",
    "memory of the parent": "open(f'/proc/{os.getppid()}/mem', 'rb').read(1)",
    "memory of the parent by call": "raw(310, os.getppid(), (ctypes.c_char * 16)(), 1, (ctypes.c_char * 16)(), 1, 0)",
    "list the root": "os.listdir('/')",
    "list by scandir": "list(os.scandir('.'))",
    "stat a file": "os.stat('/etc/passwd').st_size",
    "stat by statx": "raw(332, -100, b'/etc/passwd', 0, 0xfff, (ctypes.c_char * 256)())",
    "exists": "os.path.exists('/etc/passwd')",
    "access": "os.access('/etc/passwd', os.R_OK)",
    "readlink": "os.readlink('/proc/self/cwd')",
    "working folder": "os.getcwd()",
    "pathlib": "__import__('pathlib').Path('/etc/hostname').read_text()",
    "codecs": "__import__('codecs').open('/etc/passwd').read()",
    "import from a folder": "(sys.path.insert(0, '/tmp'), __import__('rft_evil_module'))",
    "socket module": "__import__('socket').socket()",
    "_socket by builtin": "__import__('_socket').socket()",
    "tcp by libc": "libc.socket(2, 1, 0) >= 0",
    "udp by libc": "libc.socket(2, 2, 0) >= 0",
    "unix socket by libc": "libc.socket(1, 1, 0) >= 0",
    "netlink": "libc.socket(16, 3, 0) >= 0",
    "socket by syscall": "raw(41, 2, 1, 0)",
    "socketpair by syscall": "raw(53, 1, 1, 0, (ctypes.c_int * 2)())",
    "32-bit socket call": "raw(0x40000000 + 41, 2, 1, 0)",
    "url": "__import__('urllib.request').request.urlopen('http://127.0.0.1:1').read()",
    "io_uring": "raw(425, 8, (ctypes.c_char * 256)())",
    "fork": "os.fork() >= 0",
    "vfork by syscall": "raw(58)",
    "clone3": "raw(435, (ctypes.c_uint64 * 11)(), ctypes.c_size_t(88))",
    "thread": "(lambda t: (t.start(), t.join(), True))(__import__('threading').Thread(target=lambda: None))",
    "many threads": "[__import__('threading').Thread(target=lambda: None).start() for _ in range(500)]",
    "exec": "os.execv('/bin/true', ['true'])",
    "execveat": "raw(322, -100, b'/bin/true', None, None, 0)",
    "system": "os.system('true') == 0",
    "popen": "os.popen('id').read()",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {}) > 0",
    "subprocess": "__import__('subprocess').run(['true'])",
    "kill the parent": "os.kill(os.getppid(), 9) is None",
    "kill everyone": "os.kill(-1, 0) is None",
    "kill itself by number": "os.kill(os.getpid(), 0) is None",
    "tgkill": "raw(234, os.getppid(), os.getppid(), 9)",
    "pidfd": "raw(434, os.getppid(), 0)",
    "signal by fcntl owner": "__import__('fcntl').fcntl(10, 8, os.getppid()) is not None",
    "signal by raw fcntl": "raw(72, 10, 8, os.getppid())",
    "signal number by raw fcntl": "raw(72, 10, 10, 9)",
    "duplicate a descriptor": "raw(72, 10, 1030, 0)",
    "ptrace the parent": "raw(101, 16, os.getppid(), 0, 0)",
    "write a file": "open('/tmp/rft-evil', 'w').write('x')",
    "write by memfd": "raw(319, b'x', 0)",
    "unlink": "os.unlink('/tmp/rft-evil') is None",
    "rename": "os.rename('/tmp/a', '/tmp/b') is None",
    "mkdir": "os.mkdir('/tmp/rft-evil-dir') is None",
    "chmod": "os.chmod('/etc/passwd', 0o777) is None",
    "mount": "raw(165, b'none', b'/mnt', b'tmpfs', 0, None)",
    "chroot": "os.chroot('/') is None",
    "setuid": "os.setuid(0) is None",
    "set a hostname": "raw(170, b'x', 1)",
    "unshare": "raw(272, 0x10000000)",
    "setns": "raw(308, 0, 0)",
    "keyring": "raw(250, 0, -3, 1)",
    "bpf": "raw(321, 0, None, 0)",
    "perf events": "raw(298, None, 0, -1, -1, 0)",
    "userfaultfd": "raw(323, 0)",
    "raise its limits": "__import__('resource').setrlimit(7, (4096, 4096)) is None",
    "raise its limits by call": "raw(302, 0, 7, (ctypes.c_uint64 * 2)(9999, 9999), None)",
    "unlock by prctl": "raw(157, 4, 1, 0, 0, 0)",
    "other descriptors": "any(_reads(fd) for fd in list(range(3, 10)) + list(range(14, 64)))",
}

HARMS = {
    "endless loop": "while True: pass",
    "endless sleep": "import time; time.sleep(1000)",
    "endless pattern": "import re; re.match(r'(a+)+$', 'a' * 40 + 'b')",
    "huge power": "x = 9 ** 9 ** 9",
    "ten gigabytes at once": "x = bytearray(10 << 30)",
    "growing list": "x = []\n    while True: x.append('y' * 10 ** 6)",
    "fork bomb": "import os\n    while True:\n        try: os.fork()\n        except OSError: pass",
    "catches everything": "while True:\n        try:\n            while True: pass\n        except BaseException: pass",
    "endless recursion": "import sys; sys.setrecursionlimit(10 ** 9)\n    def f(n): return f(n + 1)\n    return f(0)",
    "null pointer": "import ctypes; ctypes.string_at(0)",
    "exit": "import os; os._exit(0)",
    "system exit": "raise SystemExit(0)",
    "abort": "import os; os.abort()",
    "ignored alarm": "import signal; signal.alarm(1); signal.pause() if hasattr(signal, 'pause') else None\n    while True: pass",
    "output flood": "while True: print('x' * 10 ** 6)",
    "descriptor flood": "import os\n    while True: os.write(1, b'x' * 10 ** 6)",
    "forged reply": "import os, struct; body = b'{\"value\": 1.0}'; os.write(11, struct.pack('!I', len(body)) + body)\n    while True: pass",
    "garbage reply": "import os; os.write(11, b'z' * 10 ** 6)\n    while True: pass",
    "closed pipes": "import os\n    for fd in range(64):\n        try: os.close(fd)\n        except OSError: pass",
    "broken json module": "import json; json.dumps = lambda *a, **k: 'NaN'\n    return 1.0",
    "blocked signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    while True: pass",
}


_HELPER = (
    "def _reads(fd):\n    try:\n        os.fstat(fd)\n        return True\n    except OSError:\n        return False\n"
)
#: Tries one attack after the other in a worker that lives on: what it is told to.
ALL_READS = f"{PRELUDE}\n{_HELPER}\ndef grade(sample, item):\n    return 1.0 if eval(item['attack']) else 0.0\n"


def read_source(attack: str) -> str:
    return f"{PRELUDE}\n{_HELPER}\ndef grade(sample, item):\n    return 1.0 if ({attack}) else 0.0\n"


def harm_source(harm: str) -> str:
    return f"def grade(sample, item):\n    {harm}\n    return 1.0\n"


def breach_of(pool: Sandbox, name: str) -> str:
    """Empty, or what the snippet reached."""
    try:
        answer = pool.run("hostile", read_source(READS[name]), {}, {}, QUICK)
    except PythonFailed:
        return ""
    return f"{name}: {answer}" if answer.value else ""
