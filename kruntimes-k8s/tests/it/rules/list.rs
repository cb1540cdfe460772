//! The one list of all rules.

/// Hands every table of rules to a macro that makes tests of them, as `module: table, table;` lines.
///
/// Each server under test has such a macro: the embedded service, and a real control plane.
macro_rules! every_rule {
    ($generate:ident) => {
        $generate! {
            action:
                a1_an_action_only_runs;
            bounds:
                needs_are_bounded, the_spec_of_a_run_is_bounded, the_spec_of_a_runtime_is_bounded,
                the_spec_of_a_workspace_is_bounded, the_spec_of_a_workflow_is_bounded,
                the_spec_of_a_workflow_run_is_bounded, the_spec_of_an_action_is_bounded,
                the_status_of_a_run_is_bounded, the_status_of_a_workflow_run_is_bounded,
                the_status_of_a_workspace_is_bounded, the_statuses_of_the_other_kinds_are_bounded,
                conditions_are_counted, lengths_count_characters;
            run_create:
                r1_a_run_has_exactly_one_mode, r2_r3_a_source_is_inline_or_a_repository,
                r4_an_inline_path_is_plain_and_relative, r5_r6_an_inline_path_goes_with_an_inline_function,
                r7_an_entrypoint_stays_in_the_work_directory, r11_a_session_has_no_workspace,
                r12_only_a_session_can_be_drained, r14_an_affinity_term_selects_something,
                an_artifact_input_stays_in_the_work_directory, durations_are_well_formed_and_positive,
                quantities_are_numbers_or_quantity_texts, an_unknown_field_is_pruned_and_a_reserved_one_survives,
                a_value_from_is_kept_as_written;
            run_status:
                r15_an_artifact_lies_where_its_driver_says, r15_the_store_of_a_status_follows_its_driver,
                a_phase_is_one_of_nine_and_starts_as_pending, a_status_is_checked_field_by_field,
                spec_and_status_are_written_apart;
            run_update:
                r8_r9_what_is_placed_does_not_change, r8_durations_and_quantities_are_compared_by_value,
                r8_a_full_object_that_only_cancels_is_taken, r10_a_cancellation_is_final,
                r13_termination_moves_only_towards_immediate, r12_a_task_cannot_be_drained_later;
            runtime:
                t1_t2_the_first_container_is_the_runtime, t3_t4_t5_the_pod_fits_a_deployment,
                t6_a_store_has_the_member_of_its_driver, an_endpoint_has_scheme_and_host,
                t7_a_workspace_has_one_volume_source, defaults_are_filled_in_and_the_template_survives;
            workflow:
                w1_w2_a_job_has_steps_or_calls, w3_w4_w5_a_step_runs_or_uses, w6_needs_name_other_jobs,
                w7_job_names_are_label_values, fields_of_jobs_and_steps_have_their_formats,
                a_workflow_declares_inputs_and_outputs_and_may_be_edited;
            workflow_run:
                jobs_are_immutable, cancel_requested_is_final, a_workflow_run_calls_nothing_itself,
                a_workflow_status_is_checked_field_by_field;
            workspace:
                a_workspace_names_a_runtime_and_gets_defaults, a_workspace_never_moves_to_another_pod;
        }
    };
}
pub(crate) use every_rule;
