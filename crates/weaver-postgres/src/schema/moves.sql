-- Transitions of single runs: decided in Rust on the locked row, then written.

-- The facts, besides its due time, that decide whether a waiting run may start. Rust decides (`admission::blocked`); locks keep
-- them unchanged until the end of the transaction.
CREATE FUNCTION weaver.admission_facts(p_namespace text, p_queue text, p_key text, p_id bigint, p_executions integer,
    p_now timestamptz, OUT paused boolean, OUT max_running bigint, OUT occupied bigint, OUT gated boolean)
LANGUAGE plpgsql AS $$
BEGIN
    SELECT weaver.is_set_to_pause(s.paused, s.max_running), s.max_running INTO paused, max_running
    FROM weaver.queues s WHERE s.namespace = p_namespace AND s.queue = p_queue FOR NO KEY UPDATE;
    paused := coalesce(paused, false);
    occupied := CASE WHEN max_running IS NULL THEN 0 ELSE weaver.occupied(p_namespace, p_queue) END;
    gated := false;
    -- The lock is not waited for if the queue is closed anyway.
    IF p_key IS NOT NULL AND {is_open(paused, occupied, max_running)} THEN
        PERFORM pg_advisory_xact_lock(hashtextextended('weaver.gate ' || p_namespace || E'\x01' || p_key, 11));
        gated := weaver.is_gated(p_namespace, p_key, p_id, p_executions, p_now);
    END IF;
END
$$;

-- Conditional write of a run after a transition, with the attempt that it closed; an ended run without a cancellation hold is moved
-- to history. Returns false and writes nothing if version or state are not those the transition was decided on.
CREATE FUNCTION weaver.write_run(p_namespace text, p_id bigint, p_expected_version bigint, p_expected_state text,
    p_state text, p_cause text, p_outcome text, p_version bigint, p_updated_at timestamptz, p_ready_at timestamptz,
    p_first_started_at timestamptz, p_finished_at timestamptz, p_lease_started_at timestamptz,
    p_lease_expires_at timestamptz, p_lease_ttl_us bigint, p_lease_token uuid, p_leader_epoch bigint,
    p_assigned_worker_id text, p_assigned_at timestamptz, p_assigned_epoch bigint, p_attempt integer,
    p_executions integer, p_failures integer, p_losses integer, p_deadline timestamptz, p_last_error text,
    p_result bytea, p_closes boolean, p_error text, p_from integer, p_to integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_queue text;
BEGIN
    IF p_closes THEN
        INSERT INTO weaver.closed_attempts
        SELECT r.namespace, r.id, r.attempt, r.assigned_worker_id, r.version, r.lease_started_at, p_updated_at,
            p_outcome, p_error
        FROM weaver.job_runs r
        WHERE r.namespace = p_namespace AND r.id = p_id AND r.version = p_expected_version
            AND r.state = p_expected_state
            -- NULL only if another program changed the row: there is no worker's attempt to record.
            AND r.assigned_worker_id IS NOT NULL
        ON CONFLICT DO NOTHING;
    END IF;
    UPDATE weaver.job_runs r
    SET state = p_state, cause = p_cause, version = p_version, updated_at = p_updated_at, ready_at = p_ready_at,
        outcome = CASE WHEN p_finished_at IS NOT NULL THEN p_outcome END,
        first_started_at = p_first_started_at, finished_at = p_finished_at,
        lease_started_at = CASE WHEN p_finished_at IS NOT NULL AND p_outcome IS NOT NULL THEN r.lease_started_at
            ELSE p_lease_started_at END,
        lease_expires_at = p_lease_expires_at, lease_ttl_us = p_lease_ttl_us, lease_token = p_lease_token,
        leader_epoch = p_leader_epoch,
        assigned_worker_id = CASE WHEN p_finished_at IS NOT NULL AND p_outcome IS NOT NULL THEN r.assigned_worker_id
            ELSE p_assigned_worker_id END,
        assigned_at = p_assigned_at, assigned_epoch = p_assigned_epoch, attempt = p_attempt,
        executions = p_executions, failures = p_failures, losses = p_losses,
        continuation_state = CASE WHEN p_deadline IS NULL THEN 'NONE' ELSE 'CONFIRMING' END,
        continuation_check_deadline_at = p_deadline,
        progress_fraction = CASE WHEN p_state = 'RUNNING' THEN NULL ELSE r.progress_fraction END,
        progress_message = CASE WHEN p_state = 'RUNNING' THEN NULL ELSE r.progress_message END,
        last_error = p_last_error, result = p_result
    WHERE r.namespace = p_namespace AND r.id = p_id AND r.version = p_expected_version AND r.state = p_expected_state
        -- Seed 1.4 and 2.3: only the worker it was assigned to may start it.
        AND (p_expected_state <> 'ASSIGNED' OR p_state <> 'RUNNING' OR r.assigned_worker_id = p_assigned_worker_id)
    RETURNING r.queue INTO v_queue;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
        count_deltas)
    VALUES (p_updated_at, ARRAY[p_id], ARRAY[p_namespace], ARRAY[p_version], ARRAY[p_to],
        ARRAY[p_namespace, p_namespace], ARRAY[v_queue, v_queue], ARRAY[p_from, p_to], ARRAY[-1, 1]);
    IF p_finished_at IS NOT NULL AND p_lease_token IS NULL THEN
        PERFORM weaver.archive(p_namespace, ARRAY[p_id]);
    END IF;
    RETURN true;
END
$$;

-- Ends the cancellation holds of handlers that have stopped; returns whether there were any.
CREATE FUNCTION weaver.confirm_stopped(p_namespaces text[], p_ids bigint[], p_versions bigint[], p_tokens uuid[])
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_hold record;
    v_any boolean := false;
BEGIN
    FOR v_hold IN
        UPDATE weaver.job_runs r
        SET lease_expires_at = NULL, lease_ttl_us = NULL, lease_token = NULL, leader_epoch = NULL
        FROM unnest(p_namespaces, p_ids, p_versions, p_tokens) AS i (namespace, id, version, token)
        WHERE r.namespace = i.namespace AND r.id = i.id AND r.version = i.version + 1 AND r.state = 'CANCELED'
            AND r.lease_token = i.token
        RETURNING r.namespace, r.id
    LOOP
        PERFORM weaver.archive(v_hold.namespace, ARRAY[v_hold.id]);
        v_any := true;
    END LOOP;
    RETURN v_any;
END
$$;
