//! The guard triggers of live runs: what the state machine does not allow is refused in plain SQL as well,
//! whatever a session sets.

mod support;

use std::time::Duration;

use support::schema_owner::SchemaOwner;
use weaver_core::prelude::*;
use weaver_core::projection::job_run::State;
use weaver_postgres::allowed_moves;

/// The columns of a lease.
const LEASE: &str = "assigned_worker_id = 'w', lease_token = gen_random_uuid(), lease_started_at = now(), \
     lease_expires_at = now() + interval '30 seconds', lease_ttl_us = 30000000";
/// The columns of a run without a lease.
const NO_LEASE: &str = "lease_token = NULL, lease_started_at = NULL, lease_expires_at = NULL, lease_ttl_us = NULL, \
     leader_epoch = NULL";
const NO_ASSIGNMENT: &str = "assigned_worker_id = NULL, assigned_at = NULL, assigned_epoch = NULL";

/// The other columns of a run in a state.
fn columns(state: State) -> String {
    match state {
        State::Running => {
            format!("{LEASE}, first_started_at = coalesce(first_started_at, now()), cause = NULL")
        }
        State::Assigned => {
            format!(
                "{NO_LEASE}, cause = NULL, assigned_worker_id = 'w', assigned_at = now(), assigned_epoch = 1"
            )
        }
        State::Pending | State::Orphaned => format!("{NO_LEASE}, {NO_ASSIGNMENT}, cause = NULL"),
        State::RetryScheduled => format!("{NO_LEASE}, {NO_ASSIGNMENT}, cause = 'failed'"),
        State::Succeeded => format!("{NO_LEASE_ENDED}, cause = NULL"),
        State::Failed => format!("{NO_LEASE_ENDED}, cause = 'failed'"),
        State::TimedOut => format!("{NO_LEASE_ENDED}, cause = 'timed_out'"),
        State::Canceled => format!("{NO_LEASE_ENDED}, cause = 'user'"),
    }
}

/// The other columns of a run in a state, as arguments of `jsonb_build_object`.
fn placed(state: State) -> &'static str {
    match state {
        State::Running => {
            "'assigned_worker_id', 'w', 'lease_token', gen_random_uuid(), 'lease_started_at', now(), \
             'lease_expires_at', now() + interval '30 seconds', 'lease_ttl_us', 30000000, 'first_started_at', now()"
        }
        State::Assigned => "'assigned_worker_id', 'w', 'assigned_at', now(), 'assigned_epoch', 1",
        State::Pending | State::Orphaned => "'cause', NULL",
        State::RetryScheduled => "'cause', 'failed'",
        State::Succeeded => "'finished_at', now()",
        State::Failed => "'finished_at', now(), 'cause', 'failed'",
        State::TimedOut => "'finished_at', now(), 'cause', 'timed_out'",
        State::Canceled => "'finished_at', now(), 'cause', 'user'",
    }
}

const NO_LEASE_ENDED: &str = "lease_token = NULL, lease_expires_at = NULL, lease_ttl_us = NULL, leader_epoch = NULL, \
     assigned_at = NULL, assigned_epoch = NULL, finished_at = now()";

#[tokio::test]
async fn every_pair_of_states_is_allowed_or_refused_as_core_has_it() {
    let mut owner = SchemaOwner::new().await;
    let allowed = allowed_moves();
    for from in State::ALL {
        for to in State::ALL {
            let id = owner.put(NewTask::new("t").delay(Duration::from_secs(60))).await;
            owner
                .place(
                    id,
                    &format!("'version', 7, 'state', '{from}', 'updated_at', now(), {}", placed(*from)),
                )
                .await;
            let mut moved = false;
            // With every possible charge: one of them is right if the transition is allowed.
            for charges in [[1, 1, 0, 0], [1, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1], [0; 4]] {
                for cause in ["", "cause = 'lost', ", "cause = 'released', "] {
                    // The cause is set twice otherwise.
                    let set = columns(*to);
                    let set = if cause.is_empty() { set } else { set.replace("cause = ", "log_ref = ") };
                    let start = match (from, to) {
                        (State::Assigned, State::Running) => ", leader_epoch = assigned_epoch",
                        _ => "",
                    };
                    let text = format!(
                        "UPDATE weaver.job_runs SET state = '{to}', version = 8, {cause}attempt = attempt + {}, \
                         executions = executions + {}, failures = failures + {}, losses = losses + {}, {set}{start} \
                         WHERE id = {id}",
                        charges[0], charges[1], charges[2], charges[3]
                    );
                    moved = moved || owner.changes(&text).await;
                }
            }
            assert_eq!(moved, allowed.contains(&(*from, *to)), "{from} -> {to}");
        }
    }
    owner.done().await;
}

