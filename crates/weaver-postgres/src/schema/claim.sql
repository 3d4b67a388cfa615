-- Leasing: the one transition that the store makes itself, in one step with the choice of the run. `lifecycle/lease.rs` defines
-- it, and the model test holds this file to it. `pick.sql` chooses with SKIP LOCKED, `gate.sql` decides which of those may start.

-- Records the starts in `moves`: the tasks are locked, so their new versions are known.
CREATE FUNCTION weaver.record_starts(p_namespace text, p_taken weaver.picked, p_now timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF p_taken.queues[1] = ALL (p_taken.queues) AND p_taken.froms[1] = ALL (p_taken.froms) THEN
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        VALUES (p_now, p_taken.ids, ARRAY[p_namespace],
            CASE WHEN p_taken.versions[1] = ALL (p_taken.versions) THEN p_taken.versions[1:1]
                ELSE p_taken.versions END,
            ARRAY[{number(running)}], ARRAY[p_namespace, p_namespace],
            ARRAY[p_taken.queues[1], p_taken.queues[1]], ARRAY[p_taken.froms[1], {number(running)}],
            ARRAY[-cardinality(p_taken.ids), cardinality(p_taken.ids)]);
        RETURN;
    END IF;
    WITH counted AS (
        SELECT queue, from_state, count(*)::integer AS count
        FROM unnest(p_taken.queues, p_taken.froms) AS t (queue, from_state) GROUP BY 1, 2
    ), deltas AS (
        SELECT queue, from_state AS state, -count AS delta FROM counted
        UNION ALL SELECT queue, {number(running)}, sum(count)::integer FROM counted GROUP BY 1
    )
    INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
        count_deltas)
    SELECT p_now, p_taken.ids, ARRAY[p_namespace], p_taken.versions, ARRAY[{number(running)}], array_agg(p_namespace),
        array_agg(queue), array_agg(state), array_agg(delta)
    FROM deltas;
END
$$;

CREATE FUNCTION weaver.is_held(p_token uuid) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (SELECT FROM weaver.leases l WHERE l.token = p_token);
END
$$;

-- What a lease call with this token was granted and is still held.
CREATE FUNCTION weaver.held_by(p_token uuid) RETURNS SETOF weaver.all_job_runs LANGUAGE plpgsql AS $$
BEGIN
    IF weaver.is_held(p_token) THEN
        RETURN QUERY SELECT r.* FROM weaver.leases l CROSS JOIN LATERAL unnest(l.ids) AS m (id)
        CROSS JOIN LATERAL (SELECT * FROM weaver.all_job_runs a WHERE a.id = m.id) r
        WHERE l.token = p_token AND l.state = {number(running)} AND r.lease_token = p_token AND m.id <> ALL (l.gone);
    END IF;
END
$$;

-- Moves the tasks that `claim` has locked from `ready` to `leases` and returns them as they are then. New tasks of a queue without a
-- limit share a row; every other task gets its own. A function of its own, called beside `claim`: each function that returns the rows
-- of another copies them.
CREATE FUNCTION weaver.start(p_namespace text, p_worker text, p_token uuid, p_ttl_us bigint, p_now timestamptz,
    p_tids tid[], p_limited text[]) RETURNS SETOF weaver.all_job_runs LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_expires_at timestamptz := weaver.later(p_now, p_ttl_us);
BEGIN
    IF p_tids IS NULL THEN
        RETURN QUERY SELECT * FROM weaver.held_by(p_token);
        RETURN;
    END IF;
    RETURN QUERY
    WITH taken AS (
        DELETE FROM weaver.ready r WHERE r.ctid = ANY (p_tids)
        RETURNING r.*, r.version = 1 AND r.serial_key IS NULL AND NOT {is_fragile(r.losses, r.max_losses)}
            AND (p_limited IS NULL OR r.queue <> ALL (p_limited)) AS is_new
    ), shared AS (
        INSERT INTO weaver.leases (first_id, last_id, token, started_at, expires_at, ttl_us, version, attempt, executions, renewals,
            failures, losses, format, state, is_shared, namespace, queue, worker, ids)
        SELECT min(t.id), max(t.id), p_token, p_now, v_expires_at, p_ttl_us, 2, 1, 1, 0, 0, 0, t.format, {number(running)},
            count(*) > 1, p_namespace, t.queue, p_worker, array_agg(t.id)
        FROM taken t WHERE t.is_new GROUP BY t.queue, t.format
    ), single AS (
        INSERT INTO weaver.leases (first_id, last_id, token, started_at, expires_at, ttl_us, ready_at, first_started_at, version,
            attempt, executions, renewals, failures, losses, format, state, is_shared, namespace, queue, worker, serial_key,
            last_error, ids)
        SELECT t.id, t.id, p_token, p_now, v_expires_at, p_ttl_us, t.ready_at, coalesce(t.first_started_at, p_now),
            t.version + 1, t.attempt + 1, t.executions + 1, t.renewals, t.failures, t.losses, t.format, {number(running)}, false,
            p_namespace, t.queue, p_worker, t.serial_key, t.last_error, ARRAY[t.id]
        FROM taken t WHERE NOT t.is_new
    ), restarted AS (
        DELETE FROM weaver.progress p USING taken t WHERE t.attempt > 0 AND p.id = t.id
    )
    SELECT s.id, s.created_at, t.ready_at, s.retry_of, s.scheduled_for, s.expires_at, s.timeout_us, t.renewals, s.max_attempts,
        s.max_losses, t.failures, t.losses, s.priority, s.run_at IS NOT NULL, p_now, coalesce(t.first_started_at, p_now),
        NULL::timestamptz, p_now, v_expires_at, p_ttl_us, NULL::bigint, NULL::timestamptz, NULL::bigint, NULL::timestamptz,
        t.version + 1, t.attempt + 1, t.executions + 1, s.format, NULL::real, p_token, 'RUNNING', NULL::text, NULL::text,
        p_worker, 'NONE', s.namespace, s.queue, s.task_type, s.serial_key, s.idempotency_key, s.job_definition_id,
        s.task_group_id, s.session_id, s.content_type, s.labels, s.retry, s.trace, NULL::text, t.last_error, NULL::text,
        NULL::bytea, s.payload, s.dispatch
    FROM taken t JOIN weaver.tasks s ON s.id = t.id;
