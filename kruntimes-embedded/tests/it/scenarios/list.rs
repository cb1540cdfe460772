//! The one list of all scenarios.

/// Hands every scenario to a macro that makes tests of them.
///
/// Each server under test has such a macro: the embedded service, and a real control plane.
macro_rules! every_scenario {
    ($generate:ident) => {
        $generate! {
            a_diamond_of_jobs_hands_outputs_down,
            a_failed_step_skips_what_needs_it,
            a_cancelled_workflow_leaves_no_process,
            a_failed_attempt_is_repeated_until_it_succeeds,
            an_overdue_run_times_out,
            restarted_controllers_go_on_where_they_were,
            two_schedulers_place_every_run_once,
            runs_go_with_their_workflow_run,
            a_run_moves_to_the_pod_that_replaces_its_own,
            a_workspace_is_bound_to_a_pod_and_lost_with_it,
            derived_objects_are_written_once,
            w_212_a_triggered_workflow_carries_its_input,
            w_213_an_action_hands_its_output_to_a_later_step,
            w_214_a_failing_action_step_fails_everything_above_it,
            w_215_cancelling_ends_the_run_of_an_action,
            w_216_a_missing_action_leaves_no_run,
            w_217_an_action_goes_on_after_its_controller_was_replaced,
            w_218_a_nested_call_yields_its_output,
            w_218_cancelling_reaches_through_a_call,
            w_219_a_template_counts_as_it_is_when_its_call_is_ready,
            w_220_steps_of_a_job_share_a_workspace,
        }
    };
}
pub(crate) use every_scenario;
