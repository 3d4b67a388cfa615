-- Views with the names and columns of seed 004, over the physical tables. They also take hand-written SQL (`guard_views.sql`).

-- Every task. One that is in none of `ended`, `ready` and `leases` has no version: it is reported as unreadable.
CREATE VIEW weaver.all_job_runs AS
SELECT s.id, s.created_at, coalesce(e.ready_at, w.ready_at, l.ready_at, s.run_at, s.created_at) AS ready_at, s.retry_of,
    s.scheduled_for, s.expires_at, s.timeout_us,
    CASE WHEN e.id IS NOT NULL THEN coalesce(e.renewals, 0) ELSE coalesce(w.renewals, l.renewals) END AS renewals,
    s.max_attempts, s.max_losses,
    CASE WHEN e.id IS NOT NULL THEN coalesce(e.failures, 0::smallint) ELSE coalesce(w.failures, l.failures) END AS failures,
    CASE WHEN e.id IS NOT NULL THEN coalesce(e.losses, 0::smallint) ELSE coalesce(w.losses, l.losses) END AS losses,
    s.priority, s.run_at IS NOT NULL AS scheduled,
    CASE WHEN e.id IS NOT NULL THEN e.finished_at WHEN w.id IS NOT NULL THEN coalesce(w.updated_at, s.created_at)
        ELSE coalesce(l.updated_at, l.started_at) END AS updated_at,
    CASE WHEN e.id IS NOT NULL THEN coalesce(e.first_started_at, e.started_at) WHEN w.id IS NOT NULL THEN w.first_started_at
        ELSE coalesce(l.first_started_at, l.started_at) END AS first_started_at,
    e.finished_at, CASE WHEN e.id IS NOT NULL THEN e.started_at ELSE l.started_at END AS lease_started_at,
    l.expires_at AS lease_expires_at, l.ttl_us AS lease_ttl_us, coalesce(l.epoch, e.epoch) AS leader_epoch,
    CASE WHEN e.id IS NULL THEN l.assigned_at END AS assigned_at,
    CASE WHEN e.id IS NULL THEN l.assigned_epoch END AS assigned_epoch,
    CASE WHEN e.id IS NULL THEN l.check_deadline_at END AS continuation_check_deadline_at,
    coalesce(e.version, w.version, l.version) AS version, coalesce(e.attempt, w.attempt, l.attempt) AS attempt,
    CASE WHEN e.id IS NOT NULL THEN coalesce(e.executions, e.attempt) ELSE coalesce(w.executions, l.executions) END AS executions,
    s.format, p.fraction AS progress_fraction, l.token AS lease_token,
    weaver.state_word(coalesce(e.state, w.state, l.state), e.cause) AS state, coalesce(e.cause, w.cause) AS cause,
    CASE WHEN e.state = {number(succeeded)} THEN coalesce(e.outcome, 'succeeded') ELSE e.outcome END AS outcome,
    CASE WHEN e.id IS NOT NULL THEN e.worker ELSE l.worker END AS assigned_worker_id,
    CASE WHEN e.id IS NULL AND l.check_deadline_at IS NOT NULL THEN 'CONFIRMING' ELSE 'NONE' END AS continuation_state,
    s.namespace, s.queue, s.task_type, s.serial_key, s.idempotency_key, s.job_definition_id, s.task_group_id, s.session_id,
    s.content_type, s.labels, s.retry, s.trace, p.message AS progress_message,
    coalesce(e.last_error, w.last_error, CASE WHEN e.id IS NULL THEN l.last_error END) AS last_error,
    (SELECT t.log_ref FROM weaver.streams t WHERE t.namespace = s.namespace AND t.run_id = s.id AND t.log_ref IS NOT NULL
        LIMIT 1) AS log_ref, e.result, s.payload, s.dispatch
FROM weaver.tasks s
LEFT JOIN weaver.ended e ON e.id = s.id
LEFT JOIN weaver.ready w ON w.id = s.id
LEFT JOIN LATERAL (
    SELECT k.* FROM weaver.leases k
    WHERE k.first_id = s.id AND NOT k.is_shared AND w.id IS NULL AND (e.id IS NULL OR k.state = {number(cancelled)})
    UNION ALL
    SELECT k.* FROM weaver.leases k
    WHERE k.is_shared AND int8range(k.first_id, k.last_id, '[]') @> s.id AND s.id = ANY (k.ids) AND s.id <> ALL (k.gone)
        AND w.id IS NULL AND e.id IS NULL
    LIMIT 1
) l ON true
LEFT JOIN weaver.progress p ON p.id = s.id;

-- Tasks that have not ended, and cancelled ones whose handler has not stopped (cancellation hold).
CREATE VIEW weaver.job_runs AS
    SELECT * FROM weaver.all_job_runs r WHERE r.finished_at IS NULL OR r.lease_token IS NOT NULL;
CREATE VIEW weaver.job_run_history AS
    SELECT * FROM weaver.all_job_runs r WHERE r.finished_at IS NOT NULL AND r.lease_token IS NULL;

CREATE VIEW weaver.job_run_attempts AS
    SELECT c.namespace, c.run_id, c.attempt, c.assigned_worker_id, c.fence, c.started_at, c.ended_at, c.outcome, c.error
    FROM weaver.closed_attempts c
    UNION ALL
    SELECT e.namespace, e.id, e.attempt, e.worker, e.version - 1, e.started_at, e.finished_at,
        CASE WHEN e.state = {number(succeeded)} THEN coalesce(e.outcome, 'succeeded') ELSE e.outcome END,
        CASE WHEN e.cause IN ('failed', 'timed_out', 'lost', 'handler') THEN e.last_error END
    FROM weaver.ended e WHERE e.state = {number(succeeded)} OR e.outcome IS NOT NULL;