#[tokio::test]
async fn a_transition_charges_what_the_table_says_and_increments_the_version() {
    let mut owner = SchemaOwner::new().await;
    let id = owner.enqueue().await;
    let start = format!("UPDATE weaver.job_runs SET state = 'RUNNING', first_started_at = now(), {LEASE}");
    for change in [
        "attempt = 1, executions = 1",
        "version = 3, attempt = 1, executions = 1",
        "version = 2",
        "version = 2, attempt = 1",
        "version = 2, attempt = 2, executions = 1",
        "version = 2, attempt = 1, executions = 1, losses = 1",
        "version = 2, attempt = 1, executions = 1, failures = 1",
        "version = 2, attempt = 1, executions = 1, renewals = 1",
        "version = 2, attempt = 1, executions = 1, cause = 'lost'",
        "version = 2, attempt = 1, executions = 1, ready_at = ready_at - interval '1 second'",
    ] {
        owner.refused(&format!("{start}, {change} WHERE id = {id}")).await;
    }
    assert!(
        owner.accepts(&format!("{start}, version = 2, attempt = 1, executions = 1 WHERE id = {id}")).await
    );
    owner.done().await;
}

#[tokio::test]
async fn a_task_cannot_run_without_a_complete_lease_or_wait_with_one() {
    let mut owner = SchemaOwner::new().await;
    let id = owner.enqueue().await;
    let start = "UPDATE weaver.job_runs SET state = 'RUNNING', version = 2, attempt = 1, executions = 1, \
         first_started_at = now()";
    owner.refused(&format!("{start} WHERE id = {id}")).await;
    for missing in LEASE.split(", ").filter(|part| part.contains(" = ") && !part.starts_with("interval")) {
        let column = missing.split(' ').next().expect("a column");
        let half = LEASE.replace(missing, &format!("{column} = NULL"));
        owner.refused(&format!("{start}, {half} WHERE id = {id}")).await;
    }
    owner.refused(&format!("UPDATE weaver.job_runs SET {LEASE} WHERE id = {id}")).await;
    let assign = "UPDATE weaver.job_runs SET state = 'ASSIGNED', version = 2, attempt = 1";
    owner.refused(&format!("{assign} WHERE id = {id}")).await;
    owner.refused(&format!("{assign}, assigned_worker_id = 'w', assigned_at = now() WHERE id = {id}")).await;
    owner
        .refused(&format!(
            "UPDATE weaver.job_runs SET state = 'CANCELED', cause = 'user', version = 2 WHERE id = {id}"
        ))
        .await;
    owner.done().await;
}

#[tokio::test]
async fn the_fields_a_task_was_enqueued_with_never_change() {
    let mut owner = SchemaOwner::new().await;
    let id = owner.enqueue().await;
    for change in [
        "id = id + 1000",
        "namespace = 'other'",
        "queue = 'other'",
        "task_type = 'other'",
        "payload = ''",
        "priority = 0",
        "serial_key = 'k'",
        "idempotency_key = 'k'",
        "max_attempts = 1",
        "max_losses = 0",
        "labels = '{}'",
        "retry = '{\"kind\": \"none\"}'",
        "timeout_us = 1",
        "expires_at = now()",
        "created_at = now()",
        "scheduled = true",
        "scheduled_for = now()",
        "job_definition_id = 'd'",
        "retry_of = 1",
    ] {
        owner.refused(&format!("UPDATE weaver.job_runs SET {change} WHERE id = {id}")).await;
    }
    owner.done().await;
}

