//! Random walks of PostgreSQL and the reference model, compared step by step.

mod support;

use weaver_testkit::model::run_cases;

#[test]
fn postgresql_and_the_reference_model_agree_step_by_step() {
    run_cases("the PostgreSQL store", support::fresh, 8, 60);
}
