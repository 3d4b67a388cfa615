-- Ends of attempts, in batches. Fencing: each applies only if the run still has the version and state it was decided on and the
-- leader epoch it started under (seed 1.3; 0: it was leased, not assigned). The answer names those that were applied. All other
-- transitions are written on the locked row (`moves.sql`).
--
-- Runs are found by `id = ANY` through the primary key, whatever the planner estimates; the parameters are hash-joined. An end
-- waits one second for a row lock (`lock_timeout`). On a timeout the caller repeats the batch with the unlocked runs only.

-- Attempts that succeeded. The statement that ends the run moves it to history.
CREATE FUNCTION weaver.succeed(p_namespace text, p_ids bigint[], p_versions bigint[], p_epochs bigint[],
    p_results bytea[], p_format smallint, OUT applied bigint[], OUT frees boolean) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s'
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
BEGIN
    WITH ended AS (
        DELETE FROM weaver.job_runs r
        USING unnest(p_ids, p_versions, p_epochs, p_results) AS i (id, version, epoch, result)
        WHERE r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.id = i.id AND r.version = i.version
            AND r.state = 'RUNNING' AND coalesce(r.leader_epoch, 0) = i.epoch
            AND r.format BETWEEN 1 AND p_format
        RETURNING r.*, i.result AS new_result
    ), archived AS (
        INSERT INTO weaver.job_run_history (
            id, created_at, updated_at, ready_at, first_started_at, finished_at, lease_started_at, lease_expires_at,
            lease_ttl_us, lease_token, leader_epoch, assigned_at, assigned_epoch, scheduled_for, expires_at, timeout_us,
            continuation_check_deadline_at, retry_of, version, renewals, attempt, executions, format, failures, losses,
            max_attempts, max_losses, progress_fraction, priority, scheduled, state, cause, outcome, continuation_state,
            namespace, queue, task_type, assigned_worker_id, serial_key, idempotency_key, job_definition_id,
            task_group_id, session_id, content_type, labels, retry, trace, progress_message, last_error, log_ref,
            result, payload)
        SELECT id, created_at, NULL, ready_at, first_started_at, v_now, lease_started_at, NULL, NULL, NULL,
            leader_epoch, NULL, NULL, scheduled_for, expires_at, timeout_us, NULL, retry_of, version + 1, renewals,
            attempt, executions, format, failures, losses, max_attempts, max_losses, progress_fraction, priority, scheduled,
            'SUCCEEDED', NULL, 'succeeded', 'NONE', namespace, queue, task_type, assigned_worker_id, serial_key,
            idempotency_key, job_definition_id, task_group_id, session_id, content_type, labels, retry, trace,
            progress_message, last_error, log_ref, coalesce(new_result, result), payload
        FROM ended
    ), counted AS (
        SELECT queue, count(*)::integer AS count FROM ended GROUP BY 1
    ), deltas AS (
        SELECT queue, {number(running)} AS state, -count AS delta FROM counted
        UNION ALL SELECT queue, {number(succeeded)}, count FROM counted
    ), moved AS (
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        SELECT v_now, t.ids, ARRAY[p_namespace], t.versions, ARRAY[{number(succeeded)}], c.namespaces, c.queues, c.states, c.deltas
        FROM (SELECT array_agg(id) AS ids, CASE WHEN min(version) = max(version) THEN ARRAY[min(version) + 1]
                    ELSE array_agg(version + 1) END AS versions FROM ended) t,
            (SELECT array_agg(p_namespace) AS namespaces, array_agg(queue) AS queues, array_agg(state) AS states,
                array_agg(delta) AS deltas FROM deltas) c
        WHERE t.ids IS NOT NULL
    )
    SELECT array_agg(id), bool_or(serial_key IS NOT NULL
        OR EXISTS (SELECT FROM weaver.queues s WHERE s.namespace = p_namespace AND s.max_running IS NOT NULL))
    INTO applied, frees FROM ended;
END
$$;

