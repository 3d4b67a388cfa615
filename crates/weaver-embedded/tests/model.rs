//! The embedded store is compared with the reference model step by step, on real files.

mod support;

use weaver_testkit::model::run_cases;

#[test]
fn the_embedded_store_and_the_reference_model_agree_step_by_step() {
    run_cases("the embedded store", || async { support::on_disk() }, 64, 60);
}
