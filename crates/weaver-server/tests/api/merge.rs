use serde_json::{Value, json};
use weaver_server::security::Role;

use crate::merge_bench::{Bench, QUEUE};

#[tokio::test]
async fn changes_that_pass_land_with_a_certificate_and_one_that_fails_leaves_with_its_reason() {
    let bench = Bench::new().await.with_queue().await.working();
    bench.branch("good", &[("a", "1\n")]);
    bench.branch("worse", &[("bad", "1\n")]);
    let good = bench.enqueue("good").await.expect(201);
    assert_eq!((&good["entry"], &good["position"]), (&json!(1), &json!(1)));
    bench.enqueue("worse").await.expect(201);
    let landed = bench.left(1).await;
    assert_eq!(landed["status"], "landed", "{landed}");
    assert_eq!(landed["certificate"]["commit"], bench.repo.git(&["rev-parse", "main"]));
    assert_eq!(landed["checks"][0]["judgement"], "passed");
    assert!(landed["checks"][0]["runs"][0]["task"].is_string(), "{landed}");
    let failed = bench.left(2).await;
    assert_eq!((&failed["status"], &failed["position"]), (&json!("failed"), &Value::Null));
    assert_eq!(failed["reason"], json!({ "reason": "checks_failed", "details": ["unit"] }));
    let runs = failed["checks"][0]["runs"].as_array().expect("it ran");
    assert!(runs.iter().any(|run| run["on"] == "base" && run["end"] == "passed"), "{failed}");
    assert!(runs.iter().any(|run| run["summary"].as_str().is_some_and(|text| text.contains("looking"))));
    let entries = bench.server.get(&format!("{QUEUE}/entries")).await.expect(200);
    assert_eq!(entries["waiting"], json!([]));
    assert_eq!(entries["departed"], json!([failed, landed]));
    let certificates = bench.server.get(&format!("{QUEUE}/certificates")).await.expect(200);
    assert_eq!(certificates["items"], json!([landed["certificate"]]));
    let verified = bench.server.get(&format!("{QUEUE}/entries/1/verify")).await.expect(200);
    assert_eq!(verified["differences"], json!([]));
    bench.server.get(&format!("{QUEUE}/entries/2/verify")).await.problem(404, "certificate_not_found");
    let figures = &bench.server.get(QUEUE).await.expect(200)["figures"];
    assert_eq!((&figures["landed"], &figures["removed"]["checks_failed"]), (&json!(1), &json!(1)));
    assert_eq!((&figures["check_runs_per_landing"], &figures["flake_rate"]), (&json!(4.0), &json!(0.0)));
    assert!(figures["turnaround_p95_ms"].as_u64() >= figures["wait_p50_ms"].as_u64(), "{figures}");
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_by_its_name() {
    let bench = Bench::new().await.with_queue().await;
    let entries = format!("{QUEUE}/entries");
    bench.branch("a", &[("a", "1\n")]);
    bench.branch("clash", &[("README", "other\n")]);
    bench.repo.commit("main", None, &[("README", "changed\n")]);
    bench.enqueue("a").await.expect(201);
    let twice = bench.enqueue("a").await.problem(409, "already_in_queue");
    assert!(twice["detail"].as_str().is_some_and(|detail| detail.contains("position 1")), "{twice}");
    bench.enqueue("nobody").await.problem(409, "pull_request_closed");
    bench.enqueue("clash").await.problem(409, "pull_request_conflicted");
    bench.enqueue("main").await.problem(409, "invalid_base_branch");
    bench.server.get(&format!("{entries}/7")).await.problem(404, "entry_not_found");
    bench.server.poke(&format!("{entries}/7/cancel")).await.problem(404, "entry_not_found");
    bench.server.get(&format!("{entries}/first")).await.problem(400, "invalid_path");
    bench.server.get("/api/v1/merge/queues/x:main").await.problem(404, "merge_queue_not_found");
    let urgent = json!({ "priority": 10 });
    bench.server.put(&format!("{entries}/1/priority"), &urgent).await.problem(400, "invalid_field");
    let add = async |more: Value| {
        let mut new = bench.repository();
        crate::server::merge(&mut new, more);
        bench.server.post("/api/v1/merge/queues", &new).await
    };
    add(json!({ "location": "/nonexistent" })).await.problem(404, "repository_not_found");
    add(json!({ "location": "demo.git" })).await.problem(400, "invalid_field");
    add(json!({ "base_branch": "nowhere" })).await.problem(409, "repository_unusable");
    bench.repo.commit("plain", Some("refs/heads/none"), &[("a", "1\n")]);
    add(json!({ "base_branch": "plain" })).await.problem(409, "invalid_base_branch");
}

#[tokio::test]
async fn entries_are_reordered_taken_out_and_paused_and_the_journal_says_who_did_it() {
    let bench = Bench::new().await.with_queue().await;
    for name in ["a", "b"] {
        bench.branch(name, &[(name, "1\n")]);
        bench.enqueue(name).await.expect(201);
    }
    let urgent = json!({ "priority": 0 });
    let raised = bench.server.put(&format!("{QUEUE}/entries/2/priority"), &urgent).await.expect(200);
    assert_eq!(raised["position"], 1);
    let out = bench.server.poke(&format!("{QUEUE}/entries/1/cancel")).await.expect(200);
    assert_eq!((&out["status"], &out["reason"]["reason"]), (&json!("cancelled"), &json!("cancelled")));
    let queue = bench.server.put(&format!("{QUEUE}/priority"), &urgent).await.expect(200);
    assert_eq!((&queue["priority"], &queue["waiting"]), (&json!(0), &json!(1)));
    let release = json!({ "reason": "release day" });
    let paused = bench.server.post(&format!("{QUEUE}/pause"), &release).await.expect(200);
    assert_eq!(paused["paused"]["reason"], "release day");
    assert_eq!(bench.server.poke(&format!("{QUEUE}/resume")).await.expect(200)["paused"], Value::Null);
    let listed = bench.server.get("/api/v1/merge/queues").await.expect(200);
    assert_eq!(listed["items"], json!([bench.server.get(QUEUE).await.expect(200)]));
    let journal = bench.server.get("/api/v1/audit").await.expect(200);
    let deeds: Vec<_> = journal["entries"].as_array().expect("entries").iter().collect();
    assert!(deeds.iter().all(|deed| deed["who"] == "ada"), "{journal}");
    let deeds: Vec<_> = deeds.iter().map(|deed| [&deed["action"], &deed["target"]]).collect();
    let expected = [
        ["merge.add_queue", "merge/demo:main"],
        ["merge.enqueue", "merge/demo:main/1"],
        ["merge.enqueue", "merge/demo:main/2"],
        ["merge.priority", "merge/demo:main/2"],
        ["merge.cancel", "merge/demo:main/1"],
        ["merge.queue_priority", "merge/demo:main"],
        ["merge.pause", "merge/demo:main"],
        ["merge.resume", "merge/demo:main"],
    ];
    assert_eq!(deeds, expected);
}

#[tokio::test]
async fn a_queue_whose_branch_has_a_slash_is_found_by_its_encoded_name() {
    let bench = Bench::new().await;
    bench.branch("release/1", &[("a", "1\n")]);
    let mut new = bench.repository();
    crate::server::merge(&mut new, json!({ "base_branch": "release/1" }));
    bench.server.post("/api/v1/merge/queues", &new).await.expect(201);
    let shown = bench.server.get("/api/v1/merge/queues/demo:release%2F1").await.expect(200);
    assert_eq!(shown["base_branch"], "release/1");
}

#[tokio::test]
async fn a_repository_is_added_only_by_somebody_who_may_run_programs() {
    for (role, may_exec, code) in [
        (Role::Admin, false, "exec_not_granted"),
        (Role::Producer, true, "permission_missing"),
        (Role::Viewer, false, "permission_missing"),
    ] {
        let bench = Bench::asked_by(role, may_exec).await;
        bench.server.post("/api/v1/merge/queues", &bench.repository()).await.problem(403, code);
    }
}

#[tokio::test]
async fn a_producer_puts_changes_in_line_and_changes_nothing_else_and_a_viewer_looks() {
    for (role, may_enqueue) in [(Role::Producer, true), (Role::Viewer, false)] {
        let bench = Bench::asked_by(role, false).await;
        let new: Value = bench.repository();
        let location = new["location"].as_str().expect("a path").to_owned();
        let repository = weaver_merge::domain::Repository { name: "demo".into(), location };
        bench.server.state.merge.add_queue(repository, "main").await.unwrap();
        bench.branch("a", &[("a", "1\n")]);
        let answer = bench.enqueue("a").await;
        if may_enqueue {
            answer.expect(201);
        } else {
            answer.problem(403, "permission_missing");
        }
        bench.server.get(&format!("{QUEUE}/entries")).await.expect(200);
        let missing = "permission_missing";
        bench.server.poke(&format!("{QUEUE}/resume")).await.problem(403, missing);
        bench.server.post(&format!("{QUEUE}/pause"), &json!({})).await.problem(403, missing);
        bench.server.poke(&format!("{QUEUE}/entries/1/cancel")).await.problem(403, missing);
        let urgent = json!({ "priority": 0 });
        bench.server.put(&format!("{QUEUE}/priority"), &urgent).await.problem(403, missing);
        bench.server.put(&format!("{QUEUE}/entries/1/priority"), &urgent).await.problem(403, missing);
    }
}