-- Attempts that do not end the run: failed, timed out, lost by lease expiry, released, snoozed.
CREATE FUNCTION weaver.retry(p_namespace text, p_ids bigint[], p_versions bigint[], p_epochs bigint[],
    p_renewals bigint[], p_causes text[], p_outcomes text[], p_failures integer[], p_losses integer[], p_delays_us bigint[],
    p_errors text[], p_format smallint) RETURNS bigint[] LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s'
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_applied bigint[];
BEGIN
    WITH held AS (
        SELECT r.id, r.version, r.attempt, r.queue, r.assigned_worker_id, r.lease_started_at, i.cause,
            i.outcome, i.failures, i.losses, i.delay_us, i.error
        FROM unnest(p_ids, p_versions, p_epochs, p_renewals, p_causes, p_outcomes, p_failures, p_losses, p_delays_us,
            p_errors) AS i (id, version, epoch, renewals, cause, outcome, failures, losses, delay_us, error)
        JOIN weaver.job_runs r ON r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.id = i.id
        WHERE r.version = i.version AND r.state = 'RUNNING' AND coalesce(r.leader_epoch, 0) = i.epoch
            AND r.format BETWEEN 1 AND p_format
            AND (i.renewals IS NULL OR r.renewals = i.renewals)
        FOR NO KEY UPDATE OF r
    ), closed AS (
        INSERT INTO weaver.closed_attempts
        SELECT p_namespace, id, attempt, assigned_worker_id, version, lease_started_at, v_now, outcome, error FROM held
        -- A row written by another program must not fail the batch.
        ON CONFLICT DO NOTHING
    ), retried AS (
        UPDATE weaver.job_runs r
        SET state = 'RETRY_SCHEDULED', cause = h.cause, version = r.version + 1, updated_at = v_now,
            failures = h.failures, losses = h.losses, ready_at = weaver.later(v_now, h.delay_us),
            last_error = coalesce(h.error, r.last_error), continuation_state = 'NONE',
            continuation_check_deadline_at = NULL, assigned_worker_id = NULL, assigned_at = NULL,
            assigned_epoch = NULL, leader_epoch = NULL, lease_token = NULL, lease_started_at = NULL,
            lease_expires_at = NULL, lease_ttl_us = NULL
        FROM held h WHERE r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.id = h.id
        RETURNING r.id, r.version, r.queue
    ), counted AS (
        SELECT queue, count(*)::integer AS count FROM retried GROUP BY 1
    ), deltas AS (
        SELECT queue, {number(running)} AS state, -count AS delta FROM counted
        UNION ALL SELECT queue, {number(retry_scheduled)}, count FROM counted
    ), moved AS (
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        SELECT v_now, t.ids, ARRAY[p_namespace], t.versions, ARRAY[{number(retry_scheduled)}], c.namespaces, c.queues, c.states, c.deltas
        FROM (SELECT array_agg(id) AS ids, array_agg(version) AS versions FROM retried) t,
            (SELECT array_agg(p_namespace) AS namespaces, array_agg(queue) AS queues, array_agg(state) AS states,
                array_agg(delta) AS deltas FROM deltas) c
        WHERE t.ids IS NOT NULL
    )
    SELECT array_agg(id) INTO v_applied FROM retried;
    RETURN v_applied;
END
$$;

-- Attempts that end the run without success: the last allowed one failed, timed out or was lost, or the handler cancelled.
CREATE FUNCTION weaver.fail_permanently(p_namespace text, p_ids bigint[], p_versions bigint[], p_epochs bigint[],
    p_renewals bigint[], p_states text[], p_causes text[], p_outcomes text[], p_failures integer[], p_losses integer[],
    p_errors text[], p_format smallint) RETURNS bigint[] LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s'
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_applied bigint[];
BEGIN
    WITH ended AS (
        DELETE FROM weaver.job_runs r
        USING unnest(p_ids, p_versions, p_epochs, p_renewals, p_states, p_causes, p_outcomes, p_failures, p_losses,
            p_errors) AS i (id, version, epoch, renewals, new_state, new_cause, new_outcome, new_failures, new_losses,
            error)
        WHERE r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.id = i.id AND r.version = i.version
            AND r.state = 'RUNNING' AND coalesce(r.leader_epoch, 0) = i.epoch
            AND r.format BETWEEN 1 AND p_format
            AND (i.renewals IS NULL OR r.renewals = i.renewals)
        RETURNING r.*, i.new_state, i.new_cause, i.new_outcome, i.new_failures, i.new_losses, i.error,
            weaver.task_state(i.new_state, r.scheduled)::integer AS new_number
    ), archived AS (
        INSERT INTO weaver.job_run_history (
            id, created_at, updated_at, ready_at, first_started_at, finished_at, lease_started_at, lease_expires_at,
            lease_ttl_us, lease_token, leader_epoch, assigned_at, assigned_epoch, scheduled_for, expires_at, timeout_us,
            continuation_check_deadline_at, retry_of, version, renewals, attempt, executions, format, failures, losses,
            max_attempts, max_losses, progress_fraction, priority, scheduled, state, cause, outcome, continuation_state,
            namespace, queue, task_type, assigned_worker_id, serial_key, idempotency_key, job_definition_id,
            task_group_id, session_id, content_type, labels, retry, trace, progress_message, last_error, log_ref,
            result, payload)
        SELECT id, created_at, NULL, ready_at, first_started_at, v_now, lease_started_at, NULL, NULL, NULL,
            leader_epoch, NULL, NULL, scheduled_for, expires_at, timeout_us, NULL, retry_of, version + 1, renewals,
            attempt, executions, format, new_failures, new_losses, max_attempts, max_losses, progress_fraction, priority,
            scheduled, new_state, new_cause, new_outcome, 'NONE', namespace, queue, task_type, assigned_worker_id,
            serial_key, idempotency_key, job_definition_id, task_group_id, session_id, content_type, labels, retry,
            trace, progress_message, coalesce(error, last_error), log_ref, result, payload
        FROM ended
    ), counted AS (
        SELECT queue, new_number, count(*)::integer AS count FROM ended GROUP BY 1, 2
    ), deltas AS (
        SELECT queue, {number(running)} AS state, -sum(count)::integer AS delta FROM counted GROUP BY 1
        UNION ALL SELECT queue, new_number, count FROM counted
    ), moved AS (
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        SELECT v_now, t.ids, ARRAY[p_namespace], t.versions, t.states, c.namespaces, c.queues, c.states, c.deltas
        FROM (SELECT array_agg(id) AS ids, array_agg(version + 1) AS versions, array_agg(new_number) AS states
                FROM ended) t,
            (SELECT array_agg(p_namespace) AS namespaces, array_agg(queue) AS queues, array_agg(state) AS states,
                array_agg(delta) AS deltas FROM deltas) c
        WHERE t.ids IS NOT NULL
    )
    SELECT array_agg(id) INTO v_applied FROM ended;
    RETURN v_applied;
