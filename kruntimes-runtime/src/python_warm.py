# A warm interpreter: forks one process per request of the server on standard input and never runs
# anything itself. Arguments: the name of the variable that marks processes.
#
# A request is four bytes of length with three descriptors, then fields that end in NUL. The answer is the
# number of the new process, which has become a child of the server and waits for one byte before it begins.
import os
import signal
import socket
import struct
import sys


def load(mark):
    # Everything a program may want at once is loaded before the forks, so that they need not do it.
    import ctypes
    import gc
    import importlib.util
    import json
    import linecache
    import pkgutil
    import runpy
    import site
    import traceback
    import types

    # Environment as the kernel shows it: the place is rewritten in each fork, so that its children, which
    # may never call exec, are told from those of other forks.
    getenv = ctypes.CDLL(None).getenv
    getenv.restype = ctypes.c_void_p
    place = getenv(mark.encode())
    size = len(os.environ[mark])

    def write(value):
        ctypes.memmove(place, value.ljust(size, b"\0"), size)

    write(b"warm")
    with open("/proc/self/environ", "rb") as shown:
        if f"{mark}=warm".encode() not in shown.read().split(b"\0"):
            raise OSError("the environment cannot be rewritten")
    sys.path[:] = [entry for entry in sys.path if entry]
    gc.collect()
    gc.freeze()
    return write


def receive(server):
    head, fds, _, _ = socket.recv_fds(server, 4, 3)
    if len(head) < 4:
        os._exit(0)
    (length,) = struct.unpack("<I", head)
    body = b""
    while len(body) < length:
        piece = server.recv(length - len(body))
        if not piece:
            os._exit(0)
        body += piece
    return body.split(b"\0")[:-1], fds


def fork(server):
    """Serves until it is in a new process; returns what that one is to do."""
    while True:
        fields, fds = receive(server)
        reader, writer = os.pipe()
        if os.fork() == 0:
            child = os.fork()
            if child == 0:
                os.close(reader)
                os.close(writer)
                return fields, fds
            # Whoever knows the number may signal the group.
            os.setpgid(child, child)
            os.write(writer, struct.pack("<i", child))
            os._exit(0)
        for fd in fds:
            os.close(fd)
        os.close(writer)
        number = os.read(reader, 4)
        os.close(reader)
        # The process in between is gone when its child belongs to the server.
        os.wait()
        server.sendall(number)


def become(fields, fds, mark, write):
    """Turns this process into what the server would have started."""
    stdout, stderr, go = fds
    os.setpgid(0, 0)
    if os.read(go, 1) != b"g":
        os._exit(127)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for fd, place in ((nothing, 0), (stdout, 1), (stderr, 2)):
        os.dup2(fd, place)
    for fd in (nothing, *fds):
        if fd > 2:
            os.close(fd)
    value, directory, count, *rest = fields
    write(value)
    args, pairs = rest[: int(count)], rest[int(count) :]
    os.chdir(directory)
    home = os.environ.get("HOME")
    for name, setting in zip(pairs[::2], pairs[1::2]):
        os.environb[name] = setting
    os.environ[mark] = os.fsdecode(value)
    if os.environ.get("HOME") != home:
        move(sys.modules["site"])
    if "TZ" in os.environ:
        import time

        time.tzset()
    # Output is unbuffered as it is.
    return [os.fsdecode(arg) for arg in args if arg != b"-u" or args[0] is not arg]


def move(site):
    """The packages of a user lie in the home."""
    if site.USER_SITE in sys.path:
        sys.path.remove(site.USER_SITE)
    site.USER_BASE = site.USER_SITE = None
    if site.ENABLE_USER_SITE:
        site.addusersitepackages(set())


def program(args):
    """Does what `python ARGS` would do, in a module of its own."""
    import types

    main = types.ModuleType("__main__")
    main.__builtins__ = __builtins__
    if "__annotations__" in globals():
        main.__annotations__ = {}
    sys.modules["__main__"] = main
    first, rest = args[0], args[1:]
    if first == "-m":
        import runpy

        sys.argv = ["-m", *rest[1:]]
        sys.path.insert(0, os.getcwd())
        return lambda: runpy._run_module_as_main(rest[0])
    if first == "-c":
        sys.argv = ["-c", *rest[1:]]
        sys.path.insert(0, "")
        code = compile(rest[0], "<string>", "exec")
    else:
        import pkgutil
        import runpy
        from importlib.machinery import SourceFileLoader

        sys.argv = args
        if pkgutil.get_importer(first) is not None:
            return lambda: runpy.run_path(first, run_name="__main__")
        sys.path.insert(0, os.path.dirname(os.path.realpath(first)))
        main.__file__ = file = os.path.abspath(first)
        main.__cached__ = None
        main.__loader__ = SourceFileLoader("__main__", file)
        with open(file, "rb") as text:
            code = compile(text.read(), file, "exec")
    return lambda: exec(code, main.__dict__)


def run(args):
    """Ends this process as an interpreter would that was started for it."""
    try:
        program(args)()
    except SystemExit:
        raise
    except BaseException as error:
        ours, trace = run.__code__.co_filename, error.__traceback__
        while trace and trace.tb_frame.f_code.co_filename == ours and trace.tb_frame.f_globals is globals():
            trace = trace.tb_next
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(1)


def main():
    mark = sys.argv[1]
    write = load(mark)
    server = socket.socket(fileno=0)
    server.sendall(b"warm")
    fields, fds = fork(server)
    # Its number is that of standard input, which the new process gets a new one of.
    server.detach()
    run(become(fields, fds, mark, write))


main()
