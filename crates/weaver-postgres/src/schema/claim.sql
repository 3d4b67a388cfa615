-- Leasing: the one move the store makes itself. Choosing a run and taking it are one step; `lifecycle/lease.rs` says what
-- the move does, and the model test holds this file to it.

-- How many slots of a queue are taken. Few runs run at once: all of them are looked at.
CREATE FUNCTION weaver.occupied(p_namespace text, p_queue text) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM weaver.job_runs r
            WHERE r.lease_token IS NOT NULL AND r.namespace = p_namespace AND r.queue = p_queue)
        + (SELECT count(*) FROM weaver.job_runs r
            WHERE r.state IN ('ASSIGNED', 'ORPHANED') AND r.namespace = p_namespace AND r.queue = p_queue);
END
$$;

-- Whether a queue with these settings hands out runs. One whose limit is none that Weaver writes counts as paused; a queue
-- without settings is open.
CREATE FUNCTION weaver.is_open(p_paused boolean, p_max_running bigint) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT p_paused IS NOT TRUE AND (p_max_running IS NULL OR p_max_running BETWEEN 1 AND 4294967295)
$$;

-- Whether another run of its serial key goes before this one: the one that has begun, or else the lowest id that is due.
CREATE FUNCTION weaver.is_gated(p_namespace text, p_key text, p_id bigint, p_executions integer, p_now timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    RETURN EXISTS (
        SELECT FROM weaver.job_runs k
        WHERE k.namespace = p_namespace AND k.serial_key = p_key AND k.id <> p_id
            AND (k.executions > 0 OR k.state NOT IN ('PENDING', 'RETRY_SCHEDULED')
                OR (p_executions = 0 AND k.id < p_id
                    AND weaver.is_due(k.state, k.ready_at, k.expires_at, k.executions, p_now))));
END
$$;

-- Takes the gate of a serial key to the end of the transaction and then, in a snapshot of its own, looks whether the run
-- may pass. Looking without the gate let two runs of one key start.
CREATE FUNCTION weaver.passes_gate(p_namespace text, p_key text, p_id bigint, p_executions integer, p_now timestamptz)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('weaver.gate ' || p_namespace || E'\x01' || p_key, 11)) THEN
        RETURN false;
    END IF;
    RETURN NOT weaver.is_gated(p_namespace, p_key, p_id, p_executions, p_now);
END
$$;

-- Runs of a format the caller does not know (`p_format`: the newest it knows), and those it found unreadable (`p_skip`;
-- usually none), are passed over.
-- A plan for any values, made once per connection: the planner would rather plan anew for each call, which takes longer than
-- the call.
CREATE FUNCTION weaver.claim(p_namespace text, p_queues text[], p_types text[], p_worker text, p_token uuid,
    p_ttl_us bigint, p_max integer, p_slots integer, p_format smallint, p_skip bigint[])
    RETURNS SETOF weaver.job_runs LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz;
    v_open text[];
    v_limited text[];
    v_room bigint[];
    v_at integer;
    v_left integer := p_max;
    v_slots integer := p_slots;
    -- The place in the order of G7 up to which everything was looked at.
    v_priority integer := 0;
    v_ready_at timestamptz := '-infinity';
    v_id bigint := 0;
    v_window bigint[];
    v_tids tid[];
    v_ids bigint[];
    v_versions integer[];
    v_queues text[];
    v_froms integer[];
    v_keys text[];
    v_fragile boolean[];
    v_begun integer[];
    v_special boolean;
    v_full boolean;
    v_ok boolean;
    v_expires_at timestamptz;
    v_taken tid[] := '{}';
    v_taken_ids bigint[] := '{}';
    v_taken_versions integer[] := '{}';
    v_taken_queues text[] := '{}';
    v_taken_froms integer[] := '{}';
