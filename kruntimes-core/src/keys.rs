//! Labels, annotations, finalizers and condition types of the API (API reference, section 11).

/// Label of Runtime Pods that names their Runtime.
pub const LABEL_RUNTIME: &str = "runtime";
/// Label of Runtime Pods with `kruntimes-<runtime>`.
pub const LABEL_APP: &str = "app";
/// Label of the objects that clean up one artifact store: [`crate::names::artifact_store`].
pub const LABEL_ARTIFACT_STORE_HASH: &str = "kruntimes.io/artifact-store-hash";
/// Label of everything a WorkflowRun owns: its UID.
pub const LABEL_WORKFLOW_RUN_UID: &str = "kruntimes.io/workflowrun-uid";
/// Label of child Runs and job workspaces: the job.
pub const LABEL_WORKFLOW_JOB: &str = "kruntimes.io/workflow-job";
/// Label of child Runs: the logical step.
pub const LABEL_WORKFLOW_STEP: &str = "kruntimes.io/workflow-step";
/// Label of child Runs of an Action: its local step.
pub const LABEL_WORKFLOW_ACTION_STEP: &str = "kruntimes.io/workflow-action-step";
/// Prefix of annotations that advertise the capacity of a Runtime Pod.
pub const ANNOTATION_CAPACITY_PREFIX: &str = "kruntimes.io/capacity.";
/// Prefix of annotations that freeze the outputs of a Workflow.
pub const ANNOTATION_WORKFLOW_OUTPUT_PREFIX: &str = "kruntimes.io/workflow-output.";
/// Annotation of a WorkflowRun made from a finished one: the name of that.
pub const ANNOTATION_RERUN_OF: &str = "kruntimes.io/rerun-of";
/// Annotation of a WorkflowRun that a younger one of its concurrency group replaces: the name of that.
pub const ANNOTATION_REPLACED_BY: &str = "kruntimes.io/replaced-by";
/// Prefix of output keys that set the environment of later steps.
pub const OUTPUT_ENV_PREFIX: &str = "kruntimes.io/env/";
/// Finalizer of Runs with stored artifacts.
pub const FINALIZER_ARTIFACT: &str = "kruntimes.io/artifact-cleanup";
/// Finalizer of function Runs.
pub const FINALIZER_FUNCTION: &str = "kruntimes.io/function-cleanup";
/// Finalizer of session Runs.
pub const FINALIZER_REGISTRATION: &str = "kruntimes.io/registration-cleanup";
/// Finalizer of PersistentWorkspaces whose directory exists, or may.
pub const FINALIZER_WORKSPACE: &str = "kruntimes.io/persistent-workspace-cleanup";
/// Pod condition refreshed by runtimed.
pub const POD_RUNTIMED_READY: &str = "kruntimes.io/RuntimedReady";
/// The one legal topology key of affinity terms.
pub const TOPOLOGY_RUNTIME_POD: &str = "kruntimes.io/runtime-pod";

/// Run condition: a Pod is assigned.
pub const CONDITION_SCHEDULED: &str = "Scheduled";
/// Run condition: an attempt is executing.
pub const CONDITION_RUNNING: &str = "Running";
/// Run condition: the Runtime Server has reported the attempt.
pub const CONDITION_RUNTIME_ACCEPTED: &str = "RuntimeAccepted";
/// Run, Runtime and definition condition: traffic is accepted, replicas are ready, the definition is valid.
pub const CONDITION_READY: &str = "Ready";
/// Run and WorkflowRun condition: the end is reached.
pub const CONDITION_COMPLETED: &str = "Completed";
/// WorkflowRun and PersistentWorkspace condition: the object was accepted.
pub const CONDITION_ACCEPTED: &str = "Accepted";
/// PersistentWorkspace condition: its Runtime exists.
pub const CONDITION_RUNTIME_READY: &str = "RuntimeReady";
/// PersistentWorkspace condition: a Pod holds the data.
pub const CONDITION_BOUND: &str = "Bound";
/// Run: why a deleted Run is still there.
pub const CONDITION_CLEANUP_PENDING: &str = "CleanupPending";
/// PersistentWorkspace condition: a Run that is not over references it.
pub const CONDITION_IN_USE: &str = "InUse";
