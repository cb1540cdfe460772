//! The grammar and the truth table.

use super::*;

struct Known {
    outcomes: Outcomes,
    values: BTreeMap<String, String>,
}

impl Facts for Known {
    fn outcomes(&self) -> Outcomes {
        self.outcomes
    }

    fn read(&self, reference: &str) -> Result<String, ConditionError> {
        let found = self.values.get(reference).cloned();
        found.ok_or_else(|| ConditionError::Reference(format!("no {reference}")))
    }

    fn call(&self, name: &str, arguments: &[String]) -> Result<String, ConditionError> {
        match name {
            "upper" => Ok(arguments.concat().to_uppercase()),
            _ => Err(ConditionError::UnknownFunction(name.to_owned())),
        }
    }
}

fn known(sources: &[Ended]) -> Known {
    let own = |(k, v): (&str, &str)| (k.to_owned(), v.to_owned());
    let values = [
        ("inputs.env", "prod"),
        ("steps.diff.outputs.changed", "false"),
        ("needs.d.result", "skipped"),
        ("jobs.a.outputs.quote", "it's"),
    ];
    Known {
        outcomes: Outcomes::of_jobs(sources.iter().copied()),
        values: values.into_iter().map(own).collect(),
    }
}

fn decide(text: &str, sources: &[Ended]) -> Result<bool, String> {
    let condition = Condition::parse(text).map_err(|error| error.to_string())?;
    // What is printed means the same.
    assert_eq!(Condition::parse(&condition.to_string()).unwrap(), condition);
    let facts = known(sources);
    condition.holds(&facts).map_err(|error| error.to_string())
}

const OK: Ended = Ended::Success;
const BAD: Ended = Ended::Failure;
const GONE: Ended = Ended::Cancelled;
const BEHIND: Ended = Ended::Skipped {
    behind_failure: true,
};
const SKIP: Ended = Ended::Skipped {
    behind_failure: false,
};

#[test]
fn w_198_the_truth_table_of_the_status_functions() {
    for (sources, success, failure, cancelled) in [
        (&[][..], true, false, false),
        (&[OK, OK], true, false, false),
        (&[OK, BAD], false, true, false),
        (&[OK, GONE], false, false, true),
        (&[BAD, GONE], false, true, true),
        (&[OK, BEHIND], false, true, false),
        (&[OK, SKIP], false, false, false),
        (&[SKIP, BAD], false, true, false),
    ] {
        for (function, want) in [
            ("success()", success),
            ("failure()", failure),
            ("cancelled()", cancelled),
            ("always()", true),
            ("!success()", !success),
            ("success() || failure()", success || failure),
            ("failure() && cancelled()", failure && cancelled),
        ] {
            assert_eq!(
                decide(function, sources),
                Ok(want),
                "{function} of {sources:?}"
            );
        }
    }
}

#[test]
fn w_198_skipped_steps_are_no_source_of_later_steps() {
    let all = Outcomes::of_steps([OK, SKIP, OK]);
    assert_eq!(
        (all.success, all.failure, all.cancelled),
        (true, false, false)
    );
    let all = Outcomes::of_steps([SKIP, BAD]);
    assert_eq!(
        (all.success, all.failure, all.cancelled),
        (false, true, false)
    );
}

#[test]
fn w_198_without_a_status_function_success_is_asked_as_well() {
    for (text, sources, want) in [
        ("inputs.env == 'prod'", &[OK][..], true),
        ("inputs.env == 'prod'", &[BAD], false),
        ("inputs.env == 'prod'", &[SKIP], false),
        ("inputs.env == 'prod' && always()", &[BAD], true),
        ("inputs.env == 'dev' || failure()", &[BAD], true),
        ("true", &[BAD], false),
        ("false", &[OK], false),
        ("false || always()", &[BAD], true),
    ] {
        assert_eq!(decide(text, sources), Ok(want), "{text}");
    }
}

#[test]
fn case_020_the_text_false_is_no_truth_of_its_own() {
    for bare in ["steps.diff.outputs.changed", "'false'", "'0'", "0"] {
        let said = decide(bare, &[OK]).unwrap_err();
        assert!(said.contains("alone is no condition"), "{bare}: {said}");
        assert!(said.ends_with("== 'true'"), "{bare}: {said}");
    }
    for (text, want) in [
        ("steps.diff.outputs.changed == 'true'", false),
        ("steps.diff.outputs.changed == true", false),
        ("steps.diff.outputs.changed == 'false'", true),
        ("steps.diff.outputs.changed == false", true),
        ("steps.diff.outputs.changed == 'False'", false),
    ] {
        assert_eq!(decide(text, &[OK]), Ok(want), "{text}");
    }
}

