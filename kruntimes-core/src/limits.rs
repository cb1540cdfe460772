//! Bounds of everything that may reach the API (API reference; node, section 3.3).

/// Longest message a component writes into a Run status, in bytes.
pub const MESSAGE_MAX_BYTES: usize = 1024;
/// Longest message the schema accepts, in characters; the bound of WorkflowRun messages in bytes.
pub const STATUS_MESSAGE_MAX: usize = 4096;
/// Outputs of one Run or map: number of keys.
pub const OUTPUTS_MAX_KEYS: usize = 64;
/// Outputs of one Run: bytes of a key.
pub const OUTPUT_KEY_MAX_BYTES: usize = 128;
/// Outputs of one Run: bytes of a value.
pub const OUTPUT_VALUE_MAX_BYTES: usize = 8192;
/// Outputs of one map: bytes of keys and values together.
pub const OUTPUTS_MAX_BYTES: usize = 65_536;
/// Outputs of one WorkflowRun status: bytes of keys and values together.
pub const WORKFLOW_OUTPUTS_MAX_BYTES: usize = 524_288;
/// Jobs of one object.
pub const JOBS_MAX: usize = 64;
/// Steps of one job or Action.
pub const STEPS_MAX: usize = 128;
/// Characters of an inline script.
pub const SCRIPT_MAX_CHARS: usize = 262_144;
/// Characters of one argument.
pub const ARG_MAX_CHARS: usize = 8192;
/// Arguments of one step or Run.
pub const ARGS_MAX: usize = 256;
/// Entries of an environment or of `with`.
pub const ENV_MAX: usize = 256;
/// Bytes of a serialized snapshot.
pub const SNAPSHOT_MAX_BYTES: usize = 1_048_576;
/// Bytes of a frozen output contract.
pub const OUTPUT_CONTRACT_MAX_BYTES: usize = 245_760;
/// Workflows in one chain of calls.
pub const CALL_DEPTH_MAX: usize = 8;
/// Bytes of stdout or of stderr retained per execution, without the marker.
pub const STREAM_MAX_BYTES: usize = 1_048_576;
/// Longest object name.
pub const NAME_MAX: usize = 253;
/// Longest label value.
pub const LABEL_MAX: usize = 63;
