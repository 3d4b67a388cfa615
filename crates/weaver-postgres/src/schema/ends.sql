-- Ends of attempts, in batches. Fencing: each applies only if its lease still holds the task at the version it was decided on and under
-- the leader epoch it started with (seed 1.3; 0: it was leased, not assigned). The answer names those that were applied. All other
-- transitions are written on the locked row (`moves.sql`).
--
-- Lease rows are locked by one statement and read by the next, which sees what was committed before the locks were granted. Ends of
-- members of a shared row lock it FOR KEY SHARE: they wait neither for each other nor for renewals; two ends of one task meet at the
-- primary key of `ended`. Whatever moves a member back to `ready` or to another row locks it FOR UPDATE. A call waits one second for a
-- lock (`lock_timeout`); on a timeout the caller repeats it with the unlocked tasks only.

-- A transaction that completes a task (`complete`) is the caller's and may stay open. It locks no shared row but the task itself, by this
-- advisory lock; whatever takes a member out of a shared row first makes sure that no session holds it.
CREATE FUNCTION weaver.completion(p_id bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended('weaver.completion', p_id)
$$;

-- Whether an open transaction of another session completes this task. The lock it tries is released in the same expression, so that no
-- cancelled statement keeps it; it is shared, so that tests do not meet each other.
CREATE FUNCTION weaver.is_being_completed(p_id bigint) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_key bigint := weaver.completion(p_id);
BEGIN
    RETURN NOT CASE WHEN pg_try_advisory_lock_shared(v_key) THEN pg_advisory_unlock_shared(v_key) ELSE false END;
END
$$;

-- Waits for open transactions that complete one of these tasks. To be called before any row is locked.
CREATE FUNCTION weaver.await_completions(p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_id bigint;
BEGIN
    FOR v_id IN SELECT DISTINCT i.id FROM unnest(p_ids) AS i (id) WHERE weaver.is_being_completed(i.id) ORDER BY 1 LOOP
        PERFORM pg_advisory_xact_lock_shared(weaver.completion(v_id));
    END LOOP;
END
$$;

-- Locks the lease rows of these tasks, in one order; returns their ids. `is_shared::integer` instead of `is_shared`: otherwise the planner
-- may read all shared rows by the partial index on their ranges, deleted ones included, instead of those with the token.
CREATE FUNCTION weaver.lock_leases(p_ids bigint[], p_tokens uuid[], p_exclusive boolean, OUT lease_ids bigint[],
    OUT singles bigint) LANGUAGE plpgsql AS $$
DECLARE
    v_tokens uuid[] := ARRAY(SELECT DISTINCT t.token FROM unnest(p_tokens) AS t (token));
    v_shared bigint[];
BEGIN
    lease_ids := ARRAY(SELECT l.lease_id FROM weaver.leases l WHERE l.token = ANY (v_tokens) AND NOT l.is_shared
        AND l.first_id = ANY (p_ids) ORDER BY l.lease_id FOR UPDATE);
    singles := cardinality(lease_ids);
    IF singles = cardinality(p_ids) THEN
        -- Not the shared row they were split from.
        RETURN;
    ELSIF p_exclusive THEN
        v_shared := ARRAY(SELECT l.lease_id FROM weaver.leases l WHERE l.token = ANY (v_tokens) AND l.is_shared::integer = 1
            ORDER BY l.lease_id FOR UPDATE);
        -- Checked under the lock: from now on a completion waits for this transaction.
        IF v_shared <> '{}' AND EXISTS (SELECT FROM unnest(p_ids) AS i (id) WHERE weaver.is_being_completed(i.id)) THEN
            RAISE EXCEPTION 'an open transaction completes one of the tasks' USING ERRCODE = '55P03';
        END IF;
    ELSE
        v_shared := ARRAY(SELECT l.lease_id FROM weaver.leases l WHERE l.token = ANY (v_tokens) AND l.is_shared::integer = 1
            ORDER BY l.lease_id FOR KEY SHARE);
    END IF;
    lease_ids := lease_ids || v_shared;
END
$$;

-- Those of these tasks whose lease row no other transaction has locked.
CREATE FUNCTION weaver.unlocked(p_ids bigint[], p_tokens uuid[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN QUERY SELECT l.first_id FROM weaver.leases l WHERE l.first_id = ANY (p_ids) AND NOT l.is_shared FOR UPDATE SKIP LOCKED;
    RETURN QUERY SELECT m.id FROM (SELECT l.ids, l.gone FROM weaver.leases l WHERE l.token = ANY (p_tokens) AND l.is_shared::integer = 1
        FOR UPDATE SKIP LOCKED) l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
    WHERE m.id = ANY (p_ids) AND m.id <> ALL (l.gone) AND NOT weaver.is_being_completed(m.id);
END
$$;

-- Attempts that end their task. Without `p_states` they all succeeded. `p_renewals`: lease expiry, which a renewal prevents.
CREATE FUNCTION weaver.finish(p_namespace text, p_ids bigint[], p_versions bigint[], p_epochs bigint[], p_tokens uuid[],
    p_renewals bigint[], p_states smallint[], p_causes text[], p_outcomes text[], p_errors text[], p_results bytea[],
    p_format smallint, OUT applied bigint[], OUT frees boolean) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off SET lock_timeout = '1s'
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_held record;
    v_new bigint[];
    v_seen bigint[] := '{}';
    v_is_single boolean := false;
BEGIN
    applied := '{}';
    IF p_renewals IS NOT NULL THEN
        PERFORM weaver.await_completions(p_ids);
    END IF;
    -- Once, unless a renewal moved members to another row after this call locked theirs: that row is then new.
    LOOP
        SELECT * INTO v_held FROM weaver.lock_leases(p_ids, p_tokens, p_renewals IS NOT NULL);
        v_new := ARRAY(SELECT l.id FROM unnest(v_held.lease_ids) AS l (id) WHERE l.id <> ALL (v_seen));
        EXIT WHEN cardinality(v_new) = 0;
        BEGIN
            applied := applied || weaver.end_held(p_namespace, v_new, p_ids, p_versions, p_epochs, p_tokens, p_renewals, p_states,
                p_causes, p_outcomes, p_errors, p_results, p_format, NULL);
        EXCEPTION WHEN unique_violation THEN
            -- Some have ended already. In a new statement their ends are visible.
            applied := applied || weaver.end_held(p_namespace, v_new, p_ids, p_versions, p_epochs, p_tokens, p_renewals, p_states,
                p_causes, p_outcomes, p_errors, p_results, p_format,
                ARRAY(SELECT e.id FROM weaver.ended e WHERE e.id = ANY (p_ids)));
        END;
        v_is_single := v_is_single OR v_held.singles > 0;
        EXIT WHEN cardinality(applied) = cardinality(p_ids);
        v_seen := v_seen || v_new;
    END LOOP;
    IF v_is_single THEN
        DELETE FROM weaver.leases l WHERE l.first_id = ANY (applied) AND NOT l.is_shared AND l.token = ANY (p_tokens);
    END IF;
    frees := cardinality(applied) > 0 AND (v_is_single
        OR EXISTS (SELECT FROM weaver.queues s WHERE s.namespace = p_namespace AND s.max_running IS NOT NULL));
END
$$;

CREATE FUNCTION weaver.end_held(p_namespace text, p_lease_ids bigint[], p_ids bigint[], p_versions bigint[], p_epochs bigint[],
    p_tokens uuid[], p_renewals bigint[], p_states smallint[], p_causes text[], p_outcomes text[], p_errors text[],
    p_results bytea[], p_format smallint, p_except bigint[]) RETURNS bigint[] LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_nestloop = off SET enable_mergejoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_applied bigint[];
BEGIN
    WITH ended AS (
        INSERT INTO weaver.ended (id, finished_at, started_at, first_started_at, ready_at, epoch, version, attempt, executions,
            renewals, failures, losses, state, namespace, queue, worker, cause, outcome, last_error, result)
        SELECT i.id, v_now, l.started_at, l.first_started_at, l.ready_at, l.epoch, l.version + 1, l.attempt,
            nullif(l.executions, l.attempt), nullif(l.renewals, 0), nullif(l.failures + {charged_failures(i.cause)}, 0),
            nullif(l.losses + {charged_losses(i.cause)}, 0), coalesce(i.state, {number(succeeded)}), p_namespace, l.queue, l.worker,
            i.cause, i.outcome, coalesce(i.error, l.last_error), i.result
        -- The members by a function in the SELECT list: as a lateral join, a nested loop, the planner would join them by another one.
        FROM (SELECT k.*, unnest(k.ids) AS id FROM weaver.leases k WHERE k.lease_id = ANY (p_lease_ids)) l
        JOIN unnest(p_ids, p_versions, p_epochs, p_tokens, p_renewals, p_states, p_causes, p_outcomes, p_errors, p_results)
            AS i (id, version, epoch, token, renewals, state, cause, outcome, error, result) ON i.id = l.id
        WHERE l.namespace = p_namespace AND l.state = {number(running)}
            AND l.version = i.version AND l.token = i.token AND coalesce(l.epoch, 0) = i.epoch
            AND (NOT l.is_shared OR l.id <> ALL (l.gone)) AND l.format BETWEEN 1 AND p_format
            AND (i.renewals IS NULL OR l.renewals = i.renewals) AND (p_except IS NULL OR l.id <> ALL (p_except))
        RETURNING id, version, state, queue
    ), counted AS (
        SELECT queue, state, count(*)::integer AS count FROM ended GROUP BY 1, 2
    ), deltas AS (
        SELECT queue, {number(running)} AS state, -sum(count)::integer AS delta FROM counted GROUP BY 1
        UNION ALL SELECT queue, state, count FROM counted
    ), moved AS (
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        SELECT v_now, t.ids, ARRAY[p_namespace], t.versions, t.states, c.namespaces, c.queues, c.states, c.deltas
        FROM (SELECT array_agg(id) AS ids, CASE WHEN min(version) = max(version) THEN ARRAY[min(version)]
                    ELSE array_agg(version) END AS versions,
                CASE WHEN min(state) = max(state) THEN ARRAY[min(state)] ELSE array_agg(state) END AS states FROM ended) t,
            (SELECT array_agg(p_namespace) AS namespaces, array_agg(queue) AS queues, array_agg(state) AS states,
                array_agg(delta) AS deltas FROM deltas) c
        WHERE t.ids IS NOT NULL
    )
    SELECT array_agg(id) INTO v_applied FROM ended;
    RETURN v_applied;
END
$$;

-- Completes a task in the caller's transaction, which may stay open: it delays neither the other members of a shared row nor renewals.
CREATE FUNCTION weaver.complete(p_namespace text, p_id bigint, p_version bigint, p_epoch bigint, p_token uuid, p_result bytea,
    p_format smallint) RETURNS boolean LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_held bigint[];
BEGIN
    -- Once, unless the task moves to another row meanwhile.
    FOR v_round IN 1 .. 3 LOOP
        v_held := ARRAY(SELECT l.lease_id FROM weaver.leases l WHERE l.first_id = p_id AND NOT l.is_shared AND l.token = p_token
            FOR UPDATE);
        IF v_held = '{}' THEN
            PERFORM pg_advisory_xact_lock(weaver.completion(p_id));
            PERFORM weaver.await_moves(p_token);
            v_held := ARRAY(SELECT l.lease_id FROM weaver.leases l WHERE l.token = p_token AND l.is_shared::integer = 1
                AND p_id = ANY (l.ids) AND p_id <> ALL (l.gone));
        END IF;
        IF weaver.end_held(p_namespace, v_held, ARRAY[p_id], ARRAY[p_version], ARRAY[p_epoch], ARRAY[p_token], NULL, NULL, NULL,
                NULL, NULL, ARRAY[p_result], p_format, NULL) IS NOT NULL THEN
            DELETE FROM weaver.leases l WHERE l.first_id = p_id AND NOT l.is_shared AND l.token = p_token;
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
EXCEPTION WHEN unique_violation THEN
    -- It has ended already.
    RETURN false;
END
$$;

-- Waits until no transaction moves members of these shared rows. The locks are returned at once, by the rollback of the block.
CREATE FUNCTION weaver.await_moves(p_token uuid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM FROM weaver.leases l WHERE l.token = p_token AND l.is_shared::integer = 1 ORDER BY l.lease_id FOR KEY SHARE;
    RAISE EXCEPTION 'unlock' USING ERRCODE = 'WV001';
EXCEPTION WHEN SQLSTATE 'WV001' THEN
    NULL;
END
$$;

-- Attempts that do not end their task: failed, timed out, lost by lease expiry, released, snoozed. It waits again.
CREATE FUNCTION weaver.retry(p_namespace text, p_ids bigint[], p_versions bigint[], p_epochs bigint[], p_tokens uuid[],
    p_renewals bigint[], p_causes text[], p_outcomes text[], p_delays_us bigint[], p_errors text[], p_format smallint)
RETURNS bigint[] LANGUAGE plpgsql SET lock_timeout = '1s' AS $$
DECLARE
    v_held bigint[];
    v_seen bigint[] := '{}';
    v_applied bigint[] := '{}';
BEGIN
    PERFORM weaver.await_completions(p_ids);
    -- As in `finish`.
    LOOP
        v_held := ARRAY(SELECT l.id FROM unnest((weaver.lock_leases(p_ids, p_tokens, true)).lease_ids) AS l (id)
            WHERE l.id <> ALL (v_seen));
        EXIT WHEN cardinality(v_held) = 0;
        v_applied := v_applied || weaver.retry_held(p_namespace, v_held, p_ids, p_versions, p_epochs, p_tokens, p_renewals,
            p_causes, p_outcomes, p_delays_us, p_errors, p_format);
        EXIT WHEN cardinality(v_applied) = cardinality(p_ids);
        v_seen := v_seen || v_held;
    END LOOP;
    RETURN nullif(v_applied, '{}');
END
$$;

CREATE FUNCTION weaver.retry_held(p_namespace text, p_lease_ids bigint[], p_ids bigint[], p_versions bigint[], p_epochs bigint[],
    p_tokens uuid[], p_renewals bigint[], p_causes text[], p_outcomes text[], p_delays_us bigint[], p_errors text[],
    p_format smallint) RETURNS bigint[] LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_applied bigint[];
BEGIN
    WITH held AS (
        SELECT m.id, l.lease_id, l.is_shared, l.version, l.attempt, l.executions, l.renewals, l.worker, l.started_at,
            coalesce(l.first_started_at, l.started_at) AS first_started_at, l.queue, i.cause, i.outcome, i.error,
            coalesce(i.error, l.last_error) AS last_error, weaver.later(v_now, i.delay_us) AS ready_at, l.format,
            l.failures + {charged_failures(i.cause)} AS failures, l.losses + {charged_losses(i.cause)} AS losses
        FROM unnest(p_ids, p_versions, p_epochs, p_tokens, p_renewals, p_causes, p_outcomes, p_delays_us, p_errors)
            AS i (id, version, epoch, token, renewals, cause, outcome, delay_us, error)
        JOIN weaver.leases l ON l.lease_id = ANY (p_lease_ids) AND l.token = i.token AND i.id BETWEEN l.first_id AND l.last_id
        CROSS JOIN LATERAL (SELECT i.id WHERE i.id = ANY (l.ids)) AS m (id)
        WHERE l.namespace = p_namespace AND l.state = {number(running)} AND l.version = i.version
            AND coalesce(l.epoch, 0) = i.epoch AND m.id <> ALL (l.gone) AND l.format BETWEEN 1 AND p_format
            AND (i.renewals IS NULL OR l.renewals = i.renewals)
            AND NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id)
    ), closed AS (
        INSERT INTO weaver.closed_attempts
        SELECT p_namespace, id, attempt, worker, version, started_at, v_now, outcome, error FROM held
        -- A row written by another program must not fail the batch.
        ON CONFLICT DO NOTHING
    ), waiting AS (
        INSERT INTO weaver.ready (id, ready_at, expires_at, updated_at, first_started_at, version, attempt, executions, renewals,
            failures, losses, max_losses, priority, dispatch, format, state, namespace, queue, task_type, serial_key, cause,
            last_error)
        SELECT h.id, h.ready_at, s.expires_at, v_now, h.first_started_at, h.version + 1, h.attempt, h.executions, h.renewals,
            h.failures, h.losses, s.max_losses, s.priority, coalesce(s.dispatch, 0), h.format, {number(retry_scheduled)}, s.namespace,
            s.queue,
            s.task_type, s.serial_key, h.cause, h.last_error
        FROM held h JOIN weaver.tasks s ON s.id = h.id
        RETURNING id, version, queue
    ), released AS (
        DELETE FROM weaver.leases l USING held h WHERE l.lease_id = h.lease_id AND NOT h.is_shared
    ), counted AS (
        SELECT queue, count(*)::integer AS count FROM waiting GROUP BY 1
    ), deltas AS (
        SELECT queue, {number(running)} AS state, -count AS delta FROM counted
        UNION ALL SELECT queue, {number(retry_scheduled)}, count FROM counted
    ), moved AS (
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        SELECT v_now, t.ids, ARRAY[p_namespace], t.versions, ARRAY[{number(retry_scheduled)}], c.namespaces, c.queues, c.states,
            c.deltas
        FROM (SELECT array_agg(id) AS ids, array_agg(version) AS versions FROM waiting) t,
            (SELECT array_agg(p_namespace) AS namespaces, array_agg(queue) AS queues, array_agg(state) AS states,
                array_agg(delta) AS deltas FROM deltas) c
        WHERE t.ids IS NOT NULL
    )
    SELECT array_agg(id) INTO v_applied FROM waiting;
    PERFORM weaver.leave(p_lease_ids, v_applied);
    RETURN v_applied;
END
$$;

-- Removes members from shared rows that the caller has locked; a row without members is deleted.
CREATE FUNCTION weaver.leave(p_lease_ids bigint[], p_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF p_ids IS NULL THEN
        RETURN;
    END IF;
    UPDATE weaver.leases l
    SET gone = l.gone || ARRAY(SELECT m.id FROM unnest(l.ids) AS m (id) WHERE m.id = ANY (p_ids) AND m.id <> ALL (l.gone))
    WHERE l.lease_id = ANY (p_lease_ids) AND l.is_shared AND l.ids && p_ids;
    DELETE FROM weaver.leases l
    WHERE l.lease_id = ANY (p_lease_ids) AND l.is_shared AND cardinality(l.gone) = cardinality(l.ids);
END
$$;
