-- Transitions of single tasks: locked, decided in Rust, then written.

-- Locks the shared rows that have one of these members.
CREATE FUNCTION weaver.lock_shared(p_ids bigint[]) RETURNS bigint[] LANGUAGE plpgsql AS $$
DECLARE
    v_range int8range := (SELECT int8range(min(i.id), max(i.id), '[]') FROM unnest(p_ids) AS i (id));
BEGIN
    RETURN ARRAY(SELECT l.lease_id FROM weaver.leases l
        WHERE l.is_shared AND int8range(l.first_id, l.last_id, '[]') && v_range AND l.ids && p_ids ORDER BY l.lease_id FOR UPDATE);
END
$$;

-- Locks these tasks wherever they are, until the end of the transaction, in one order. A task that moves meanwhile is found in the
-- second round; one that moves again is not locked, and the conditional write refuses it.
CREATE FUNCTION weaver.lock_tasks(p_ids bigint[]) RETURNS void LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE
    v_id bigint;
BEGIN
    FOR v_round IN 1 .. 2 LOOP
        PERFORM FROM weaver.ready r WHERE r.id = ANY (p_ids) ORDER BY r.id FOR UPDATE;
        PERFORM FROM weaver.leases l WHERE l.first_id = ANY (p_ids) AND NOT l.is_shared ORDER BY l.lease_id FOR UPDATE;
        -- A member that an open transaction completes is waited for before its row is locked.
        FOR v_id IN SELECT DISTINCT i.id FROM unnest(p_ids) AS i (id)
            JOIN weaver.leases k ON k.is_shared AND int8range(k.first_id, k.last_id, '[]') @> i.id AND i.id = ANY (k.ids) ORDER BY 1
        LOOP
            PERFORM pg_advisory_xact_lock_shared(weaver.completion(v_id));
        END LOOP;
        PERFORM weaver.lock_shared(p_ids);
    END LOOP;
END
$$;

-- The facts, besides its due time, that decide whether a waiting task may start. Rust decides (`admission::blocked`); locks keep
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

-- Takes a task out of `ready` or `leases`. `p_is_hold`: its lease stays, as the cancellation hold. Returns whether it was there.
CREATE FUNCTION weaver.take_out(p_id bigint, p_version bigint, p_is_hold boolean) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_shared bigint;
BEGIN
    DELETE FROM weaver.ready r WHERE r.id = p_id AND r.version = p_version;
    IF FOUND THEN
        RETURN true;
    END IF;
    SELECT l.lease_id INTO v_shared FROM weaver.leases l
    WHERE l.is_shared AND int8range(l.first_id, l.last_id, '[]') @> p_id AND p_id = ANY (l.ids) AND p_id <> ALL (l.gone)
        AND l.version = p_version FOR UPDATE;
    IF FOUND THEN
        PERFORM weaver.split(v_shared, ARRAY[p_id]);
    END IF;
    IF p_is_hold THEN
        UPDATE weaver.leases l SET state = {number(cancelled)}, assigned_at = NULL, assigned_epoch = NULL, check_deadline_at = NULL
        WHERE l.first_id = p_id AND NOT l.is_shared AND l.version = p_version AND l.state = {number(running)};
    ELSE
        DELETE FROM weaver.leases l
        WHERE l.first_id = p_id AND NOT l.is_shared AND l.version = p_version AND l.state <> {number(cancelled)};
    END IF;
    RETURN FOUND;
END
$$;