BEGIN
    -- A repeated call waits for the first and then finds what that was granted.
    PERFORM pg_advisory_xact_lock(hashtextextended('weaver.lease ' || p_token::text, 11));
    IF EXISTS (SELECT FROM weaver.job_runs r WHERE r.lease_token = p_token
            AND (r.state = 'RUNNING' OR r.namespace <> p_namespace OR r.assigned_worker_id <> p_worker)) THEN
        RETURN QUERY SELECT r.* FROM weaver.job_runs r WHERE r.lease_token = p_token;
        RETURN;
    END IF;
    SELECT array_agg(q.name) FILTER (WHERE weaver.is_open(s.paused, s.max_running)),
        array_agg(q.name ORDER BY q.name)
            FILTER (WHERE weaver.is_open(s.paused, s.max_running) AND s.max_running IS NOT NULL)
    INTO v_open, v_limited
    FROM unnest(p_queues) AS q (name)
    LEFT JOIN weaver.queues s ON s.namespace = p_namespace AND s.queue = q.name;
    IF v_limited IS NOT NULL THEN
        -- One after the other through a limited queue. Settings may have changed while we waited.
        FOR v_at IN 1 .. cardinality(v_limited) LOOP
            v_room[v_at] := (
                SELECT CASE WHEN weaver.is_open(s.paused, s.max_running) THEN s.max_running ELSE 0 END
                FROM weaver.queues s
                WHERE s.namespace = p_namespace AND s.queue = v_limited[v_at] FOR NO KEY UPDATE);
        END LOOP;
        FOR v_at IN 1 .. cardinality(v_limited) LOOP
            v_room[v_at] := v_room[v_at] - weaver.occupied(p_namespace, v_limited[v_at]);
            IF v_room[v_at] <= 0 THEN
                v_open := array_remove(v_open, v_limited[v_at]);
            END IF;
        END LOOP;
    END IF;
    v_now := weaver.clock();
    WHILE v_left > 0 AND cardinality(v_open) > 0 LOOP
        IF cardinality(v_open) = 1 THEN
            SELECT array_agg(c.tid), array_agg(c.id), array_agg(c.version), array_agg(c.from_state),
                array_agg(c.serial_key), array_agg(c.fragile), array_agg(c.executions),
                bool_or(c.serial_key IS NOT NULL OR c.fragile),
                (array_agg(c.priority))[count(*)], (array_agg(c.ready_at))[count(*)], count(*) = v_left
            INTO v_tids, v_ids, v_versions, v_froms, v_keys, v_fragile, v_begun, v_special, v_priority, v_ready_at,
                v_full
            FROM (
                SELECT d.* FROM generate_series(v_priority, 9) AS p (number)
                CROSS JOIN LATERAL (
                    SELECT r.ctid AS tid, r.id, r.version + 1 AS version,
                        weaver.task_state(r.state, r.scheduled)::integer AS from_state, r.priority, r.ready_at,
                        r.serial_key, r.executions, (r.losses > 0 OR r.max_losses = 0) AS fragile
                    FROM weaver.job_runs r
                    WHERE r.namespace = p_namespace AND r.queue = v_open[1] AND r.priority = p.number::smallint
                        AND r.state IN ('PENDING', 'RETRY_SCHEDULED') AND r.ready_at <= v_now
                        AND (p.number > v_priority OR (r.ready_at, r.id) > (v_ready_at, v_id))
                        AND (r.expires_at IS NULL OR r.expires_at > v_now OR r.executions > 0)
                        AND (p_types IS NULL OR r.task_type = ANY (p_types))
                        AND (v_slots > 0 OR NOT (r.losses > 0 OR r.max_losses = 0))
                        AND r.format BETWEEN 1 AND p_format AND (p_skip IS NULL OR r.id <> ALL (p_skip))
                        AND (r.serial_key IS NULL
                            OR NOT weaver.is_gated(p_namespace, r.serial_key, r.id, r.executions, v_now))
                    ORDER BY r.ready_at, r.id
                    LIMIT v_left
                    FOR NO KEY UPDATE OF r SKIP LOCKED
                ) d
                LIMIT v_left
            ) c;
            v_queues := array_fill(v_open[1], ARRAY[coalesce(cardinality(v_ids), 0)]);
            v_id := v_ids[cardinality(v_ids)];
        ELSE
            -- The first of several queues together; locked when they are known.
            SELECT array_agg(c.id), (array_agg(c.priority))[count(*)], (array_agg(c.ready_at))[count(*)],
                count(*) = v_left
            INTO v_window, v_priority, v_ready_at, v_full
            FROM (
                SELECT m.* FROM generate_series(v_priority, 9) AS p (number)
                CROSS JOIN LATERAL (
                    SELECT d.* FROM unnest(v_open) AS q (name)
                    CROSS JOIN LATERAL (
                        SELECT r.id, r.priority, r.ready_at
                        FROM weaver.job_runs r
                        WHERE r.namespace = p_namespace AND r.queue = q.name AND r.priority = p.number::smallint
                            AND r.state IN ('PENDING', 'RETRY_SCHEDULED') AND r.ready_at <= v_now
                            AND (p.number > v_priority OR (r.ready_at, r.id) > (v_ready_at, v_id))
                            AND (r.expires_at IS NULL OR r.expires_at > v_now OR r.executions > 0)
                            AND (p_types IS NULL OR r.task_type = ANY (p_types))
                            AND (v_slots > 0 OR NOT (r.losses > 0 OR r.max_losses = 0))
                            AND r.format BETWEEN 1 AND p_format AND (p_skip IS NULL OR r.id <> ALL (p_skip))
                            AND (r.serial_key IS NULL
                                OR NOT weaver.is_gated(p_namespace, r.serial_key, r.id, r.executions, v_now))
                        ORDER BY r.ready_at, r.id
                        LIMIT v_left
                    ) d
                    ORDER BY d.ready_at, d.id
                    LIMIT v_left
                ) m
                LIMIT v_left
            ) c;
            v_id := v_window[cardinality(v_window)];
            SELECT array_agg(c.tid), array_agg(c.id), array_agg(c.version), array_agg(c.queue),
                array_agg(c.from_state), array_agg(c.serial_key), array_agg(c.fragile), array_agg(c.executions),
                bool_or(c.serial_key IS NOT NULL OR c.fragile)
            INTO v_tids, v_ids, v_versions, v_queues, v_froms, v_keys, v_fragile, v_begun, v_special
            FROM (
                SELECT r.ctid AS tid, r.id, r.version + 1 AS version, r.queue,
                    weaver.task_state(r.state, r.scheduled)::integer AS from_state, r.serial_key, r.executions, (r.losses > 0 OR r.max_losses = 0) AS fragile
                FROM unnest(v_window) WITH ORDINALITY AS i (id, place)
                JOIN weaver.job_runs r ON r.namespace = p_namespace AND r.id = i.id
                WHERE weaver.is_due(r.state, r.ready_at, r.expires_at, r.executions, v_now)
                ORDER BY i.place
                FOR NO KEY UPDATE OF r SKIP LOCKED
            ) c;
        END IF;
        EXIT WHEN v_id IS NULL;
        IF v_limited IS NULL AND v_special IS NOT TRUE THEN
            v_taken := v_taken || v_tids;
            v_taken_ids := v_taken_ids || v_ids;
            v_taken_versions := v_taken_versions || v_versions;
            v_taken_queues := v_taken_queues || v_queues;
            v_taken_froms := v_taken_froms || v_froms;
            v_left := v_left - coalesce(cardinality(v_tids), 0);
        ELSE
            FOR v_at IN 1 .. coalesce(cardinality(v_ids), 0) LOOP
                v_ok := v_left > 0 AND (v_slots > 0 OR NOT v_fragile[v_at]) AND v_queues[v_at] = ANY (v_open);
                IF v_ok AND v_keys[v_at] IS NOT NULL THEN
                    v_ok := weaver.passes_gate(p_namespace, v_keys[v_at], v_ids[v_at], v_begun[v_at], v_now);
                END IF;
                IF v_ok THEN
                    v_taken := v_taken || v_tids[v_at];
                    v_taken_ids := v_taken_ids || v_ids[v_at];
                    v_taken_versions := v_taken_versions || v_versions[v_at];
                    v_taken_queues := v_taken_queues || v_queues[v_at];
                    v_taken_froms := v_taken_froms || v_froms[v_at];
                    v_left := v_left - 1;
                    v_slots := v_slots - v_fragile[v_at]::integer;
                    IF v_queues[v_at] = ANY (v_limited) THEN
                        v_room[array_position(v_limited, v_queues[v_at])] :=
                            v_room[array_position(v_limited, v_queues[v_at])] - 1;
                        IF v_room[array_position(v_limited, v_queues[v_at])] <= 0 THEN
                            v_open := array_remove(v_open, v_queues[v_at]);
                        END IF;
                    END IF;
                END IF;
            END LOOP;
        END IF;
        EXIT WHEN NOT v_full;
    END LOOP;
    IF cardinality(v_taken) = 0 THEN
        RETURN;
    END IF;
    -- A run before these may have ended after the clock was read and before they were chosen (its key or its slot was seen
    -- free): read after that, no start is stamped before its predecessor's end.
    v_now := weaver.clock();
    -- What was chosen is locked: what becomes of it is known before it is written.
    IF v_taken_queues[1] = ALL (v_taken_queues) AND v_taken_froms[1] = ALL (v_taken_froms) THEN
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        VALUES (v_now, v_taken_ids, ARRAY[p_namespace],
            CASE WHEN v_taken_versions[1] = ALL (v_taken_versions) THEN v_taken_versions[1:1] ELSE v_taken_versions END,
            ARRAY[4], ARRAY[p_namespace, p_namespace],
            ARRAY[v_taken_queues[1], v_taken_queues[1]], ARRAY[v_taken_froms[1], 4],
            ARRAY[-cardinality(v_taken_ids), cardinality(v_taken_ids)]);
    ELSE
        WITH counted AS (
            SELECT queue, from_state, count(*)::integer AS count
            FROM unnest(v_taken_queues, v_taken_froms) AS t (queue, from_state) GROUP BY 1, 2
        ), deltas AS (
            SELECT queue, from_state AS state, -count AS delta FROM counted
            UNION ALL SELECT queue, 4, sum(count)::integer FROM counted GROUP BY 1
        )
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        SELECT v_now, v_taken_ids, ARRAY[p_namespace], v_taken_versions, ARRAY[4], array_agg(p_namespace),
            array_agg(queue), array_agg(state), array_agg(delta)
        FROM deltas;
    END IF;
    v_expires_at := weaver.later(v_now, p_ttl_us);
    RETURN QUERY
    UPDATE weaver.job_runs r
    SET state = 'RUNNING', cause = NULL, version = r.version + 1, updated_at = v_now, attempt = r.attempt + 1,
        executions = r.executions + 1, first_started_at = coalesce(r.first_started_at, v_now),
        progress_fraction = NULL, progress_message = NULL, assigned_worker_id = p_worker, lease_token = p_token,
        lease_started_at = v_now, lease_expires_at = v_expires_at, lease_ttl_us = p_ttl_us
    WHERE r.ctid = ANY (v_taken)
    RETURNING r.*;
