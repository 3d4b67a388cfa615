//! The access namespace of a queue: where its tasks are, and which repositories it takes.

use std::os::unix::fs::symlink;

use weaver_core::name::Namespace;
use weaver_core::ports::DocumentKey;
use weaver_core::queue::QueueExt;
use weaver_core::task::{NewTask, TaskState};
use weaver_merge::check::{CHECK_QUEUE, CHECK_TASK_TYPE};
use weaver_merge::domain::{MergeError, MergeQueue, QueueId, RemoveOptions, Repository};
use weaver_merge::engine::{EngineError, QUEUE_KIND, check_body};

use crate::harness::Harness;

fn team(name: &str) -> Namespace {
    Namespace::new(format!("team-{name}")).unwrap()
}

/// A harness whose queue is in the namespace `team-a`.
async fn of_team_a() -> Harness {
    let harness = Harness::new().await;
    let repository = harness.state().await.repository;
    harness.engine.remove_queue(&harness.queue, &RemoveOptions::default()).await.unwrap();
    harness.engine.add_queue_in(&team("a"), repository, "main", |_| true).await.unwrap();
    harness
}

fn refusal(answer: Result<MergeQueue, EngineError>) -> MergeError {
    match answer {
        Err(EngineError::Merge(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn checks_and_notifications_are_tasks_in_the_namespace_of_their_queue() {
    let harness = of_team_a().await;
    let announcing = crate::notifications::announcing(&harness);
    let a = harness.add("a", &[("a", "1\n")]).await;
    harness.settle_with(&announcing).await;
    assert!(harness.has_landed(a).await);
    let tasks = harness.tasks.enqueued().await;
    let types: std::collections::BTreeSet<String> =
        tasks.iter().map(|task| task.spec.envelope.task_type.to_string()).collect();
    assert_eq!(types.into_iter().collect::<Vec<_>>(), ["exec", "http", "weaver.check"]);
    assert!(tasks.iter().all(|task| task.key.namespace == team("a")), "{tasks:?}");
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_check_task_of_another_namespace_does_not_run_for_the_queue() {
    let harness = of_team_a().await;
    harness.add("a", &[("a", "1\n")]).await;
    harness.engine.reconcile_all().await.unwrap();
    let real = harness.tasks.enqueued().await[0].clone();
    let payload: serde_json::Value = real.spec.envelope.decode().unwrap();
    for namespace in [team("b"), Namespace::default()] {
        let copy = NewTask::new(CHECK_TASK_TYPE).json(&payload).unwrap();
        let copy = copy.namespace(&namespace).queue(CHECK_QUEUE);
        let key = harness.tasks.store().enqueue(copy).await.unwrap().key;
        harness.tasks.drain(&harness.registry()).await;
        let ended = harness.tasks.store().get_tasks(&[key]).await.unwrap().remove(0).unwrap();
        assert_eq!(ended.state, TaskState::Dead, "{ended:?}");
        assert!(
            ended.last_error.as_deref().unwrap().contains("no such merge queue: `demo:main`"),
            "{ended:?}"
        );
    }
    harness.settle().await;
    harness.prove(&[]).await;
}

#[tokio::test]
async fn a_branch_of_a_repository_has_one_queue_whatever_path_or_namespace_names_it() {
    let harness = of_team_a().await;
    let location = harness.state().await.repository.location;
    let link = harness.repo.scratch("links").join("link.git");
    symlink(&location, &link).unwrap();
    let link = link.to_str().unwrap().to_owned();
    let add = async |namespace: &Namespace, name: &str, location: &str| {
        let repository = Repository { name: name.into(), location: location.to_owned() };
        harness.engine.add_queue_in(namespace, repository, "main", |_| true).await
    };
    let taken = |queue: Option<QueueId>| MergeError::RepositoryTaken { base_branch: "main".into(), queue };
    for location in [&location, &link, &format!("{location}/../repo.git")] {
        assert_eq!(refusal(add(&team("b"), "other", location).await), taken(None), "{location}");
        let ours = Some(harness.queue.clone());
        assert_eq!(refusal(add(&team("a"), "other", location).await), taken(ours), "{location}");
        assert_eq!(
            refusal(add(&team("b"), "demo", location).await),
            MergeError::NameTaken(harness.queue.clone()),
            "{location}"
        );
        assert_eq!(add(&team("a"), "demo", location).await.unwrap().id, harness.queue, "it is the same");
    }
    assert!(!taken(None).to_string().contains("team-a"), "the refusal does not name a hidden queue");
    assert_eq!(
        refusal(add(&Namespace::internal(), "third", &location).await),
        MergeError::ReservedNamespace(Namespace::internal())
    );
    assert_eq!(harness.engine.queues().await.unwrap().len(), 1);
    // Another branch is another queue.
    harness.repo.git(&["branch", "next", "main"]);
    let repository = Repository { name: "demo".into(), location };
    harness.engine.add_queue_in(&team("b"), repository, "next", |_| true).await.unwrap();
}

#[tokio::test]
async fn a_removed_queue_moves_to_another_namespace_only_with_permission_in_its_own() {
    let harness = of_team_a().await;
    let repository = harness.state().await.repository;
    harness.engine.remove_queue(&harness.queue, &RemoveOptions::default()).await.unwrap();
    let add = async |allowed: Option<Namespace>| {
        let may = move |namespace: &Namespace| Some(namespace) == allowed.as_ref();
        harness.engine.add_queue_in(&team("b"), repository.clone(), "main", may).await
    };
    assert_eq!(refusal(add(None).await), MergeError::NameTaken(harness.queue.clone()));
    assert_eq!(refusal(add(Some(team("b"))).await), MergeError::NameTaken(harness.queue.clone()));
    assert_eq!(add(Some(team("a"))).await.unwrap().namespace, Some(team("b")));
}

/// The queue as a version reads it that knows no access namespaces and no removals: it ignores unknown
/// fields.
#[derive(serde::Deserialize)]
struct OldQueue {
    #[expect(dead_code, reason = "that it can be read is what counts")]
    id: String,
}

#[tokio::test]
async fn an_older_version_cannot_read_a_queue_with_a_namespace_or_a_removal() {
    let harness = Harness::new().await;
    let key = DocumentKey::new(Namespace::default(), QUEUE_KIND, harness.queue.0.clone());
    let body = async || harness.tasks.store().get_document(&key).await.unwrap().unwrap().body;
    let is_read = |body: &[u8]| serde_json::from_slice::<OldQueue>(body).is_ok();
    assert!(is_read(&body().await), "a queue without either stays readable to it");
    let repository = harness.state().await.repository;
    harness.engine.remove_queue(&harness.queue, &RemoveOptions::default()).await.unwrap();
    let removed = body().await;
    harness.engine.add_queue_in(&team("a"), repository, "main", |_| true).await.unwrap();
    for body in [removed, body().await] {
        assert!(!is_read(&body));
        assert_eq!(check_body(QUEUE_KIND, &body), Ok(()));
    }
}