-- Puts a task, as `p_run` describes it, where its state says.
CREATE FUNCTION weaver.put_in(p_run weaver.all_job_runs) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_state smallint := weaver.task_state(p_run.state, p_run.scheduled);
BEGIN
    IF p_run.finished_at IS NOT NULL THEN
        INSERT INTO weaver.ended (id, finished_at, started_at, first_started_at, ready_at, epoch, version, attempt, executions,
            renewals, failures, losses, state, namespace, queue, worker, cause, outcome, last_error, result)
        VALUES (p_run.id, p_run.finished_at, p_run.lease_started_at, p_run.first_started_at, p_run.ready_at, p_run.leader_epoch,
            p_run.version, p_run.attempt, nullif(p_run.executions, p_run.attempt), nullif(p_run.renewals, 0),
            nullif(p_run.failures, 0), nullif(p_run.losses, 0), v_state, p_run.namespace, p_run.queue, p_run.assigned_worker_id,
            p_run.cause, p_run.outcome, p_run.last_error, p_run.result);
    ELSIF p_run.state IN ({waiting}) THEN
        INSERT INTO weaver.ready (id, ready_at, expires_at, updated_at, first_started_at, version, attempt, executions, renewals,
            failures, losses, max_losses, priority, dispatch, format, state, namespace, queue, task_type, serial_key, cause,
            last_error)
        VALUES (p_run.id, p_run.ready_at, p_run.expires_at, p_run.updated_at, p_run.first_started_at, p_run.version, p_run.attempt,
            p_run.executions, p_run.renewals, p_run.failures, p_run.losses, p_run.max_losses, p_run.priority,
            coalesce(p_run.dispatch, 0), p_run.format, v_state, p_run.namespace, p_run.queue, p_run.task_type, p_run.serial_key,
            p_run.cause, p_run.last_error);
    ELSE
        INSERT INTO weaver.leases (first_id, last_id, token, started_at, expires_at, ttl_us, epoch, assigned_at, assigned_epoch,
            check_deadline_at, ready_at, first_started_at, updated_at, task_expires_at, version, attempt, executions, renewals,
            failures, losses, format, state, is_shared, namespace, queue, worker, serial_key, last_error, ids)
        VALUES (p_run.id, p_run.id, p_run.lease_token, p_run.lease_started_at, p_run.lease_expires_at, p_run.lease_ttl_us,
            p_run.leader_epoch, p_run.assigned_at, p_run.assigned_epoch, p_run.continuation_check_deadline_at, p_run.ready_at,
            p_run.first_started_at, p_run.updated_at, CASE WHEN {is_unstarted(p_run.executions)} THEN p_run.expires_at END,
            p_run.version, p_run.attempt, p_run.executions, p_run.renewals, p_run.failures, p_run.losses, p_run.format, v_state,
            false, p_run.namespace, p_run.queue, p_run.assigned_worker_id, p_run.serial_key, p_run.last_error, ARRAY[p_run.id]);
    END IF;
END
$$;

-- Writes a transition of a locked task: from `p_old`, as it was read under the lock, to `p_new`. Refuses what core's tables do not
-- allow. False: it is no longer as in `p_old`.
CREATE FUNCTION weaver.move_task(p_old weaver.all_job_runs, p_new weaver.all_job_runs) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_from smallint := weaver.task_state(p_old.state, p_old.scheduled);
    v_to smallint := weaver.task_state(p_new.state, p_new.scheduled);
BEGIN
    PERFORM weaver.check_move(p_old, p_new);
    IF NOT weaver.take_out(p_old.id, p_old.version, p_new.finished_at IS NOT NULL AND p_new.lease_token IS NOT NULL) THEN
        RETURN false;
    END IF;
    PERFORM weaver.put_in(p_new);
    IF p_new.state = 'RUNNING' THEN
        DELETE FROM weaver.progress p WHERE p.id = p_new.id;
    END IF;
    INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
        count_deltas)
    VALUES (p_new.updated_at, ARRAY[p_new.id], ARRAY[p_new.namespace], ARRAY[p_new.version], ARRAY[v_to],
        ARRAY[p_new.namespace, p_new.namespace], ARRAY[p_new.queue, p_new.queue], ARRAY[v_from, v_to], ARRAY[-1, 1]);
    RETURN true;
END
$$;

