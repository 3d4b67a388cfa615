//! The table of roles and permissions, and the isolation of namespaces.

use weaver_core::name::{Namespace, TaskType};
use weaver_server::security::{Identity, NamespaceScope, NewToken, Permission, Role};

use crate::server::{Server, new_token, only};

/// A second copy of the whole table: a change has to be deliberate.
const EXPECTED: &str = "
                viewer producer worker operator admin
read            yes    yes      yes    yes      yes
enqueue         -      yes      -      yes      yes
enqueue_exec    -      yes      -      yes      yes
work            -      -        yes    yes      yes
manage_tasks    -      -        -      yes      yes
manage_queues   -      -        -      yes      yes
manage_schedules -     -        -      yes      yes
manage_merge    -      -        -      yes      yes
manage_settings -      -        -      yes      yes
manage_workers  -      -        -      yes      yes
read_audit      -      -        -      yes      yes
purge           -      -        -      -        yes
read_metrics    yes    -        -      yes      yes
manage_tokens   -      -        -      -        yes
";

fn identity(role: Role, namespaces: NamespaceScope, may_exec: bool) -> Identity {
    Identity { name: "caller".into(), role, namespaces, may_exec, token: None }
}

#[test]
fn every_role_has_exactly_the_permissions_of_the_table() {
    let mut rows =
        EXPECTED.trim_matches('\n').lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert_eq!(rows.next().expect("a head"), Role::ALL.map(Role::as_str));
    let namespace = Namespace::new("a").expect("a name");
    let mut permissions = Permission::all();
    for row in rows {
        let permission = permissions.next().expect("the table has as many rows");
        assert_eq!(row[0], permission.as_str());
        for (role, cell) in Role::ALL.into_iter().zip(&row[1..]) {
            let answer = identity(role, only("a"), true).require(permission, &namespace);
            assert_eq!(answer.is_ok(), *cell == "yes", "{role} and {permission}");
            if let Err(refusal) = answer {
                let said = refusal.to_string();
                let roles_are_named = permission.roles().iter().all(|role| said.contains(role.as_str()));
                assert!(said.contains(permission.as_str()) && roles_are_named, "{said}");
            }
        }
    }
    assert_eq!(permissions.next(), None);
}

#[test]
fn only_the_permission_for_exec_depends_on_more_than_the_role() {
    let namespace = Namespace::new("a").expect("a name");
    for role in Role::ALL {
        for permission in Permission::all() {
            let with = identity(role, only("a"), true).require(permission, &namespace).is_ok();
            let without = identity(role, only("a"), false).require(permission, &namespace).is_ok();
            assert_eq!(without, with && permission != Permission::EnqueueExec, "{role} and {permission}");
        }
    }
}

#[test]
fn a_role_has_one_spelling() {
    for role in Role::ALL {
        assert_eq!(role.as_str().parse(), Ok(role));
        assert_eq!(serde_json::to_value(role).expect("JSON"), role.as_str());
    }
    let refusal = "root".parse::<Role>().expect_err("no role").to_string();
    assert!(refusal.contains("`root`") && refusal.contains("operator"), "{refusal}");
}

#[tokio::test]
async fn a_namespace_outside_the_scope_is_refused_the_same_whether_it_exists_or_not() {
    let server = Server::start().await;
    let mine = server.token(Role::Admin, only("mine")).await;
    let _theirs = server.token(Role::Admin, only("theirs")).await;
    server.get_as("/read/mine", &mine).await.allowed();
    let exists = server.get_as("/read/theirs", &mine).await.refused(403, "namespace_not_allowed");
    let missing = server.get_as("/read/absent", &mine).await.refused(403, "namespace_not_allowed");
    assert_eq!(exists.replace("theirs", "absent"), missing);
    server.get_as("/read/Mine", &mine).await.refused(403, "namespace_not_allowed");
    server.get_as("/read/mine%20", &mine).await.refused(403, "namespace_not_allowed");
}

#[tokio::test]
async fn no_token_reaches_the_namespace_of_the_tokens() {
    let server = Server::start().await;
    let admin = server.token(Role::Admin, NamespaceScope::All).await;
    server.get_as("/read/anything", &admin).await.allowed();
    server.get_as("/read/weaver.internal", &admin).await.refused(403, "namespace_not_allowed");
    assert!(!Identity::local().sees(&Namespace::new("weaver.internal").expect("a name")));
}

#[tokio::test]
async fn an_admin_of_one_namespace_cannot_create_tokens() {
    let server = Server::start().await;
    let narrow = server.token(Role::Admin, only("a")).await;
    server.get_as("/tokens", &narrow).await.refused(403, "scope_too_narrow");
    let operator = server.token(Role::Operator, NamespaceScope::All).await;
    server.get_as("/tokens", &operator).await.refused(403, "permission_missing");
    let admin = server.token(Role::Admin, NamespaceScope::All).await;
    server.get_as("/tokens", &admin).await.allowed();
}

#[tokio::test]
async fn only_tokens_with_may_exec_enqueue_tasks_that_start_programs() {
    let server = Server::start().await;
    let plain = server.token(Role::Producer, only("a")).await;
    server.get_as("/enqueue/a/mail", &plain).await.allowed();
    server.get_as("/enqueue/a/exec", &plain).await.refused(403, "exec_not_granted");
    server.get_as("/enqueue/a/prompt", &plain).await.refused(403, "exec_not_granted");
    let new = NewToken { may_exec: true, ..new_token(Role::Producer, only("a")) };
    let trusted = server.tokens.create(new).await.expect("a token").0;
    server.get_as("/enqueue/a/exec", &trusted).await.allowed();
    server.get_as("/enqueue/a/prompt", &trusted).await.allowed();
    server.get_as("/enqueue/b/exec", &trusted).await.refused(403, "namespace_not_allowed");
    let worker = server.token(Role::Worker, only("a")).await;
    server.get_as("/enqueue/a/mail", &worker).await.refused(403, "permission_missing");
}

#[test]
fn internal_task_types_cannot_be_enqueued_with_any_token() {
    let namespace = Namespace::new("a").expect("a name");
    let root = identity(Role::Admin, NamespaceScope::All, true);
    let internal = TaskType::new("weaver.anything").expect("a name");
    assert_eq!(root.require_enqueue(&namespace, &internal).expect_err("internal").code, "task_type_internal");
    let similar = TaskType::new("weavers").expect("a name");
    assert!(root.require_enqueue(&namespace, &similar).is_ok());
}

#[test]
fn a_scope_survives_its_text_form_and_no_other_text_is_one() {
    for scope in [NamespaceScope::All, only("a")] {
        let text = serde_json::to_string(&scope).expect("JSON");
        assert_eq!(serde_json::from_str::<NamespaceScope>(&text).expect("a scope"), scope);
    }
    for wrong in ["\"all\"", "\"a\"", "null", "{}", "[\"\"]", "[1]"] {
        assert!(serde_json::from_str::<NamespaceScope>(wrong).is_err(), "{wrong}");
    }
}
