//! The DynamoDB store is compared with the reference model step by step, behind indexes that lag.

mod support;

use weaver_testkit::model::run_cases;

#[test]
fn the_dynamodb_store_and_the_reference_model_agree_step_by_step() {
    run_cases("the DynamoDB store", support::lagging, 15, 40);
}