END
$$;

-- Renews leases that are still valid. Rows locked by another transaction are skipped, never waited for.
CREATE FUNCTION weaver.renew(p_namespace text, p_ids bigint[], p_versions bigint[], p_tokens uuid[],
    p_epochs bigint[], p_fractions real[], p_messages text[], p_within_us bigint[], p_continue boolean[])
RETURNS bigint[] LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_applied bigint[];
BEGIN
    WITH held AS (
        SELECT r.id, i.fraction, i.message,
            CASE WHEN i.within_us IS NOT NULL THEN weaver.later(v_now, i.within_us)
                WHEN NOT i.continue THEN r.continuation_check_deadline_at END AS deadline
        FROM unnest(p_ids, p_versions, p_tokens, p_epochs, p_fractions, p_messages, p_within_us, p_continue)
            AS i (id, version, token, epoch, fraction, message, within_us, continue)
        JOIN weaver.job_runs r ON r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.id = i.id
        WHERE r.version = i.version AND r.state = 'RUNNING' AND r.lease_token = i.token
            -- 0: it was leased, not assigned.
            AND coalesce(r.leader_epoch, 0) = i.epoch
            -- An incomplete lease cannot be renewed; maintenance releases the run.
            AND num_nulls(r.lease_ttl_us, r.lease_expires_at, r.lease_started_at, r.assigned_worker_id) = 0
        FOR NO KEY UPDATE OF r SKIP LOCKED
    ), extended AS (
        UPDATE weaver.job_runs r
        SET renewals = r.renewals + 1,
            lease_expires_at = greatest(weaver.later(v_now, r.lease_ttl_us), h.deadline),
            continuation_state = CASE WHEN h.deadline IS NULL THEN 'NONE' ELSE 'CONFIRMING' END,
            continuation_check_deadline_at = h.deadline,
            progress_fraction = coalesce(h.fraction, r.progress_fraction),
            progress_message = CASE WHEN h.fraction IS NULL THEN r.progress_message ELSE h.message END
        FROM held h WHERE r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.id = h.id
        RETURNING r.id
    )
    SELECT array_agg(id) INTO v_applied FROM extended;
    RETURN v_applied;
END
$$;

-- Moves ended runs without a cancellation hold to history.
CREATE FUNCTION weaver.archive(p_namespace text, p_ids bigint[]) RETURNS void LANGUAGE sql AS $$
    WITH ended AS (
        DELETE FROM weaver.job_runs r
        WHERE r.namespace = p_namespace AND r.id = ANY (p_ids) AND r.finished_at IS NOT NULL AND r.lease_token IS NULL
        RETURNING r.*
    )
    INSERT INTO weaver.job_run_history SELECT * FROM ended
$$;
