//! Conversions between the generated types and the plain ones; nothing else in the crate does this.

use std::time::Duration;

use crate::client::ClientError;
use crate::execution::{Event, ExecuteRequest, Execution, ExecutionState, Health};
use crate::executor::v1;

impl From<ExecuteRequest> for v1::ExecuteRequest {
    fn from(request: ExecuteRequest) -> Self {
        Self {
            id: request.id,
            args: request.args,
            env: request.env,
            timeout_seconds: request.timeout.map_or(0, whole_seconds),
            working_dir: request.working_dir,
            entrypoint: request.entrypoint,
            handler: request.handler,
        }
    }
}

impl From<v1::ExecuteRequest> for ExecuteRequest {
    fn from(request: v1::ExecuteRequest) -> Self {
        let seconds = u64::try_from(request.timeout_seconds).unwrap_or(0);
        Self {
            id: request.id,
            args: request.args,
            env: request.env,
            timeout: (seconds > 0).then(|| Duration::from_secs(seconds)),
            working_dir: request.working_dir,
            entrypoint: request.entrypoint,
            handler: request.handler,
        }
    }
}

/// Rounds up, and never to zero: zero means "no limit" on the wire (N-72).
fn whole_seconds(limit: Duration) -> i64 {
    let up = u64::from(limit.subsec_nanos() > 0);
    let seconds = limit.as_secs().saturating_add(up).max(1);
    i64::try_from(seconds).unwrap_or(i64::MAX)
}

impl From<i32> for ExecutionState {
    fn from(number: i32) -> Self {
        match v1::ExecutionState::try_from(number) {
            Ok(v1::ExecutionState::Pending) => Self::Pending,
            Ok(v1::ExecutionState::Running) => Self::Running,
            Ok(v1::ExecutionState::Succeeded) => Self::Succeeded,
            Ok(v1::ExecutionState::Failed) => Self::Failed,
            Ok(v1::ExecutionState::Unspecified) | Err(_) => Self::Unknown(number),
        }
    }
}

impl From<ExecutionState> for i32 {
    fn from(state: ExecutionState) -> Self {
        match state {
            ExecutionState::Pending => v1::ExecutionState::Pending.into(),
            ExecutionState::Running => v1::ExecutionState::Running.into(),
            ExecutionState::Succeeded => v1::ExecutionState::Succeeded.into(),
            ExecutionState::Failed => v1::ExecutionState::Failed.into(),
            ExecutionState::Unknown(number) => number,
        }
    }
}

impl From<v1::StatusResponse> for Execution {
    fn from(answer: v1::StatusResponse) -> Self {
        Self {
            id: answer.id,
            state: answer.state.into(),
            exit_code: answer.exit_code,
            stdout: answer.stdout,
            stderr: answer.stderr,
            error_message: answer.error_message,
        }
    }
}

impl From<Execution> for v1::StatusResponse {
    fn from(execution: Execution) -> Self {
        Self {
            id: execution.id,
            state: execution.state.into(),
            exit_code: execution.exit_code,
            stdout: execution.stdout,
            stderr: execution.stderr,
            error_message: execution.error_message,
        }
    }
}

impl From<v1::HealthResponse> for Health {
    fn from(answer: v1::HealthResponse) -> Self {
        Self {
            healthy: answer.healthy,
            message: answer.message,
        }
    }
}

impl From<Health> for v1::HealthResponse {
    fn from(health: Health) -> Self {
        Self {
            healthy: health.healthy,
            message: health.message,
        }
    }
}

impl From<v1::WatchEvent> for Event {
    fn from(event: v1::WatchEvent) -> Self {
        Self {
            id: event.id,
            state: event.state.into(),
            output: event.output,
        }
    }
}

impl From<Event> for v1::WatchEvent {
    fn from(event: Event) -> Self {
        Self {
            id: event.id,
            state: event.state.into(),
            output: event.output,
        }
    }
}

impl From<tonic::Status> for ClientError {
    fn from(status: tonic::Status) -> Self {
        // A status made on this side, out of a broken connection, carries its cause; a server's never does.
        let broken = std::error::Error::source(&status).is_some();
        let message = status.message().to_owned();
        match status.code() {
            tonic::Code::NotFound => Self::NotFound { message },
            tonic::Code::AlreadyExists => Self::AlreadyExists { message },
            tonic::Code::FailedPrecondition => Self::FailedPrecondition { message },
            tonic::Code::InvalidArgument => Self::InvalidArgument { message },
            tonic::Code::Unimplemented => Self::Unimplemented { message },
            tonic::Code::DeadlineExceeded => Self::DeadlineExceeded { message },
            tonic::Code::Unavailable => Self::Unavailable { message },
            tonic::Code::Unknown | tonic::Code::Internal | tonic::Code::Cancelled if broken => {
                Self::Unavailable { message }
            }
            code => Self::Other { code, message },
        }
    }
}

impl From<ClientError> for tonic::Status {
    fn from(error: ClientError) -> Self {
        let (code, message) = match error {
            ClientError::NotFound { message } => (tonic::Code::NotFound, message),
            ClientError::AlreadyExists { message } => (tonic::Code::AlreadyExists, message),
            ClientError::FailedPrecondition { message } => {
                (tonic::Code::FailedPrecondition, message)
            }
            ClientError::InvalidArgument { message } => (tonic::Code::InvalidArgument, message),
            ClientError::Unimplemented { message } => (tonic::Code::Unimplemented, message),
            ClientError::DeadlineExceeded { message } => (tonic::Code::DeadlineExceeded, message),
            ClientError::Unavailable { message } => (tonic::Code::Unavailable, message),
            ClientError::Other { code, message } => (code, message),
        };
        Self::new(code, message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n_72_a_limit_is_rounded_up_and_never_becomes_none() {
        for (limit, want) in [
            (Duration::ZERO, 1),
            (Duration::from_millis(1), 1),
            (Duration::from_secs(1), 1),
            (Duration::from_millis(1001), 2),
            (Duration::MAX, i64::MAX),
        ] {
            assert_eq!(whole_seconds(limit), want, "{limit:?}");
        }
    }

    #[test]
    fn unknown_numbers_survive_the_round_trip() {
        for number in -1..=9 {
            assert_eq!(i32::from(ExecutionState::from(number)), number);
        }
        assert_eq!(ExecutionState::from(9), ExecutionState::Unknown(9));
        assert_eq!(ExecutionState::from(0), ExecutionState::GONE);
    }

    #[test]
    fn codes_survive_the_round_trip() {
        for number in 1..=16 {
            let code = tonic::Code::from(number);
            let error = ClientError::from(tonic::Status::new(code, "why"));
            let status = tonic::Status::from(error);
            assert_eq!((status.code(), status.message()), (code, "why"));
        }
    }

    #[test]
    fn a_broken_connection_is_unavailable_whatever_the_code() {
        let cause = std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        let status = tonic::Status::from_error(Box::new(cause));
        assert!(matches!(
            ClientError::from(status),
            ClientError::Unavailable { .. }
        ));
        let said = tonic::Status::unknown("the server said so");
        assert!(matches!(ClientError::from(said), ClientError::Other { .. }));
    }
}
