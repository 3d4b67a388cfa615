use serde_json::{Value, json};

use crate::server::Server;

fn ids(page: &Value) -> Vec<&str> {
    page["items"].as_array().expect("items").iter().map(|task| task["id"].as_str().expect("an id")).collect()
}

#[tokio::test]
async fn tasks_are_listed_by_each_of_their_properties() {
    let server = Server::start().await;
    server.enqueue(json!({ "queue": "a", "task_group_id": "g", "session_id": "s2" })).await;
    server.enqueue(json!({ "task_type": "u", "session_id": "s", "task_group_id": "g2" })).await;
    server.enqueue(json!({ "queue": "a", "labels": { "k": "v=w" } })).await;
    server.post_empty("/api/v1/tasks/2/cancel").await.expect(200);
    for (query, found) in [
        ("", vec!["3", "2", "1"]),
        ("order=oldest_first", vec!["1", "2", "3"]),
        ("queue=a", vec!["3", "1"]),
        ("task_type=u", vec!["2"]),
        ("state=cancelled", vec!["2"]),
        ("state=queued,cancelled", vec!["3", "2", "1"]),
        ("state=queued&queue=a", vec!["3", "1"]),
        ("group=g", vec!["1"]),
        ("session=s", vec!["2"]),
        ("session=s&state=queued", vec![]),
        ("label=k=v=w", vec!["3"]),
        ("group=g&session=s2", vec!["1"]),
        ("group=g&session=s", vec![]),
        ("created_from=2100-01-01T00:00:00Z", vec![]),
        ("created_before=2100-01-01T00:00:00Z&task_type=t", vec!["3", "1"]),
        ("namespace=other", vec![]),
    ] {
        let page = server.get(&format!("/api/v1/tasks?{query}")).await.expect(200);
        assert_eq!(ids(&page), found, "{query}");
    }
}

#[tokio::test]
async fn a_cursor_goes_on_where_the_page_ended() {
    let server = Server::start().await;
    for _ in 0..5 {
        server.enqueue(json!({})).await;
    }
    let (mut seen, mut query) = (Vec::new(), "/api/v1/tasks?limit=2".to_owned());
    loop {
        let page = server.get(&query).await.expect(200);
        seen.extend(ids(&page).into_iter().map(str::to_owned));
        assert_eq!(page["complete"], true);
        match page["next"].as_str() {
            Some(next) => query = format!("/api/v1/tasks?limit=2&cursor={next}"),
            None => break,
        }
    }
    assert_eq!(seen, ["5", "4", "3", "2", "1"]);
}

#[tokio::test]
async fn namespaces_and_groups_are_listed_in_pages() {
    let server = Server::start().await;
    for namespace in ["b", "a", "c"] {
        server.enqueue(json!({ "namespace": namespace, "task_group_id": "g" })).await;
    }
    let page = server.get("/api/v1/namespaces?limit=2").await.expect(200);
    assert_eq!(page["items"], json!([{ "name": "a" }, { "name": "b" }]));
    let next = page["next"].as_str().expect("there is more");
    let page = server.get(&format!("/api/v1/namespaces?cursor={next}")).await.expect(200);
    assert_eq!(page["items"], json!([{ "name": "c" }]));
    let groups = server.get("/api/v1/groups?namespace=a").await.expect(200);
    assert_eq!(
        (&groups["items"][0]["id"], &groups["items"][0]["counts"]["queued"]),
        (&json!("g"), &json!(1))
    );
}
