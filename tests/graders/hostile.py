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
    "secrets by the garbage collector": "any(mark in repr(o)[:400] for o in __import__('gc').get_objects() if type(o) in (dict, str, bytes) for mark in ('SECRET' + '_KEY', 'DATABASE' + '_URL', 's' + 'k-', 'STUDIO' + '_'))",  # in pieces, or it would find itself
    "secrets by walking frames": "_frames_hold(('SECRET_KEY', 'DATABASE', 'django'))",
    "django by loaded modules": "[name for name in sys.modules if name.split('.')[0] in ('django', 'rftstudio', 'celery', 'kombu')]",
    "loaded os of a loaded module": "[m for m in sys.modules.values() if getattr(m, 'os', None)][0].os.open('/etc/passwd', 0)",
    "builtin loader": "__import__('importlib').machinery.SourceFileLoader('x', '/etc/passwd').get_data('/etc/passwd')",
    "own import finder": "(sys.meta_path.clear(), sys.meta_path.append(__import__('importlib').machinery.PathFinder), sys.path.append('/usr/lib/python3'), sys.path_importer_cache.clear(), __import__('antigravity'))",
    "zip import": "__import__('zipimport').zipimporter('/usr/lib/x.zip')",
    "unpickled call": "__import__('pickle').loads(b\"cos\\nsystem\\n(S'true'\\ntR.\") == 0",
    "code object by hand": "eval((lambda: open('/etc/passwd').read(1)).__code__)",
    "file by io.FileIO": "__import__('io').FileIO('/etc/passwd').read(1)",
    "file by numpy": "__import__('numpy').fromfile('/etc/passwd', dtype='u1', count=1).size",
    "file by numpy memmap": "__import__('numpy').memmap('/etc/passwd', mode='r').size",
    "file by mmap of a pipe": "__import__('mmap').mmap(10, 10)",
    "file by sqlite": "__import__('sqlite3').connect('/tmp/rft-evil.db').execute('create table a(b)')",
    "library by dlopen": "ctypes.CDLL('libssl.so.3')",
    "shared memory": "__import__('multiprocessing.shared_memory', fromlist=['x']).SharedMemory(create=True, size=10)",
    "shared memory by call": "raw(29, 0, 4096, 0o1777)",
    "message queue by call": "raw(240, b'/x', 0o102, 0o600, None)",
    "process_madvise": "raw(440, 3, None, 0, 4, 0)",
    "kcmp": "raw(312, os.getppid(), os.getpid(), 0, 0, 0)",
    "get its limits of another": "raw(302, os.getppid(), 7, None, (ctypes.c_uint64 * 2)())",
    "scheduler of another": "raw(144, os.getppid(), 0, (ctypes.c_int * 1)(0))",
    "wait for others": "os.waitpid(-1, 1)",
    "terminal input": "raw(16, 0, 0x5412, b'x')",
    "clock": "raw(227, 0, (ctypes.c_long * 2)(0, 0))",
    "reboot": "raw(169, 0xfee1dead, 672274793, 0, None)",
    "name of the machine": "os.uname().nodename",
    "users": "__import__('pwd').getpwuid(0)",
    "resolver": "__import__('socket').gethostbyname('localhost')",
    "core by gdb handler": "__import__('faulthandler').dump_traceback(file=open('/tmp/rft-evil', 'w')) is None",
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
    "recursion in the destructor": "class D:\n        def __del__(self): D()\n    D()\n    while True: pass",
    "evil number": "import numbers\n    class E(numbers.Real):\n        pass\n    E.__abstractmethods__ = frozenset()\n    E.__float__ = lambda self: __import__('os')._exit(3)\n    return E()",
    "number that hangs": "class E(float):\n        def __float__(self):\n            while True: pass\n    return E(1)",
    "error that hangs when shown": "class E(Exception):\n        def __str__(self):\n            while True: pass\n    raise E",
    "error whose type lies": "class M(type):\n        def __getattribute__(cls, name): raise SystemExit\n    class E(Exception, metaclass=M): pass\n    raise E",
    "deep reply": "import os, struct; body = b'[' * 500000; os.write(11, struct.pack('!I', len(body)) + body)\n    while True: pass",
    "huge frame": "import os; os.write(11, b'\\xff\\xff\\xff\\xff')\n    while True: pass",
    "half a frame": "import os; os.write(11, b'\\0\\0\\0\\x09abc')\n    while True: pass",
    "forged nonce": "import sys, os, struct, json\n    f = sys._getframe()\n    while 'message' not in f.f_locals: f = f.f_back\n    body = json.dumps({'nonce': f.f_locals['message']['nonce'], 'value': 10 ** 400}).encode()\n    os.write(11, struct.pack('!I', len(body)) + body)\n    while True: pass",
    "replaced writer": "import sys\n    f = sys._getframe()\n    while 'write_frame' not in f.f_globals: f = f.f_back\n    f.f_globals['write_frame'] = lambda *a: None",
    "replaced number check": "import sys, math\n    math.isfinite = lambda x: True\n    return float('nan')",
    "profile hook": "import sys; sys.setprofile(lambda *a: (_ for _ in ()).throw(SystemExit))",
    "trace hook": "import sys; sys.settrace(lambda *a: __import__('os')._exit(0))",
    "exit hook": "import atexit; atexit.register(lambda: __import__('time').sleep(1000)); raise SystemExit",
    "timer that rings later": "import signal; signal.signal(signal.SIGALRM, lambda *a: __import__('os')._exit(1)); signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)",
    "huge exception": "raise ValueError('x' * 10 ** 8)",
    "huge answer of steps": "global grade_steps\n    grade_steps = lambda s, i: [0.1] * 10 ** 7",
    "endless steps": "global grade_steps\n    grade_steps = lambda s, i: __import__('itertools').repeat(0.5)",
    "json bomb": "import json; json.loads('[' * 10 ** 6)",
    "regex bomb": "import re; re.compile('(?:' * 5000 + 'a' + ')*' * 5000).match('a' * 10 ** 5)",
    "decimal bomb": "import decimal; decimal.getcontext().prec = 10 ** 9; x = decimal.Decimal(1) / 3",
    "numpy bomb": "import numpy; numpy.ones((10 ** 5, 10 ** 5)) @ numpy.ones((10 ** 5, 10 ** 5))",
    "text of a huge integer": "import sys; sys.set_int_max_str_digits(0); str(10 ** 10 ** 7)",
    "blocked signals": "import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 64))\n    while True: pass",
}


_FRAMES = """
def _frames_hold(words):
    frame = sys._getframe()
    while frame:
        if any(word in text for text in map(repr, (frame.f_locals, list(frame.f_globals))) for word in words if frame.f_back):
            return frame.f_code.co_name not in ("_frames_hold", "grade", "<genexpr>", "<module>")
        frame = frame.f_back
"""
_HELPER = _FRAMES + (
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
