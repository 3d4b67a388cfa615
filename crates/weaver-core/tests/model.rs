//! The in-memory store is compared with the reference model, step by step.

use weaver_testkit::harness::in_memory;
use weaver_testkit::model::run_cases;

#[test]
fn the_in_memory_store_and_the_reference_model_agree_step_by_step() {
    run_cases("the in-memory store", || async { in_memory() }, 256, 60);
}