#[test]
fn w_198_a_condition_that_reads_ends_tolerates_them() {
    let skipped = "needs.d.result == 'skipped'";
    assert_eq!(decide(skipped, &[BEHIND]), Ok(true));
    assert_eq!(decide(skipped, &[BAD, SKIP]), Ok(true));
    assert_eq!(decide("needs.d.result == 'success'", &[SKIP]), Ok(false));
    // An output is nobody's end, whatever its name.
    let output = Condition::parse("steps.s.outputs.outcome == ''").unwrap();
    assert!(!output.asks_ends());
}

#[test]
fn w_198_comparisons_and_braces() {
    for (text, want) in [
        ("inputs.env == 'prod'", Ok(true)),
        ("${{ inputs.env == 'prod' }}", Ok(true)),
        ("  ${{inputs.env=='prod'}}  ", Ok(true)),
        ("inputs.env != 'prod'", Ok(false)),
        ("'1' == '2'", Ok(false)),
        ("'a}}b' != '${{'", Ok(true)),
        ("jobs.a.outputs.quote == 'it''s'", Ok(true)),
        ("steps.diff.outputs.changed == true", Ok(false)),
        ("1.5 == '1.5'", Ok(true)),
        ("upper('a', inputs.env) == 'APROD'", Ok(true)),
        (
            "needs.d.result == 'skipped' || needs.d.result == 'success'",
            Ok(true),
        ),
        ("!(inputs.env == 'dev') && !false", Ok(true)),
        // `&&` binds tighter than `||`.
        ("true || true && false", Ok(true)),
        ("(true || true) && false", Ok(false)),
        // A part that no longer matters is not read.
        ("true || steps.ghost.outputs.x == ''", Ok(true)),
        (
            "steps.ghost.outputs.x == ''",
            Err("no steps.ghost.outputs.x"),
        ),
        (
            "lower('a') == 'a'",
            Err("unknown function \"lower\" in condition"),
        ),
    ] {
        let want = want.map_err(str::to_owned);
        assert_eq!(decide(text, &[OK]), want, "{text}");
    }
}

#[test]
fn w_198_what_is_no_condition_is_refused() {
    let half = "a condition is one expression: put ${{ }} around all of it, or leave it out";
    for (text, want) in [
        ("", "empty condition"),
        ("${{ }}", "empty condition"),
        ("${{ inputs.env }} == 'prod'", half),
        ("inputs.env == ${{ 'prod' }}", half),
        ("'a' == 'b", "unterminated literal in condition"),
        (
            "steps.diff.outputs.changed",
            "\"steps.diff.outputs.changed\" alone is no condition; compare it, for example \
             steps.diff.outputs.changed == 'true'",
        ),
        (
            "'false'",
            "\"'false'\" alone is no condition; compare it, for example 'false' == 'true'",
        ),
        ("inputs.env = 'x'", "unexpected \"=\" in condition"),
        ("inputs.env ==", "condition ends too early"),
        ("(true", "condition ends too early"),
        ("true)", "unexpected \")\" in condition"),
        ("true false", "unexpected \"false\" in condition"),
        ("success('x')", "unexpected \"success(\" in condition"),
        ("a[0] == 'x'", "unexpected \"[\" in condition"),
    ] {
        assert_eq!(decide(text, &[OK]), Err(want.to_owned()), "{text}");
    }
    let deep = format!("{}true{}", "(".repeat(40), ")".repeat(40));
    assert_eq!(
        decide(&deep, &[]).unwrap_err(),
        "condition is nested deeper than 32"
    );
    let long = "!".repeat(4097);
    assert_eq!(
        decide(&long, &[]).unwrap_err(),
        "condition is 4097 characters, exceeds 4096"
    );
}

#[test]
fn w_198_w_26_bound_values_stay_data() {
    let condition =
        Condition::parse("inputs.env == 'prod' && steps.a.outputs.x != inputs.n").unwrap();
    let evil = "' || always() || '";
    let values = [("env", evil), ("n", "1")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    let bound = condition.clone().bind("inputs.", &values.into()).unwrap();
    assert!(!bound.asks_status());
    assert_eq!(bound.references(), ["steps.a.outputs.x"]);
    assert_eq!(Condition::parse(&bound.to_string()).unwrap(), bound);
    assert_eq!(
        condition.bind("inputs.", &BTreeMap::new()),
        Err("env".to_owned())
    );
}
