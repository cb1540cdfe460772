//! The one list of all claims.

/// Hands every claim of the suite to a macro that makes tests of them, as `module: claim, claim;` lines.
///
/// Each server under test has such a macro: the embedded service on a paused clock, and a real control plane.
macro_rules! every_claim {
    ($generate:ident) => {
        $generate! {
            writes:
                create_sets_what_only_the_server_may_set, defaults_are_filled_and_unknown_fields_dropped,
                generated_names_start_with_their_prefix, a_stale_update_conflicts, a_patch_cannot_move_an_object,
                a_patch_that_names_a_version_conflicts_when_stale, generation_counts_changes_of_the_spec_only,
                a_write_without_a_change_keeps_the_version, status_writes_change_only_status,
                json_patches_test_before_they_change, dry_runs_answer_but_store_nothing;
            apply:
                an_apply_creates_what_is_absent, an_apply_that_changes_nothing_writes_nothing, a_field_of_another_applier_conflicts, conflicts_name_every_owner, what_an_applier_no_longer_lists_goes, lists_keep_the_order_of_their_appliers, atomic_lists_and_maps_have_one_owner, every_write_is_recorded_with_its_manager, whoever_changes_a_field_owns_it, status_is_applied_apart, a_ledger_is_cleared_by_one_empty_entry, a_ledger_can_be_given, an_apply_has_to_say_what_it_is_about, a_configuration_that_cannot_be_is_refused, an_apply_can_be_conditional, yaml_is_applied_like_json, built_in_lists_merge_by_their_keys, creators_own_what_kubernetes_says;
            refusals:
                refusals_are_told_as_kubernetes_tells_them, an_invalid_object_is_refused_with_its_causes,
                malformed_metadata_is_refused, what_was_set_once_cannot_be_changed,
                built_in_kinds_keep_their_promises;
            builtins:
                strict_bodies_hold_no_unknown_and_no_repeated_field, values_of_the_wrong_type_are_refused,
                bodies_may_be_yaml_and_nothing_else, strategic_patches_merge_lists_by_key,
                workloads_are_completed_on_the_way_in, each_built_in_kind_has_its_rules,
                little_of_a_pod_can_change,
                deployments_are_scaled_by_a_part_of_their_own, pods_are_bound_once_and_evicted,
                finalizers_of_a_namespace_change_in_one_place_only, options_of_a_deletion_must_make_sense,
                custom_kinds_must_say_what_they_are;
            lists:
                pages_show_the_state_of_the_first_one, selectors_choose, all_namespaces_are_listed_together,
                metadata_alone_can_be_asked_for, discovery_finds_every_resource,
                secrets_are_encoded_on_the_way_in;
            deletion:
                deletion_can_be_conditional, options_that_mean_nothing_are_refused,
                a_name_is_free_when_its_object_is_gone, finalizers_hold_what_is_being_deleted,
                a_collection_is_deleted_by_selector, a_placed_pod_is_given_time_unless_told_otherwise,
                a_deleted_namespace_takes_its_content_along;
            owners:
                a_chain_of_three_follows_its_head, in_the_foreground_the_owner_goes_last,
                orphans_outlive_their_owner, an_owner_that_never_existed_owns_nothing,
                one_living_owner_is_enough;
            watches:
                a_watch_tells_everything_after_its_version, a_deletion_is_told_under_its_own_version,
                objects_come_and_go_with_the_selector, without_a_version_a_watch_starts_with_what_exists,
                a_watch_ends_when_its_time_is_over, nothing_is_lost_between_list_and_watch;
            reading:
                custom_kinds_are_listed_as_tables, built_in_kinds_are_listed_as_tables,
                rows_bring_as_much_of_their_object_as_is_asked_for, a_watch_of_tables_describes_its_columns_once,
                what_nobody_can_read_is_not_sent, all_groups_come_in_one_document, definitions_can_be_looked_at,
                schemas_tell_what_custom_kinds_consist_of, schemas_tell_how_lists_of_built_in_kinds_merge;
            reviews:
                a_strange_token_belongs_to_nobody, masters_may_and_strangers_may_not,
                a_review_asks_one_whole_question, a_local_review_stays_in_its_namespace,
                masters_can_act_as_somebody_else, rules_tell_what_one_may_do, reviews_are_asked_and_not_kept;
            operators:
                a_controller_with_a_finalizer_does_its_work, watchers_of_both_strategies_see_the_same,
                recorded_events_are_read_through_both_apis;
        }
    };
}
pub(crate) use every_claim;
