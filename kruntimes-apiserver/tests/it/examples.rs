//! The examples keep their promises.

#[path = "../../examples/test_a_controller.rs"]
mod test_a_controller;

#[test]
fn a_controller_is_tested_on_a_bad_day() {
    test_a_controller::main().unwrap();
}