END
$$;

-- What a waiting worker wants to know: whether there is anything for it, and if not, when the next run becomes due.
-- `ready_in_us` is null if nothing waits for a time.
CREATE FUNCTION weaver.look(p_namespace text, p_queues text[], p_types text[], p_fragile boolean,
    p_format smallint, p_skip bigint[], OUT ready boolean, OUT ready_in_us bigint) LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off SET jit = off
    SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_open text[];
BEGIN
    SELECT array_agg(q.name) INTO v_open
    FROM unnest(p_queues) AS q (name)
    LEFT JOIN weaver.queues s ON s.namespace = p_namespace AND s.queue = q.name
    WHERE weaver.is_open(s.paused, s.max_running)
        AND (s.max_running IS NULL OR s.max_running > weaver.occupied(p_namespace, q.name));
    ready := EXISTS (
        SELECT FROM unnest(v_open) AS q (name)
        CROSS JOIN generate_series(0, 9) AS p (number)
        CROSS JOIN LATERAL (
            SELECT FROM weaver.job_runs r
            WHERE r.namespace = p_namespace AND r.queue = q.name AND r.priority = p.number::smallint
                AND r.state IN ('PENDING', 'RETRY_SCHEDULED') AND r.ready_at <= v_now
                AND (r.expires_at IS NULL OR r.expires_at > v_now OR r.executions > 0)
                AND (p_types IS NULL OR r.task_type = ANY (p_types))
                AND (p_fragile OR NOT (r.losses > 0 OR r.max_losses = 0))
                AND r.format BETWEEN 1 AND p_format AND (p_skip IS NULL OR r.id <> ALL (p_skip))
                AND (r.serial_key IS NULL
                    OR NOT weaver.is_gated(p_namespace, r.serial_key, r.id, r.executions, v_now))
            ORDER BY r.ready_at, r.id
            LIMIT 1
        ) d);
    IF ready THEN
        RETURN;
    END IF;
    SELECT weaver.micros(min(d.ready_at)) - weaver.micros(v_now) INTO ready_in_us
    FROM unnest(v_open) AS q (name)
    CROSS JOIN generate_series(0, 9) AS p (number)
    CROSS JOIN LATERAL (
        SELECT r.ready_at FROM weaver.job_runs r
        WHERE r.namespace = p_namespace AND r.queue = q.name AND r.priority = p.number::smallint
            AND r.state IN ('PENDING', 'RETRY_SCHEDULED') AND r.ready_at > v_now
            AND r.format BETWEEN 1 AND p_format AND (p_skip IS NULL OR r.id <> ALL (p_skip))
        ORDER BY r.ready_at, r.id
        LIMIT 1
    ) d;
END
$$;
