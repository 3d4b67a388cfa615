-- Leasing: the one transition that the store makes itself, in one step with the choice of the run. `lifecycle/lease.rs` defines
-- it, and the model test holds this file to it. `pick.sql` chooses with SKIP LOCKED, `gate.sql` decides which of those may start.

-- Records the starts in `moves` before the update: the runs are locked, so their new versions are known.
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

-- Skips runs of a format the caller does not know (`p_format`: the newest it knows) and those it found unreadable (`p_skip`;
-- usually NULL).
-- With a generic plan, made once per connection: planning each call anew takes longer than the call.
CREATE FUNCTION weaver.claim(p_namespace text, p_queues text[], p_types text[], p_worker text, p_token uuid,
    p_ttl_us bigint, p_max integer, p_slots integer, p_format smallint, p_skip bigint[])
    RETURNS SETOF weaver.job_runs LANGUAGE plpgsql
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
    v_expires_at timestamptz;
BEGIN
    -- A repeated call (same token) waits for the first and then returns the same leases.
    PERFORM pg_advisory_xact_lock(hashtextextended('weaver.lease ' || p_token::text, 11));
    IF EXISTS (SELECT FROM weaver.job_runs r WHERE r.lease_token = p_token
            AND (r.state = 'RUNNING' OR r.namespace <> p_namespace OR r.assigned_worker_id <> p_worker)) THEN
        RETURN QUERY SELECT r.* FROM weaver.job_runs r WHERE r.lease_token = p_token;
        RETURN;
    END IF;
    SELECT * INTO v_open FROM weaver.open_queues(p_namespace, p_queues);
    v_now := weaver.clock();
    WHILE v_left > 0 AND cardinality(v_open.queues) > 0 AND v_picked.is_cut LOOP
        IF cardinality(v_open.queues) = 1 THEN
            v_picked := weaver.pick_from_one(p_namespace, v_open.queues[1], p_types, v_slots, p_format, p_skip, v_now,
                v_left, v_picked.last_priority, v_picked.last_ready_at, v_picked.last_id);
        ELSE
            v_picked := weaver.pick_from_several(p_namespace, v_open.queues, p_types, v_slots, p_format, p_skip, v_now,
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
    v_now := weaver.clock();
    v_expires_at := weaver.later(v_now, p_ttl_us);
    PERFORM weaver.record_starts(p_namespace, v_taken, v_now);
    RETURN QUERY
    UPDATE weaver.job_runs r
    SET state = 'RUNNING', cause = NULL, version = r.version + 1, updated_at = v_now, attempt = r.attempt + 1,
        executions = r.executions + 1, first_started_at = coalesce(r.first_started_at, v_now),
        progress_fraction = NULL, progress_message = NULL, assigned_worker_id = p_worker, lease_token = p_token,
        lease_started_at = v_now, lease_expires_at = v_expires_at, lease_ttl_us = p_ttl_us
    WHERE r.ctid = ANY (v_taken.tids)
    RETURNING r.*;
END
$$;
