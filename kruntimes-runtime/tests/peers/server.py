"""A Runtime Server for shell scripts made of the .proto files alone; keeps ids until they are forgotten.

Usage: server.py ENDPOINT WORK_DIR; prints `serving` once it can be called.
"""

import os
import posixpath
import signal
import subprocess
import sys
import threading
from concurrent import futures

import grpc
from executor.v1 import runtime_pb2 as pb
from executor.v1 import runtime_pb2_grpc

OUTPUT_MAX = 1 << 20
MARK = b"\n[output truncated]\n"


class Execution:
    """One process group, its outputs and its end."""

    def __init__(self, id):
        self.id = id
        self.lock = threading.Lock()
        self.out = {"stdout": b"", "stderr": b""}
        self.full = set()
        self.state = pb.EXECUTION_STATE_RUNNING
        self.code = 0
        self.message = ""
        self.process = None
        self.stopped = None
        self.ended = threading.Event()

    def fail(self, message):
        self.conclude(pb.EXECUTION_STATE_FAILED, -1, message)

    def conclude(self, state, code, message):
        with self.lock:
            self.state, self.code, self.message = state, code, message
        self.ended.set()

    def start(self, command, directory, environment, timeout):
        self.process = subprocess.Popen(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            process_group=0,
        )
        threading.Thread(target=self.watch, args=(timeout,), daemon=True).start()

    def watch(self, timeout):
        readers = [
            threading.Thread(target=self.read, args=(name, pipe), daemon=True)
            for name, pipe in (("stdout", self.process.stdout), ("stderr", self.process.stderr))
        ]
        for reader in readers:
            reader.start()
        try:
            code = self.process.wait(timeout or None)
        except subprocess.TimeoutExpired:
            self.stop("timeout")
            code = self.process.wait()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        for reader in readers:
            reader.join()
        with self.lock:
            stopped = self.stopped
        if stopped:
            self.fail(stopped)
        elif code < 0:
            self.fail(f"killed by {signal.Signals(-code).name}")
        else:
            state = pb.EXECUTION_STATE_FAILED if code else pb.EXECUTION_STATE_SUCCEEDED
            self.conclude(state, code, "")

    def read(self, name, pipe):
        while piece := pipe.read1(65536):
            with self.lock:
                room = OUTPUT_MAX - len(self.out[name])
                self.out[name] += piece[:room]
                if len(piece) > room:
                    self.full.add(name)

    def stop(self, why):
        with self.lock:
            if self.process.returncode is None and self.stopped is None:
                self.stopped = why
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def snapshot(self):
        with self.lock:
            text = {
                name: (kept + (MARK if name in self.full else b"")).decode(errors="replace")
                for name, kept in self.out.items()
            }
            return pb.StatusResponse(
                id=self.id, state=self.state, exit_code=self.code, error_message=self.message, **text
            )


class Runtime(runtime_pb2_grpc.RuntimeServicer):
    def __init__(self, root):
        self.root = os.path.realpath(root)
        self.lock = threading.Lock()
        self.executions = {}

    def find(self, id, context):
        with self.lock:
            found = self.executions.get(id)
        if found is None:
            context.abort(grpc.StatusCode.NOT_FOUND, f"{id} is not known")
        return found

    def check(self, request, context):
        clean = posixpath.normpath(request.entrypoint or "script")
        if not request.id or clean == "." or clean.startswith(("/", "..")):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "id or entrypoint")
        directory = os.path.realpath(request.working_dir or self.root)
        if os.path.commonpath([directory, self.root]) != self.root:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "working directory")
        return directory, clean

    def Execute(self, request, context):
        directory, entrypoint = self.check(request, context)
        execution = Execution(request.id)
        with self.lock:
            if request.id in self.executions:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, request.id)
            self.executions[request.id] = execution
            try:
                os.makedirs(directory, exist_ok=True)
            except OSError as error:
                execution.fail(f"mkdir: {error}")
                return pb.ExecuteResponse(id=request.id)
            file = os.path.join(directory, entrypoint)
            if not os.path.isfile(file):
                execution.fail("no script")
                return pb.ExecuteResponse(id=request.id)
            environment = os.environ | dict(request.env)
            execution.start(["sh", file, *request.args], directory, environment, request.timeout_seconds)
        return pb.ExecuteResponse(id=request.id)

    def Status(self, request, context):
        return self.find(request.id, context).snapshot()

    def List(self, request, context):
        with self.lock:
            executions = list(self.executions.values())
        return pb.ListResponse(entries=[execution.snapshot() for execution in executions])

    def Cancel(self, request, context):
        execution = self.find(request.id, context)
        if execution.process:
            execution.stop("cancelled")
        execution.ended.wait()
        return pb.CancelResponse()

    def Forget(self, request, context):
        execution = self.find(request.id, context)
        if not execution.ended.is_set():
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, f"{request.id} has not ended")
        with self.lock:
            self.executions.pop(request.id, None)
        return pb.ForgetResponse()

    def Health(self, request, context):
        return pb.HealthResponse(healthy=True)


def main(endpoint, work_dir):
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=64))
    runtime_pb2_grpc.add_RuntimeServicer_to_server(Runtime(work_dir), server)
    server.add_insecure_port(endpoint)
    server.start()
    print("serving", flush=True)
    server.wait_for_termination()


main(*sys.argv[1:])
