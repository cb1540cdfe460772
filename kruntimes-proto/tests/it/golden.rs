//! Every message of the protocol against bytes worked out from the table of field numbers.
//!
//! The bytes come from an encoder that shares nothing with the one under test: key (number, wire
//! type), length, content, fields in ascending order, map entries in ascending order. Changing a
//! number or a type in a .proto file breaks peers built from another copy, and this test first.

use std::collections::BTreeMap;
use std::fmt::Debug;

use kruntimes_proto::artifact::v1 as a;
use kruntimes_proto::executor::v1 as x;
use prost::Message;
use x::execute_session_operation_request::Operation;
use x::session_operation_event::Event;

/// Checks both directions, and that an unknown field is ignored.
#[track_caller]
fn golden<M: Message + Default + PartialEq + Debug>(message: &M, hex: &str) {
    let bytes: Vec<u8> = (0..hex.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex"))
        .collect();
    assert_eq!(message.encode_to_vec(), bytes, "{message:?}");
    assert_eq!(&M::decode(&bytes[..]).expect("own bytes"), message);
    // Field 1000 as a varint.
    let extended = [&bytes[..], &[0xc0, 0x3e, 0x01]].concat();
    assert_eq!(&M::decode(&extended[..]).expect("unknown field"), message);
}

fn t(text: &str) -> String {
    text.to_owned()
}

fn b(text: &str) -> Vec<u8> {
    text.as_bytes().to_vec()
}

fn env() -> BTreeMap<String, String> {
    BTreeMap::from([(t("A"), t("1")), (t("B"), t("2"))])
}

fn status() -> x::StatusResponse {
    x::StatusResponse {
        id: t("a"),
        state: x::ExecutionState::Failed.into(),
        exit_code: -1,
        stdout: t("out"),
        stderr: t("err"),
        error_message: t("timeout"),
    }
}

fn registration() -> x::FunctionRegistration {
    x::FunctionRegistration {
        run_uid: t("u1"),
        registration_id: t("r2"),
    }
}

fn identity() -> x::SessionIdentity {
    x::SessionIdentity {
        run_uid: t("u1"),
        assigned_pod_uid: t("p2"),
    }
}

fn command() -> x::SessionCommand {
    x::SessionCommand {
        argv: vec![t("ls"), t("-l")],
        shell: t("sh"),
        working_directory: t("w"),
        env: env(),
        stdin: b("in"),
        timeout_millis: 1500,
    }
}

fn operation(operation: Operation) -> x::ExecuteSessionOperationRequest {
    x::ExecuteSessionOperationRequest {
        identity: Some(identity()),
        operation: Some(operation),
        idempotency_key: t("k"),
        resume_after_sequence: 300,
    }
}

fn result() -> x::SessionCommandResult {
    x::SessionCommandResult {
        exit_code: 7,
        stdout: b("o"),
        stderr: b("e"),
        timed_out: true,
    }
}

fn completed() -> x::ExecuteSessionOperationResponse {
    x::ExecuteSessionOperationResponse {
        command: Some(result()),
    }
}

fn progress(kind: x::SessionOperationProgressKind) -> x::SessionOperationProgress {
    x::SessionOperationProgress {
        kind: kind.into(),
        message: t("m"),
        tool_call_id: t("c"),
        tool_name: t("t"),
        data: b("{}"),
        content_type: t("j"),
    }
}

fn file_info() -> x::SessionFileInfo {
    x::SessionFileInfo {
        path: t("f"),
        directory: true,
        size_bytes: 300,
    }
}

fn metadata() -> a::ArtifactMetadata {
    a::ArtifactMetadata {
        name: t("n"),
        r#type: t("file"),
        content_type: t("text/plain"),
        size_bytes: 300,
        digest: t("sha256:0"),
    }
}

#[test]
fn task_messages_have_their_bytes() {
    golden(
        &x::ExecuteRequest {
            id: t("a"),
            args: vec![t("x"), t("")],
            env: env(),
            timeout_seconds: 300,
            working_dir: t("/w"),
            entrypoint: t("script"),
            handler: t("m.f"),
        },
        "0a016112017812001a060a01411201311a060a014212013220ac022a022f7732067363726970743a036d2e66",
    );
    golden(&x::ExecuteResponse { id: t("a") }, "0a0161");
    golden(&x::StatusRequest { id: t("a") }, "0a0161");
    golden(&x::CancelRequest { id: t("a") }, "0a0161");
    golden(&x::ForgetRequest { id: t("a") }, "0a0161");
    golden(
        &status(),
        "0a0161100418ffffffffffffffffff0122036f75742a03657272320774696d656f7574",
    );
    golden(&x::ListRequest {}, "");
    golden(&x::CancelResponse {}, "");
    golden(&x::ForgetResponse {}, "");
    golden(&x::HealthRequest {}, "");
    golden(
        &x::ListResponse {
            entries: vec![
                status(),
                x::StatusResponse {
                    id: t("b"),
                    state: x::ExecutionState::Pending.into(),
                    ..Default::default()
                },
            ],
        },
        "0a230a0161100418ffffffffffffffffff0122036f75742a03657272320774696d656f75740a050a01621001",
    );
    golden(
        &x::HealthResponse {
            healthy: true,
            message: t("ok"),
        },
        "080112026f6b",
    );
    golden(
        &x::WatchRequest {
            ids: vec![t("a"), t("b")],
        },
        "0a01610a0162",
    );
    golden(
        &x::WatchEvent {
            id: t("a"),
            state: x::ExecutionState::Running.into(),
            output: true,
        },
        "0a016110021801",
    );
}

#[test]
fn function_messages_have_their_bytes() {
    golden(&registration(), "0a02753112027232");
    golden(
        &x::RegisterFunctionResponse {
            registration: Some(registration()),
            state: x::FunctionRegistrationState::Ready.into(),
        },
        "0a080a027531120272321002",
    );
    golden(
        &x::FunctionStatusRequest {
            registration: Some(registration()),
        },
        "0a080a02753112027232",
    );
    golden(
        &x::UnregisterFunctionResponse {
            registration: Some(registration()),
        },
        "0a080a02753112027232",
    );
    golden(
        &x::FunctionStatusResponse {
            registration: Some(registration()),
            state: x::FunctionRegistrationState::Draining.into(),
            in_flight: 5,
            last_activity_unix_nano: 1_700_000_000_000_000_000,
            fatal_error: t("bad"),
        },
        "0a080a0275311202723210031805208080a8b1e39fe7cb172a03626164",
    );
    golden(
        &x::InvokeFunctionResponse {
            registration: Some(registration()),
            invocation_id: t("i"),
            output: vec![0, 255],
            content_type: t("t"),
            outputs: env(),
        },
        "0a080a027531120272321201691a0200ff2201742a060a01411201312a060a0142120132",
    );
}

#[test]
fn function_requests_have_their_bytes() {
    golden(
        &x::RegisterFunctionRequest {
            run_uid: t("u1"),
            registration_attempt: 2,
            working_dir: t("/w"),
            handler: t("m.f"),
            env: env(),
            idle_timeout_seconds: 60,
            registration_digest: t("d"),
        },
        "0a02753110021a022f7722036d2e662a060a01411201312a060a0142120132303c3a0164",
    );
    golden(
        &x::InvokeFunctionRequest {
            registration: Some(registration()),
            invocation_id: t("i"),
            input: vec![0, 255],
            content_type: t("t"),
            timeout_millis: 1500,
        },
        "0a080a027531120272321201691a0200ff22017428dc0b",
    );
    golden(
        &x::UnregisterFunctionRequest {
            registration: Some(registration()),
            cancel_in_flight: true,
            drain_timeout_millis: 1500,
        },
        "0a080a02753112027232100118dc0b",
    );
}

#[test]
fn session_messages_have_their_bytes() {
    golden(&identity(), "0a02753112027032");
    golden(
        &x::RegisterSessionRequest {
            identity: Some(identity()),
            working_dir: t("/w"),
            env: env(),
        },
        "0a080a0275311202703212022f771a060a01411201311a060a0142120132",
    );
    golden(
        &x::GetSessionStatusRequest {
            identity: Some(identity()),
        },
        "0a080a02753112027032",
    );
    golden(
        &x::RenewSessionLeaseRequest {
            identity: Some(identity()),
        },
        "0a080a02753112027032",
    );
    golden(
        &x::CloseSessionRequest {
            identity: Some(identity()),
        },
        "0a080a02753112027032",
    );
    golden(
        &x::CloseSessionResponse {
            identity: Some(identity()),
        },
        "0a080a02753112027032",
    );
    golden(
        &x::SessionStatus {
            identity: Some(identity()),
            state: x::SessionState::Ready.into(),
            last_activity_unix_nano: 300,
            fatal_error: t("bad"),
            last_lease_heartbeat_unix_nano: 301,
        },
        "0a080a02753112027032100218ac02220362616428ad02",
    );
}

#[test]
fn session_operations_have_their_bytes() {
    golden(
        &operation(Operation::Command(command())),
        "0a080a0275311202703212260a026c730a022d6c120273681a017722060a014112013122060a01421201322a02696e30dc0b3a016b40ac02",
    );
    golden(
        &operation(Operation::WriteFile(x::SessionFileWrite {
            path: t("f"),
            contents: b("c"),
            create_parents: true,
        })),
        "0a080a027531120270321a080a016612016318013a016b40ac02",
    );
    golden(
        &operation(Operation::CreateDirectory(x::SessionDirectoryCreate {
            path: t("d"),
        })),
        "0a080a0275311202703222030a01643a016b40ac02",
    );
    golden(
        &operation(Operation::DeleteFile(x::SessionFileDelete {
            path: t("f"),
            recursive: true,
        })),
        "0a080a027531120270322a050a016610013a016b40ac02",
    );
    golden(
        &operation(Operation::RenameFile(x::SessionFileRename {
            source_path: t("a"),
            destination_path: t("b"),
            overwrite: true,
        })),
        "0a080a0275311202703232080a016112016218013a016b40ac02",
    );
}

#[test]
fn session_operation_messages_have_their_bytes() {
    golden(
        &command(),
        "0a026c730a022d6c120273681a017722060a014112013122060a01421201322a02696e30dc0b",
    );
    golden(&completed(), "0a0a080712016f1a01652001");
    golden(
        &x::SessionOperationAccepted {
            operation_id: t("op"),
        },
        "0a026f70",
    );
    golden(
        &x::SessionOperationOutput {
            stream: x::SessionOperationOutputStream::Stdout.into(),
            data: b("o"),
        },
        "080112016f",
    );
    golden(
        &progress(x::SessionOperationProgressKind::ToolCallFinished),
        "080412016d1a01632201742a027b7d32016a",
    );
    golden(
        &x::SessionOperationFailure {
            code: 14,
            message: t("no"),
        },
        "080e12026e6f",
    );
    golden(&result(), "080712016f1a01652001");
}

#[test]
fn session_events_have_their_bytes() {
    golden(
        &x::SessionOperationEvent {
            sequence: 1,
            event: Some(Event::Accepted(x::SessionOperationAccepted {
                operation_id: t("op"),
            })),
        },
        "080112040a026f70",
    );
    golden(
        &x::SessionOperationEvent {
            sequence: 2,
            event: Some(Event::Output(x::SessionOperationOutput {
                stream: x::SessionOperationOutputStream::Stderr.into(),
                data: b("e"),
            })),
        },
        "08021a050802120165",
    );
    golden(
        &x::SessionOperationEvent {
            sequence: 3,
            event: Some(Event::Progress(progress(
                x::SessionOperationProgressKind::ToolCallStarted,
            ))),
        },
        "08032212080312016d1a01632201742a027b7d32016a",
    );
    golden(
        &x::SessionOperationEvent {
            sequence: 4,
            event: Some(Event::Completed(completed())),
        },
        "08042a0c0a0a080712016f1a01652001",
    );
    golden(
        &x::SessionOperationEvent {
            sequence: 5,
            event: Some(Event::Failed(x::SessionOperationFailure {
                code: 5,
                message: t("no"),
            })),
        },
        "08053206080512026e6f",
    );
}

#[test]
fn session_file_messages_have_their_bytes() {
    golden(
        &x::ReadSessionFileRequest {
            identity: Some(identity()),
            path: t("f"),
            max_bytes: 300,
        },
        "0a080a0275311202703212016618ac02",
    );
    golden(
        &x::ReadSessionFileResponse {
            contents: b("c"),
            truncated: true,
        },
        "0a01631001",
    );
    golden(
        &x::ListSessionFilesRequest {
            identity: Some(identity()),
            path: t("d"),
            limit: 50,
            page_token: t("t"),
        },
        "0a080a027531120270321201641832220174",
    );
    golden(&file_info(), "0a0166100118ac02");
    golden(
        &x::ListSessionFilesResponse {
            entries: vec![file_info()],
            next_page_token: t("t"),
        },
        "0a080a0166100118ac02120174",
    );
    golden(
        &x::SessionFileWrite {
            path: t("f"),
            contents: b("c"),
            create_parents: true,
        },
        "0a01661201631801",
    );
    golden(&x::SessionDirectoryCreate { path: t("d") }, "0a0164");
    golden(
        &x::SessionFileDelete {
            path: t("f"),
            recursive: true,
        },
        "0a01661001",
    );
    golden(
        &x::SessionFileRename {
            source_path: t("a"),
            destination_path: t("b"),
            overwrite: true,
        },
        "0a01611201621801",
    );
}

#[test]
fn artifact_messages_have_their_bytes() {
    golden(
        &a::DownloadRequest {
            namespace: t("ns"),
            run_name: t("r"),
            artifact_name: t("a"),
        },
        "0a026e731201721a0161",
    );
    golden(
        &metadata(),
        "0a016e120466696c651a0a746578742f706c61696e20ac022a087368613235363a30",
    );
    golden(
        &a::DownloadResponse {
            metadata: Some(metadata()),
            data: b("d"),
        },
        "0a220a016e120466696c651a0a746578742f706c61696e20ac022a087368613235363a30120164",
    );
}

macro_rules! numbers {
    ($kind:ident, $prefix:literal, $($name:literal),+) => {
        let mut next = 0;
        for name in [$($name),+] {
            let name = format!("{}_{name}", $prefix);
            let value = x::$kind::from_str_name(&name).expect(&name);
            assert_eq!(i32::from(value), next, "{name}");
            next += 1;
        }
        assert!(x::$kind::try_from(next).is_err());
    };
}

#[test]
fn enum_names_have_their_numbers() {
    numbers!(
        ExecutionState,
        "EXECUTION_STATE",
        "UNSPECIFIED",
        "PENDING",
        "RUNNING",
        "SUCCEEDED",
        "FAILED"
    );
    numbers!(
        FunctionRegistrationState,
        "FUNCTION_REGISTRATION_STATE",
        "UNSPECIFIED",
        "REGISTERING",
        "READY",
        "DRAINING",
        "FAILED"
    );
    numbers!(
        SessionState,
        "SESSION_STATE",
        "UNSPECIFIED",
        "REGISTERING",
        "READY",
        "CLOSING",
        "CLOSED",
        "FAILED"
    );
    numbers!(
        SessionOperationOutputStream,
        "SESSION_OPERATION_OUTPUT_STREAM",
        "UNSPECIFIED",
        "STDOUT",
        "STDERR"
    );
    numbers!(
        SessionOperationProgressKind,
        "SESSION_OPERATION_PROGRESS_KIND",
        "UNSPECIFIED",
        "STATUS",
        "TEXT_DELTA",
        "TOOL_CALL_STARTED",
        "TOOL_CALL_FINISHED"
    );
}