-- Conditional write of a task after a transition, with the attempt that it closed. Returns false and writes nothing if version or state
-- are not those the transition was decided on.
CREATE FUNCTION weaver.write_run(p_namespace text, p_id bigint, p_expected_version bigint, p_expected_state text,
    p_state text, p_cause text, p_outcome text, p_version bigint, p_updated_at timestamptz, p_ready_at timestamptz,
    p_first_started_at timestamptz, p_finished_at timestamptz, p_lease_started_at timestamptz,
    p_lease_expires_at timestamptz, p_lease_ttl_us bigint, p_lease_token uuid, p_leader_epoch bigint,
    p_assigned_worker_id text, p_assigned_at timestamptz, p_assigned_epoch bigint, p_attempt integer,
    p_executions integer, p_failures integer, p_losses integer, p_deadline timestamptz, p_last_error text,
    p_result bytea, p_closes boolean, p_error text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_old weaver.all_job_runs;
    v_new weaver.all_job_runs;
    v_ends_attempt boolean := p_finished_at IS NOT NULL AND p_outcome IS NOT NULL;
BEGIN
    SELECT * INTO v_old FROM weaver.all_job_runs r
    WHERE r.id = p_id AND r.namespace = p_namespace AND r.version = p_expected_version AND r.state = p_expected_state
        -- Seed 1.4 and 2.3: only the worker it was assigned to may start it.
        AND (p_expected_state <> 'ASSIGNED' OR p_state <> 'RUNNING' OR r.assigned_worker_id = p_assigned_worker_id);
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    IF p_closes AND v_old.assigned_worker_id IS NOT NULL THEN
        INSERT INTO weaver.closed_attempts VALUES (p_namespace, p_id, v_old.attempt, v_old.assigned_worker_id, v_old.version,
            v_old.lease_started_at, p_updated_at, p_outcome, p_error) ON CONFLICT DO NOTHING;
    END IF;
    v_new := v_old;
    v_new.state := p_state;
    v_new.cause := p_cause;
    v_new.outcome := CASE WHEN p_finished_at IS NOT NULL THEN p_outcome END;
    v_new.version := p_version;
    v_new.updated_at := p_updated_at;
    v_new.ready_at := p_ready_at;
    v_new.first_started_at := p_first_started_at;
    v_new.finished_at := p_finished_at;
    v_new.lease_started_at := CASE WHEN v_ends_attempt THEN v_old.lease_started_at ELSE p_lease_started_at END;
    v_new.lease_expires_at := p_lease_expires_at;
    v_new.lease_ttl_us := p_lease_ttl_us;
    v_new.lease_token := p_lease_token;
    v_new.leader_epoch := p_leader_epoch;
    v_new.assigned_worker_id := CASE WHEN v_ends_attempt THEN v_old.assigned_worker_id ELSE p_assigned_worker_id END;
    v_new.assigned_at := p_assigned_at;
    v_new.assigned_epoch := p_assigned_epoch;
    v_new.attempt := p_attempt;
    v_new.executions := p_executions;
    v_new.failures := p_failures;
    v_new.losses := p_losses;
    v_new.continuation_check_deadline_at := p_deadline;
    v_new.continuation_state := CASE WHEN p_deadline IS NULL THEN 'NONE' ELSE 'CONFIRMING' END;
    v_new.last_error := p_last_error;
    v_new.result := p_result;
    RETURN weaver.move_task(v_old, v_new);
END
$$;

-- Ends the cancellation holds of handlers that have stopped; returns whether there were any.
CREATE FUNCTION weaver.confirm_stopped(p_namespaces text[], p_ids bigint[], p_versions bigint[], p_tokens uuid[])
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM weaver.leases l USING unnest(p_namespaces, p_ids, p_versions, p_tokens) AS i (namespace, id, version, token)
    WHERE l.first_id = i.id AND NOT l.is_shared AND l.state = {number(cancelled)} AND l.version = i.version AND l.token = i.token
        AND l.namespace = i.namespace;
    RETURN FOUND;
END
$$;
