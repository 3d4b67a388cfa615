use serde_json::{Value, json};
use weaver_server::security::Role;

use crate::merge_bench::{Bench, QUEUE};

#[tokio::test]
async fn changes_that_pass_land_with_a_certificate_and_one_that_fails_is_removed_with_its_reason() {
    let bench = Bench::new().await.with_queue().await.working();
    bench.branch("good", &[("a", "1\n")]);
    bench.branch("worse", &[("bad", "1\n")]);
    let good = bench.enqueue("good").await.expect(201);
    assert_eq!((&good["entry"], &good["position"]), (&json!(1), &json!(1)));
    bench.enqueue("worse").await.expect(201);
    let landed = bench.left(1).await;
    assert_eq!(landed["status"], "landed", "{landed}");
    assert_eq!(landed["certificate"]["commit"], bench.repo.git(&["rev-parse", "main"]));
    assert_eq!(landed["checks"][0]["conclusion"], "passed");
    assert!(landed["checks"][0]["runs"][0]["task"].is_string(), "{landed}");
    let failed = bench.left(2).await;
    assert_eq!((&failed["status"], &failed["position"]), (&json!("failed"), &Value::Null));
    assert_eq!(failed["reason"], json!({ "reason": "checks_failed", "details": ["unit"] }));
    let runs = failed["checks"][0]["runs"].as_array().expect("it ran");
    assert!(runs.iter().any(|run| run["on"] == "base" && run["outcome"] == "passed"), "{failed}");
    assert!(runs.iter().any(|run| run["summary"].as_str().is_some_and(|text| text.contains("looking"))));
    let entries = bench.server.get(&format!("{QUEUE}/entries")).await.expect(200);
    assert_eq!(entries["waiting"], json!([]));
    assert_eq!(entries["history"], json!([failed, landed]));
    let certificates = bench.server.get(&format!("{QUEUE}/certificates")).await.expect(200);
    assert_eq!(certificates["items"], json!([landed["certificate"]]));
    let verified = bench.server.get(&format!("{QUEUE}/entries/1/verify")).await.expect(200);
    assert_eq!(verified["differences"], json!([]));
    bench.server.get(&format!("{QUEUE}/entries/2/verify")).await.problem(404, "certificate_not_found");
    let stats = &bench.server.get(QUEUE).await.expect(200)["stats"];
    assert_eq!((&stats["landed"], &stats["removed"]["checks_failed"]), (&json!(1), &json!(1)));
    assert_eq!((&stats["check_runs_per_landing"], &stats["flake_rate"]), (&json!(4.0), &json!(0.0)));
    assert!(stats["turnaround_p95_ms"].as_u64() >= stats["wait_p50_ms"].as_u64(), "{stats}");
}

#[tokio::test]
async fn a_base_that_others_moved_is_accepted_by_name_and_the_chain_says_so() {
    let bench = Bench::new().await.with_queue().await.working();
    let outside = bench.repo.commit("main", None, &[("outside", "1\n")]);
    bench.branch("good", &[("a", "1\n")]);
    let mut published = bench.server.state.merge.published();
    bench.enqueue("good").await.expect(201);
    let paused = loop {
        let queue = bench.server.get(QUEUE).await.expect(200);
        if queue["paused"].is_object() {
            break queue;
        }
        published.changed().await.expect("the engine is there");
    };
    assert_eq!((&paused["paused"]["cause"], &paused["on_foreign"]), (&json!("foreign"), &json!("pause")));
    let accept = async |commit: &str| {
        bench.server.post(&format!("{QUEUE}/accept"), &json!({ "commit": commit })).await
    };
    accept("main").await.problem(400, "invalid_field");
    accept(&"ab".repeat(20)).await.problem(409, "nothing_to_accept");
    accept(outside.as_str()).await.expect(200);
    assert_eq!(bench.left(1).await["status"], "landed");
    let chain = bench.server.get(&format!("{QUEUE}/chain?limit=2")).await.expect(200);
    assert_eq!((chain["links"].as_array().map(Vec::len), &chain["next"]), (Some(2), &json!(1)));
    let rest = bench.server.get(&format!("{QUEUE}/chain?before=1")).await.expect(200);
    assert_eq!((rest["links"].as_array().map(Vec::len), &rest["next"]), (Some(1), &Value::Null));
    let verified = bench.server.get(&format!("{QUEUE}/verify")).await.expect(200);
    assert_eq!((&verified["differences"], &verified["base"]), (&json!([]), &Value::Null), "{verified}");
    let kinds: Vec<&Value> =
        verified["links"].as_array().expect("links").iter().map(|link| &link["kind"]).collect();
    assert_eq!(kinds, ["start", "foreign", "landing"]);
    let untested = verified["links"][1]["untested"].as_str().expect("it was not tested");
    assert!(untested.contains(outside.as_str()) && untested.contains("accepted by ada"), "{untested}");
    bench.server.get(&format!("{QUEUE}/verify?limit=0")).await.problem(400, "invalid_field");
    let put = json!({ "on_foreign": "accept" });
    let queue = bench.server.put(&format!("{QUEUE}/on_foreign"), &put).await.expect(200);
    assert_eq!(queue["on_foreign"], "accept");
}

