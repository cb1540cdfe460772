//! The conformance suite for Runtime Servers (N-235).
//!
//! Each case is a function over a [`Subject`]: a client, a directory that server and suite both see,
//! and how to write a program in the server's language. A case panics with what went wrong. Run
//! [`all`] in one test, or give each case of [`CASES`] a test of its own.
//!
//! ```no_run
//! # async fn doc(client: std::sync::Arc<dyn kruntimes_proto::RuntimeClient>) {
//! use kruntimes_runtime::testing::{Subject, all};
//! use kruntimes_runtime::Manners;
//!
//! let subject = Subject {
//!     client,
//!     work_dir: "/workspace/conformance".into(),
//!     wrap: |shell| shell.to_owned(),
//!     manners: Manners::Replace,
//! };
//! all(&subject).await;
//! # }
//! ```
//!
//! A server whose programs are no processes, or cannot become a shell script, is asked for the part that needs
//! neither: [`contract`] with four [`Programs`].

mod basics;
mod contract;
mod endings;
mod subject;

use futures::future::BoxFuture;

pub use contract::Programs;
pub use subject::Subject;

/// One promise of the contract with its check.
#[derive(Clone, Copy)]
pub struct Case {
    /// What is promised.
    pub name: &'static str,
    /// Panics when the promise is broken.
    pub check: for<'a> fn(&'a Subject) -> BoxFuture<'a, ()>,
}

macro_rules! cases {
    ($($module:ident::$case:ident),* $(,)?) => {
        /// All cases; they may run at the same time on one server.
        pub const CASES: &[Case] = &[$(Case {
            name: stringify!($case),
            check: |subject| Box::pin($module::$case(subject)),
        }),*];
    };
}

cases![
    basics::success_has_its_output,
    basics::failure_has_its_exit_code,
    basics::an_empty_id_is_invalid,
    basics::unknown_ids_are_not_found,
    basics::forget_drops_only_what_has_ended,
    basics::list_finds_everything_again,
    basics::the_environment_of_the_request_wins,
    basics::a_missing_directory_is_made,
    basics::a_directory_that_cannot_be_made_fails,
    basics::escaping_entrypoints_are_invalid,
    basics::long_output_is_capped_and_the_program_goes_on,
    basics::output_that_is_no_text_is_replaced,
    basics::output_can_be_read_while_it_grows,
    basics::fifty_at_once,
    basics::events_tell_the_end,
    basics::health_is_good,
    endings::a_time_limit_ends_the_program,
    endings::cancel_ends_the_program_and_may_be_repeated,
    endings::cancels_may_meet,
    endings::a_slow_cancel_delays_nobody_else,
    endings::a_repeated_execute_never_leaves_two_programs,
    endings::an_ended_id_is_not_answered_with_its_old_result,
    endings::a_background_child_delays_nothing,
    endings::the_whole_tree_ends,
    endings::a_child_of_another_session_ends,
    endings::an_orphan_of_another_session_ends,
    endings::a_deaf_child_is_killed,
    endings::the_program_may_clean_up,
    endings::a_signal_is_named,
    endings::cancel_meets_the_natural_end,
];

/// Runs every case, one after the other.
///
/// # Panics
///
/// Panics with the first promise that is broken.
pub async fn all(subject: &Subject) {
    for case in CASES {
        (case.check)(subject).await;
    }
}

/// One promise that any server can be asked to keep, with its check.
#[derive(Clone, Copy)]
pub struct ContractCase {
    /// What is promised.
    pub name: &'static str,
    /// Panics when the promise is broken.
    pub check: for<'a> fn(&'a Subject, &'a Programs) -> BoxFuture<'a, ()>,
}

macro_rules! contract_cases {
    ($($any:ident),* ; $($case:ident),* $(,)?) => {
        /// The cases of [`contract`]; they may run at the same time on one server.
        pub const CONTRACT: &[ContractCase] = &[
            $(ContractCase {
                name: stringify!($any),
                check: |subject, _| Box::pin(basics::$any(subject)),
            },)*
            $(ContractCase {
                name: stringify!($case),
                check: |subject, programs| Box::pin(contract::$case(subject, programs)),
            }),*
        ];
    };
}

contract_cases![
    an_empty_id_is_invalid,
    unknown_ids_are_not_found,
    a_missing_directory_is_made,
    a_directory_that_cannot_be_made_fails,
    escaping_entrypoints_are_invalid,
    health_is_good;
    success_has_its_output,
    failure_is_told_with_what_came_before,
    a_running_id_cannot_be_forgotten,
    list_finds_everything_again,
    output_can_be_read_while_it_grows,
    long_output_is_capped,
    a_time_limit_ends_the_program,
    cancel_may_be_repeated,
    a_success_stays_one,
    a_repeated_execute_keeps_the_rules,
    an_ended_id_is_not_answered_with_its_old_result,
    fifty_at_once,
    events_tell_the_end,
];

/// Runs every case of the contract that needs no shell, one after the other; see [`Programs`].
///
/// # Panics
///
/// Panics with the first promise that is broken.
pub async fn contract(subject: &Subject, programs: &Programs) {
    for case in CONTRACT {
        (case.check)(subject, programs).await;
    }
}
