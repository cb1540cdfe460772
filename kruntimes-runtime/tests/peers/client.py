"""A client made of the .proto files alone; prints `held` when a Bash server keeps its word.

Usage: client.py ENDPOINT WORK_DIR
"""

import sys

import grpc
from executor.v1 import events_pb2, events_pb2_grpc
from executor.v1 import function_pb2, function_pb2_grpc
from executor.v1 import runtime_pb2 as pb
from executor.v1 import runtime_pb2_grpc
from executor.v1 import session_pb2, session_pb2_grpc

ENDED = (pb.EXECUTION_STATE_SUCCEEDED, pb.EXECUTION_STATE_FAILED)
PATIENCE = 60


def refused(call, code):
    try:
        answer = call()
    except grpc.RpcError as error:
        assert error.code() == code, (error.code(), code, error.details())
        return
    raise AssertionError(f"{answer!r}, not {code}")


class Peer:
    def __init__(self, channel, work_dir):
        self.channel = channel
        self.work_dir = work_dir
        self.runtime = runtime_pb2_grpc.RuntimeStub(channel)
        self.events = events_pb2_grpc.RuntimeEventsStub(channel)

    def request(self, id, *args, **more):
        return pb.ExecuteRequest(id=id, args=args, working_dir=self.work_dir, **more)

    def status(self, id):
        return self.runtime.Status(pb.StatusRequest(id=id), timeout=PATIENCE)

    def end(self, id):
        """Waits by events, as a client should."""
        for event in self.events.Watch(events_pb2.WatchRequest(ids=[id]), timeout=PATIENCE):
            assert event.id == id, event
            if event.state in ENDED:
                return self.status(id)
        raise AssertionError("the events stopped before the end")

    def run(self, id, *args, **more):
        answer = self.runtime.Execute(self.request(id, *args, **more), timeout=PATIENCE)
        assert answer.id == id, answer
        return self.end(id)


def ends(peer):
    end = peer.run("good", 'echo "$WHO"; echo err >&2', env={"WHO": "me"})
    assert (end.state, end.exit_code) == (pb.EXECUTION_STATE_SUCCEEDED, 0), end
    assert (end.stdout, end.stderr, end.error_message) == ("me\n", "err\n", ""), end
    end = peer.run("bad", "exit 7")
    assert (end.state, end.exit_code) == (pb.EXECUTION_STATE_FAILED, 7), end
    end = peer.run("late", "sleep 300", timeout_seconds=1)
    assert (end.state, end.exit_code, end.error_message) == (pb.EXECUTION_STATE_FAILED, -1, "timeout"), end
    end = peer.run("long", "head -c 3000000 /dev/zero | tr '\\0' y")
    assert end.stdout.endswith("y\n[output truncated]\n") and len(end.stdout) > 1 << 20, len(end.stdout)
    listed = peer.runtime.List(pb.ListRequest()).entries
    assert {entry.id for entry in listed} == {"good", "bad", "late", "long"}, listed
    for entry in listed:
        peer.runtime.Forget(pb.ForgetRequest(id=entry.id))
    assert not peer.runtime.List(pb.ListRequest()).entries


def stops(peer):
    peer.runtime.Execute(peer.request("endless", "echo ready; sleep 300"))
    refused(lambda: peer.runtime.Forget(pb.ForgetRequest(id="endless")), grpc.StatusCode.FAILED_PRECONDITION)
    for event in peer.events.Watch(events_pb2.WatchRequest(ids=["endless"]), timeout=PATIENCE):
        now = peer.status("endless")
        assert now.state == pb.EXECUTION_STATE_RUNNING and event.state == now.state, (event, now)
        if now.stdout == "ready\n":
            break
    peer.runtime.Cancel(pb.CancelRequest(id="endless"), timeout=PATIENCE)
    refused(lambda: peer.status("endless"), grpc.StatusCode.NOT_FOUND)


def mistakes(peer):
    refused(lambda: peer.runtime.Execute(peer.request("", "true")), grpc.StatusCode.INVALID_ARGUMENT)
    outside = pb.ExecuteRequest(id="a", args=["true"], working_dir="/")
    refused(lambda: peer.runtime.Execute(outside), grpc.StatusCode.INVALID_ARGUMENT)
    for call, request in [
        (peer.runtime.Status, pb.StatusRequest(id="nobody")),
        (peer.runtime.Cancel, pb.CancelRequest(id="nobody")),
        (peer.runtime.Forget, pb.ForgetRequest(id="nobody")),
    ]:
        refused(lambda: call(request), grpc.StatusCode.NOT_FOUND)


def other_services(peer):
    functions = function_pb2_grpc.FunctionRuntimeStub(peer.channel)
    sessions = session_pb2_grpc.SessionRuntimeStub(peer.channel)
    missing = grpc.StatusCode.UNIMPLEMENTED
    refused(lambda: functions.FunctionStatus(function_pb2.FunctionStatusRequest()), missing)
    refused(lambda: sessions.CloseSession(session_pb2.CloseSessionRequest()), missing)
    health = peer.runtime.Health(pb.HealthRequest())
    assert health.healthy, health


def fields_of_the_future(peer):
    """Field 1000 is unknown to the server, and ignored."""
    execute = peer.channel.unary_unary(
        "/executor.v1.Runtime/Execute",
        request_serializer=lambda message: message.SerializeToString() + b"\xc2\x3e\x03abc",
        response_deserializer=pb.ExecuteResponse.FromString,
    )
    assert execute(peer.request("future", "echo here")).id == "future"
    assert peer.end("future").stdout == "here\n"


def main(endpoint, work_dir):
    # As much as a `List` may bring; and a host, where this library would name the path of a unix socket, escaped.
    options = [("grpc.max_receive_message_length", 16 << 20), ("grpc.default_authority", "localhost")]
    with grpc.insecure_channel(endpoint, options=options) as channel:
        peer = Peer(channel, work_dir)
        for check in (ends, stops, mistakes, other_services, fields_of_the_future):
            check(peer)
    print("held")


main(*sys.argv[1:])