#[tokio::test]
async fn what_a_merge_queue_refuses_has_the_code_of_its_error() {
    let bench = Bench::new().await.with_queue().await;
    let entries = format!("{QUEUE}/entries");
    bench.branch("a", &[("a", "1\n")]);
    bench.branch("clash", &[("README", "other\n")]);
    bench.repo.commit("main", None, &[("README", "changed\n")]);
    bench.enqueue("a").await.expect(201);
    let twice = bench.enqueue("a").await.problem(409, "already_in_queue");
    assert!(twice["detail"].as_str().is_some_and(|detail| detail.contains("position 1")), "{twice}");
    bench.enqueue("no-such-branch").await.problem(409, "pull_request_closed");
    let clash = bench.enqueue("clash").await.problem(409, "pull_request_conflicted");
    assert!(clash["detail"].as_str().is_some_and(|detail| detail.contains("in README;")), "{clash}");
    bench.enqueue("main").await.problem(409, "invalid_base_branch");
    bench.enqueue("a~0").await.problem(409, "invalid_branch_name");
    let at = async |sha: &str| bench.server.post(&entries, &json!({ "change": "a", "sha": sha })).await;
    at("main").await.problem(400, "invalid_field");
    let other = at(&"ab".repeat(20)).await.problem(409, "head_mismatch");
    let head = bench.repo.git(&["rev-parse", "a"]);
    assert!(other["detail"].as_str().is_some_and(|detail| detail.contains(&head)), "{other}");
    bench.server.get(&format!("{entries}/7")).await.problem(404, "entry_not_found");
    bench.server.post_empty(&format!("{entries}/7/cancel")).await.problem(404, "entry_not_found");
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
async fn an_entry_names_its_head_its_producer_and_what_it_collides_with() {
    let bench = Bench::new().await.with_queue().await;
    bench.branch("a", &[("README", "a\n")]);
    bench.branch("b", &[("README", "b\n")]);
    let head = bench.repo.git(&["rev-parse", "a"]);
    let new = json!({ "change": "a", "sha": head });
    let entry = bench.server.post(&format!("{QUEUE}/entries"), &new).await.expect(201);
    assert_eq!((&entry["head"], &entry["enqueued_by"]), (&json!(head), &json!("ada")));
    bench.enqueue("b").await.expect(201);
    bench.branch("pushed", &[("pushed", "1\n")]);
    bench.enqueue("pushed").await.expect(201);
    bench.branch("pushed", &[("pushed", "2\n")]);
    let bench = bench.working();
    let landed = bench.left(1).await;
    let conflict = json!({ "entry": 1, "change": "a", "commit": landed["certificate"]["commit"] });
    assert_eq!(bench.left(2).await["reason"]["collides_with"], json!([conflict]));
    let journal = bench.server.get("/api/v1/audit").await.expect(200);
    let recorded = &journal["entries"].as_array().expect("entries")[1];
    assert_eq!(recorded["detail"], format!("a at {head}"), "{journal}");
    let pushed = bench.repo.git(&["rev-parse", "pushed"]);
    assert_eq!(bench.left(3).await["reason"], json!({ "reason": "head_changed", "details": [pushed] }));
}

#[tokio::test]
async fn entries_are_reordered_removed_and_paused_and_the_journal_names_the_actor() {
    let bench = Bench::new().await.with_queue().await;
    for name in ["a", "b"] {
        bench.branch(name, &[(name, "1\n")]);
        bench.enqueue(name).await.expect(201);
    }
    let urgent = json!({ "priority": 0 });
    let raised = bench.server.put(&format!("{QUEUE}/entries/2/priority"), &urgent).await.expect(200);
    assert_eq!(raised["position"], 1);
    let out = bench.server.post_empty(&format!("{QUEUE}/entries/1/cancel")).await.expect(200);
    assert_eq!((&out["status"], &out["reason"]["reason"]), (&json!("cancelled"), &json!("cancelled")));
    let queue = bench.server.put(&format!("{QUEUE}/priority"), &urgent).await.expect(200);
    assert_eq!((&queue["priority"], &queue["waiting"]), (&json!(0), &json!(1)));
    let release = json!({ "reason": "release day" });
    let paused = bench.server.post(&format!("{QUEUE}/pause"), &release).await.expect(200);
    assert_eq!(paused["paused"]["reason"], "release day");
    assert_eq!(bench.server.post_empty(&format!("{QUEUE}/resume")).await.expect(200)["paused"], Value::Null);
    let listed = bench.server.get("/api/v1/merge/queues").await.expect(200);
    assert_eq!(listed["items"], json!([bench.server.get(QUEUE).await.expect(200)]));
    let journal = bench.server.get("/api/v1/audit").await.expect(200);
    let entries: Vec<_> = journal["entries"].as_array().expect("entries").iter().collect();
    assert!(entries.iter().all(|entry| entry["actor"] == "ada"), "{journal}");
    let entries: Vec<_> = entries.iter().map(|entry| [&entry["action"], &entry["target"]]).collect();
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
    assert_eq!(entries, expected);
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
async fn a_repository_is_added_only_with_may_exec() {
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
async fn a_producer_only_enqueues_changes_and_a_viewer_only_reads() {
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
        bench.server.post_empty(&format!("{QUEUE}/resume")).await.problem(403, missing);
        bench.server.post(&format!("{QUEUE}/pause"), &json!({})).await.problem(403, missing);
        bench.server.post_empty(&format!("{QUEUE}/entries/1/cancel")).await.problem(403, missing);
        let urgent = json!({ "priority": 0 });
        bench.server.put(&format!("{QUEUE}/priority"), &urgent).await.problem(403, missing);
        bench.server.put(&format!("{QUEUE}/entries/1/priority"), &urgent).await.problem(403, missing);
    }
}

#[tokio::test]
async fn events_arrive_as_they_happen_and_a_client_that_resumes_gets_the_later_ones() {
    let bench = Bench::new().await.with_queue().await.working();
    let path = format!("{QUEUE}/events");
    let mut events = bench.server.events(&path, "").await;
    assert_eq!(events.next().await.expect("it begins").comment, "listening");
    bench.branch("worse", &[("bad", "1\n")]);
    bench.enqueue("worse").await.expect(201);
    bench.branch("good", &[("a", "1\n")]);
    bench.enqueue("good").await.expect(201);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let event = events.data().await;
        let data: Value = serde_json::from_str(&event.data).expect("JSON");
        assert_eq!((&data["event"], &data["queue"]), (&json!(event.name), &json!("demo:main")));
        seen.push((event.id, event.name, data));
    }
    let find = |name: &str, entry: u64| {
        let found = seen.iter().find(|(_, event, data)| event == name && data["entry"] == entry);
        found.unwrap_or_else(|| panic!("no {name} of {entry} in {seen:?}")).2.clone()
    };
    assert_eq!(find("queue_entry_added", 2)["change"], "good");
    let head = bench.repo.git(&["rev-parse", "good"]);
    for name in ["queue_entry_added", "pull_request_merged"] {
        let data = find(name, 2);
        assert_eq!((&data["head"], &data["enqueued_by"]), (&json!(head), &json!("ada")), "{data}");
    }
    let removed = find("queue_entry_removed", 1);
    assert_eq!(removed["head"], bench.repo.git(&["rev-parse", "worse"]));
    assert_eq!(removed["reason"], json!({ "reason": "checks_failed", "details": ["unit"] }));
    assert_eq!(removed["results"][0]["conclusion"], "failed", "{removed}");
    let merged = find("pull_request_merged", 2);
    assert_eq!(merged["commit"], bench.repo.git(&["rev-parse", "main"]));
    let third = format!("Last-Event-ID: {}\r\n", seen[2].0);
    let mut again = bench.server.events(&path, &third).await;
    assert_eq!(again.data().await.id, seen[3].0, "exactly what came after");
    let mut all = bench.server.events(&path, "Last-Event-ID: 0\r\n").await;
    assert_eq!(all.data().await.id, seen[0].0, "from the beginning");
    bench.server.get("/api/v1/merge/queues/x:main/events").await.problem(404, "merge_queue_not_found");
}

#[tokio::test]
async fn a_stream_of_a_merge_queue_refuses_an_invalid_last_event_id() {
    let bench = Bench::new().await.with_queue().await;
    for id in ["what", "", "-1", "dead.1", "caf\u{e9}"] {
        bench.server.refuses_event_id("/api/v1/merge/queues/demo:main/events", id).await;
    }
}

#[tokio::test]
async fn the_typed_client_reads_the_same_events() {
    let bench = Bench::new().await.with_queue().await;
    let client = weaver_client::Client::new(&format!("http://{}", bench.server.address)).expect("an address");
    let mut events = client.merge_events("demo:main", None).await.expect("a stream");
    bench.branch("a", &[("a", "1\n")]);
    let new = weaver_api::NewMergeEntry { change: "a".to_owned(), priority: None, sha: None };
    let entry = client.enqueue_merge("demo:main", &new).await.expect("it comes");
    bench.server.state.merge.reconcile_all().await.expect("it is published");
    let (_, event) = events.next().await.expect("it goes on").expect("an event");
    assert_eq!((event.event.as_str(), event.entry), ("queue_entry_added", Some(entry.entry)));
}

#[tokio::test]
async fn metrics_have_turnaround_waits_removals_and_flakes_of_every_merge_queue() {
    let bench = Bench::new().await.with_queue().await.working();
    bench.branch("good", &[("a", "1\n")]);
    bench.branch("worse", &[("bad", "1\n")]);
    bench.enqueue("good").await.expect(201);
    bench.enqueue("worse").await.expect(201);
    bench.left(2).await;
    let text = bench.server.get("/metrics").await.body;
    for line in [
        "# TYPE weaver_merge_turnaround_seconds histogram",
        "weaver_merge_turnaround_seconds_count{queue=\"demo:main\"} 1",
        "weaver_merge_turnaround_seconds_bucket{queue=\"demo:main\",le=\"+Inf\"} 1",
        "weaver_merge_turnaround_recent_seconds{queue=\"demo:main\",quantile=\"0.95\"} ",
        "weaver_merge_wait_seconds_count{queue=\"demo:main\"} 2",
        "weaver_merge_landed_total{queue=\"demo:main\"} 1",
        "weaver_merge_removed_total{queue=\"demo:main\",reason=\"checks_failed\"} 1",
        "weaver_merge_check_runs_total{queue=\"demo:main\"} 4",
        "weaver_merge_checks_concluded_total{queue=\"demo:main\"} 2",
        "weaver_merge_checks_flaky_total{queue=\"demo:main\"} 0",
        "weaver_merge_waiting{queue=\"demo:main\"} 0",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}