END
$$;

-- Deletes shared rows whose members have all left, of leases that the caller believes to be over. A row that another statement uses is
-- left for later (`prune`).
CREATE FUNCTION weaver.drop_leases(p_tokens uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    v_ids bigint[] := ARRAY(SELECT l.lease_id FROM weaver.leases l WHERE l.token = ANY (p_tokens) AND l.is_shared::integer = 1
        FOR UPDATE SKIP LOCKED);
BEGIN
    -- A new statement: it sees every end that was committed before the rows were locked.
    PERFORM weaver.drop_empty(v_ids);
END
$$;

-- Deletes those of these shared rows, which the caller has locked, whose members have all left.
CREATE FUNCTION weaver.drop_empty(p_lease_ids bigint[]) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM weaver.leases l WHERE l.lease_id = ANY (p_lease_ids) AND CASE
        -- Members without gaps are counted by one scan of their range, a tenth of the look-ups one by one.
        WHEN l.gone = '{}' AND l.last_id - l.first_id = cardinality(l.ids) - 1
            AND cardinality(l.ids) = (SELECT count(*) FROM weaver.ended e WHERE e.id BETWEEN l.first_id AND l.last_id) THEN true
        ELSE NOT EXISTS (SELECT FROM unnest(l.ids) AS m (id)
            WHERE m.id <> ALL (l.gone) AND NOT EXISTS (SELECT FROM weaver.ended e WHERE e.id = m.id)) END;
END
$$;

-- Skips tasks of a format the caller does not know (`p_format`: the newest it knows) and those it found unreadable (`p_skip`;
-- usually NULL). `p_over`: tokens of earlier leases of the caller that are over. Locks what is to be started by `start`: NULL if there is
-- nothing, or if the call is a repeated one.
-- With a generic plan, made once per connection: planning each call anew takes longer than the call.
CREATE FUNCTION weaver.claim(p_namespace text, p_queues text[], p_types text[], p_token uuid, p_max integer, p_slots integer,
    p_format smallint, p_skip bigint[], p_over uuid[], p_dispatch smallint, OUT now timestamptz, OUT tids tid[], OUT limited text[])
    LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz;
    v_open record;
    v_gated record;
    -- Before the first pick: the start of the order, with everything still to be scanned.
    v_picked weaver.picked := ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, 0, timestamptz '-infinity', 0, true);
    v_taken weaver.picked;
    v_left integer := p_max;
    v_slots integer := p_slots;
BEGIN
    -- A repeated call (same token) waits for the first and then returns the same leases.
    PERFORM pg_advisory_xact_lock(hashtextextended('weaver.lease ' || p_token::text, 11));
    IF weaver.is_held(p_token) THEN
        RETURN;
    ELSIF p_over IS NOT NULL THEN
        PERFORM weaver.drop_leases(p_over);
    END IF;
    SELECT * INTO v_open FROM weaver.open_queues(p_namespace, p_queues, p_dispatch);
    v_now := weaver.clock();
    WHILE v_left > 0 AND cardinality(v_open.queues) > 0 AND v_open.source_queues IS NOT NULL AND v_picked.is_cut LOOP
        IF cardinality(v_open.source_queues) = 1 THEN
            v_picked := weaver.pick_from_one(p_namespace, v_open.queues[1], v_open.source_dispatches[1], p_types, v_slots,
                p_format, p_skip, v_now,
                v_left, v_picked.last_priority, v_picked.last_ready_at, v_picked.last_id);
        ELSE
            v_picked := weaver.pick_from_several(p_namespace, v_open.queues, v_open.source_queues, v_open.source_dispatches,
                p_types, v_slots, p_format, p_skip, v_now,
                v_left, v_picked.last_priority, v_picked.last_ready_at, v_picked.last_id);
        END IF;
        IF v_open.limited IS NOT NULL OR v_picked.is_special THEN
            SELECT * INTO v_gated FROM weaver.gate(p_namespace, v_picked, v_now, v_open.limited, v_open.maxima,
                v_open.queues, v_open.occupied, v_slots);
            v_open.queues := v_gated.queues;
            v_open.occupied := v_gated.occupied;
            v_slots := v_gated.slots;
            v_picked := v_gated.passed;
        END IF;
        v_taken.tids := v_taken.tids || v_picked.tids;
        v_taken.ids := v_taken.ids || v_picked.ids;
        v_taken.versions := v_taken.versions || v_picked.versions;
        v_taken.queues := v_taken.queues || v_picked.queues;
        v_taken.froms := v_taken.froms || v_picked.froms;
        v_left := v_left - coalesce(cardinality(v_picked.ids), 0);
    END LOOP;
    IF v_taken.ids IS NULL THEN
        RETURN;
    END IF;
    -- The clock is read again: a predecessor may have ended, and freed its serial key or slot, after the first reading. A start
    -- must not be stamped before its predecessor's end.
    now := weaver.clock();
    tids := v_taken.tids;
    limited := v_open.limited;
    PERFORM weaver.record_starts(p_namespace, v_taken, now);
END
$$;