#[tokio::test]
async fn owner_epoch_attempt_lease_and_due_time_do_not_change_without_a_transition() {
    let mut owner = SchemaOwner::new().await;
    owner.enqueue().await;
    let leased = owner.lease().await;
    let id = leased.lease.key.id;
    for change in [
        "assigned_worker_id = 'thief'",
        "leader_epoch = 9",
        "assigned_epoch = 9",
        "attempt = 2",
        "executions = 2",
        "failures = 1",
        "losses = 1",
        "lease_token = gen_random_uuid()",
        "lease_ttl_us = 1",
        "lease_started_at = now() - interval '1 day'",
        "lease_expires_at = now() + interval '1 day'",
        "lease_expires_at = NULL, renewals = renewals + 1",
        "assigned_worker_id = 'thief', renewals = renewals + 1",
        "renewals = renewals + 2",
        "renewals = 0, progress_message = 'x'",
        "ready_at = now()",
        "updated_at = now()",
        "first_started_at = now()",
        "finished_at = now()",
        "state = 'PENDING'",
        "result = '42'",
        "last_error = 'x'",
    ] {
        owner.refused(&format!("UPDATE weaver.job_runs SET {change} WHERE id = {id}")).await;
    }
    let renewal =
        "renewals = renewals + 1, lease_expires_at = now() + interval '1 minute', progress_fraction = 0.5";
    assert!(owner.accepts(&format!("UPDATE weaver.job_runs SET {renewal} WHERE id = {id}")).await);
    owner.store.cancel(&leased.lease.key).await.expect("it runs");
    // Its cancellation hold: not extended, not changed, not partly removed.
    for change in
        ["lease_ttl_us = NULL", "renewals = renewals + 1", "lease_expires_at = now() + interval '1 day'"]
    {
        owner.refused(&format!("UPDATE weaver.job_runs SET {change} WHERE id = {id}")).await;
    }
    owner.done().await;
}

#[tokio::test]
async fn nothing_runs_without_a_complete_lease_even_past_the_guards() {
    let owner = SchemaOwner::new().await;
    owner.enqueue().await;
    owner.lease().await;
    for broken in ["token", "started_at", "expires_at", "ttl_us", "worker"] {
        let text = support::past_guards(&format!("UPDATE weaver.leases SET {broken} = NULL"));
        let refused = sqlx::raw_sql(owner.schema.sql(&text)).execute(owner.store.pool()).await;
        assert!(refused.is_err_and(|error| error.to_string().contains("leases_whole")), "{broken}");
    }
    owner.done().await;
}

#[tokio::test]
async fn only_the_functions_of_weaver_write_the_physical_tables() {
    let mut owner = SchemaOwner::new().await;
    for _ in 0..3 {
        owner.enqueue().await;
    }
    owner.end(&owner.lease().await, Outcome::failed("x")).await;
    owner.end(&owner.lease().await, Outcome::DONE).await;
    owner.lease().await;
    for table in ["tasks", "ready", "leases", "ended", "progress", "task_labels", "closed_attempts"] {
        owner.refused(&format!("DELETE FROM weaver.{table}")).await;
        owner.refused(&format!("INSERT INTO weaver.{table} SELECT * FROM weaver.{table}")).await;
        owner.refused(&format!("TRUNCATE weaver.{table}")).await;
        owner.refused(&format!("DO $$ BEGIN DELETE FROM weaver.{table}; END $$")).await;
    }
    for change in [
        "tasks SET payload = ''",
        "ready SET ready_at = now(), version = version + 1",
        "leases SET expires_at = now() + interval '1 day'",
        "leases SET worker = 'thief'",
        "leases SET gone = ids",
        "ended SET state = 7",
        "progress SET fraction = 1",
    ] {
        owner.refused(&format!("UPDATE weaver.{change}")).await;
    }
    owner.done().await;
}

#[tokio::test]
async fn of_two_sessions_that_update_a_task_as_they_read_it_the_second_changes_no_row() {
    use sqlx::{Connection, Executor};
    let owner = SchemaOwner::new().await;
    let id = owner.enqueue().await;
    let mut first = sqlx::PgConnection::connect(owner.schema.server_url()).await.expect("the server answers");
    let mut second =
        sqlx::PgConnection::connect(owner.schema.server_url()).await.expect("the server answers");
    // Seed 1.1, as it writes it.
    let cancel = format!(
        "UPDATE weaver.job_runs SET state = 'CANCELED', cause = 'user', version = version + 1, finished_at = now(), \
         updated_at = now() WHERE id = {id} AND version = 1 AND state = 'PENDING'"
    );
    let mut transaction = first.begin().await.expect("the server answers");
    let done = transaction.execute(owner.schema.sql(&cancel)).await.expect("it is allowed");
    assert_eq!(done.rows_affected(), 1);
    let (text, schema) = (owner.schema.sql(&cancel), &owner.schema);
    let waits = schema.sql(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%job_runs SET state%'",
    );
    let commit = async {
        loop {
            let waiting: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(waits.0.clone()))
                .fetch_one(owner.store.pool())
                .await
                .expect("the server answers");
            if waiting > 0 {
                break;
            }
        }
        transaction.commit().await.expect("it commits");
    };
    let (late, ()) = tokio::join!(second.execute(text), commit);
    assert_eq!(late.expect("it is no error").rows_affected(), 0);
    owner.done().await;
}
