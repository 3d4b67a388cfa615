-- Retention: purge of finished runs, pruning of internal tables; and the counts by queue and state.

-- Adds new rows of `moves` to `run_counts`. One call at a time by advisory lock; a concurrent call returns false.
CREATE FUNCTION weaver.roll_up_counts() RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_before pg_snapshot;
    v_now pg_snapshot;
BEGIN
    IF NOT pg_try_advisory_xact_lock(hashtextextended('weaver.roll_up_counts', 11)) THEN
        RETURN false;
    END IF;
    SELECT snapshot INTO v_before FROM weaver.run_counts_as_of FOR UPDATE;
    -- One statement, one snapshot: exactly the rows marked as added are added.
    WITH added AS (
        SELECT c.namespace, c.queue, c.state, sum(c.delta) AS delta
        FROM weaver.moves m
        CROSS JOIN LATERAL unnest(m.count_namespaces, m.count_queues, m.count_states, m.count_deltas)
            AS c (namespace, queue, state, delta)
        WHERE m.xid >= pg_snapshot_xmin(v_before) AND NOT pg_visible_in_snapshot(m.xid, v_before)
        GROUP BY 1, 2, 3
    ), added_up AS (
        INSERT INTO weaver.run_counts AS t SELECT namespace, queue, state, delta FROM added
        ON CONFLICT (namespace, queue, state) DO UPDATE SET count = t.count + excluded.count
    )
    UPDATE weaver.run_counts_as_of SET snapshot = pg_current_snapshot() RETURNING snapshot INTO v_now;
    RETURN true;
END
$$;

-- The exact number of runs per queue and state.
CREATE FUNCTION weaver.counts(p_namespace text, p_queue text)
RETURNS TABLE (namespace text, queue text, state smallint, count bigint) LANGUAGE sql STABLE AS $$
    SELECT a.namespace, a.queue, a.state, sum(a.count)::bigint FROM (
        SELECT t.namespace, t.queue, t.state, t.count FROM weaver.run_counts t
        WHERE (p_namespace IS NULL OR t.namespace = p_namespace) AND (p_queue IS NULL OR t.queue = p_queue)
        UNION ALL
        SELECT c.namespace, c.queue, c.state, c.delta
        -- It has one row. Before the table is analyzed the planner assumes a thousand without the LIMIT, and JIT-compiles a query
        -- that runs in a millisecond.
        FROM (SELECT snapshot FROM weaver.run_counts_as_of LIMIT 1) f
        JOIN weaver.moves m ON m.xid >= pg_snapshot_xmin(f.snapshot) AND NOT pg_visible_in_snapshot(m.xid, f.snapshot)
        CROSS JOIN LATERAL unnest(m.count_namespaces, m.count_queues, m.count_states, m.count_deltas)
            AS c (namespace, queue, state, delta)
        WHERE (p_namespace IS NULL OR c.namespace = p_namespace) AND (p_queue IS NULL OR c.queue = p_queue)
    ) a GROUP BY 1, 2, 3
$$;

-- The earliest `ready_at` of the startable runs of these queues.
CREATE FUNCTION weaver.oldest_ready_at(p_namespace text, p_queues text[], p_now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    RETURN (
        SELECT min(d.ready_at) FROM unnest(p_queues) AS q (name)
        CROSS JOIN generate_series(0, 9) AS p (number)
        CROSS JOIN LATERAL (
            SELECT r.ready_at FROM weaver.job_runs r
            WHERE r.namespace = p_namespace AND r.queue = q.name AND r.priority = p.number::smallint
                AND r.state IN ({waiting})
                AND {is_startable(r.ready_at, {is_unstarted(r.executions)}, p_now, r.expires_at)}
            ORDER BY r.ready_at, r.id
            LIMIT 1
        ) d);
END
$$;

-- Deletes at most `p_limit` finished runs with their attempts and logs; returns their number and the log files to be removed.
CREATE FUNCTION weaver.purge(p_namespace text, p_queue text, p_states text[], p_finished_for_us bigint,
    p_limit integer, p_format smallint, OUT purged integer, OUT log_refs text[]) LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
BEGIN
    WITH old AS (
        SELECT h.ctid AS tid FROM weaver.job_run_history h
        WHERE h.finished_at <= v_now - (p_finished_for_us / 1000000) * interval '1 second'
                - (p_finished_for_us % 1000000) * interval '1 microsecond'
            AND (p_namespace IS NULL OR h.namespace = p_namespace) AND (p_queue IS NULL OR h.queue = p_queue)
            AND (p_states IS NULL OR h.state = ANY (p_states)) AND h.format BETWEEN 1 AND p_format
        ORDER BY h.finished_at
        LIMIT p_limit
        FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM weaver.job_run_history h USING old WHERE h.ctid = old.tid
        RETURNING h.namespace, h.id, h.queue, weaver.task_state(h.state, h.scheduled) AS state, h.attempt
    ), recorded AS (
        -- Visible to the guards, which run after the statement.
        INSERT INTO weaver.purges (what) SELECT count(*) || ' finished runs' FROM deleted HAVING count(*) > 0
    ), attempts AS (
        DELETE FROM weaver.closed_attempts c USING deleted g
        WHERE g.attempt > 0 AND c.namespace = g.namespace AND c.run_id = g.id
    ), streams AS (
        DELETE FROM weaver.streams s USING deleted g
        WHERE s.namespace = g.namespace AND s.run_id = g.id RETURNING s.namespace, s.name, s.log_ref
    ), logs AS (
        DELETE FROM weaver.job_run_logs l USING streams s WHERE l.namespace = s.namespace AND l.name = s.name
    ), counted AS (
        SELECT namespace, queue, state, -count(*)::integer AS delta FROM deleted GROUP BY 1, 2, 3
    ), moved AS (
        INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states,
            count_deltas)
        SELECT v_now, '{}', '{}', '{}', '{}', array_agg(namespace), array_agg(queue), array_agg(state),
            array_agg(delta)
        FROM counted HAVING count(*) > 0
    )
    SELECT (SELECT count(*) FROM deleted), (SELECT array_agg(log_ref) FILTER (WHERE log_ref IS NOT NULL) FROM streams)
    INTO purged, log_refs;
END
$$;

-- Off the hot path, in small batches: rows of `moves` older than 10 minutes, expired keys, workers without a heartbeat for a day.
-- Returns whether there may be more.
CREATE FUNCTION weaver.prune(p_limit integer) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_as_of pg_snapshot;
    v_count integer;
    v_trimmed xid8;
    v_more boolean := false;
BEGIN
    PERFORM weaver.roll_up_counts();
    IF NOT pg_try_advisory_xact_lock(hashtextextended('weaver.prune', 11)) THEN
        RETURN false;
    END IF;
    SELECT snapshot INTO v_as_of FROM weaver.run_counts_as_of;
    WITH deleted AS (
        DELETE FROM weaver.moves m WHERE m.ctid = ANY (ARRAY(
            SELECT o.ctid FROM weaver.moves o
            WHERE o.at < v_now - interval '10 minutes' AND o.xid < pg_snapshot_xmin(v_as_of)
            ORDER BY o.xid LIMIT p_limit))
        RETURNING m.xid
    )
    SELECT count(*), max(xid::text::bigint)::text::xid8 INTO v_count, v_trimmed FROM deleted;
    IF v_count > 0 THEN
        UPDATE weaver.run_counts_as_of SET trimmed = v_trimmed WHERE trimmed < v_trimmed;
    END IF;
    v_more := v_count = p_limit;
    DELETE FROM weaver.idempotency_keys k WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM weaver.idempotency_keys o WHERE o.until <= v_now ORDER BY o.until LIMIT p_limit
        FOR UPDATE SKIP LOCKED));
    DELETE FROM weaver.schedule_keys k WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM weaver.schedule_keys o WHERE o.until <= v_now ORDER BY o.until LIMIT p_limit
        FOR UPDATE SKIP LOCKED));
    DELETE FROM weaver.purges p WHERE p.ctid = ANY (ARRAY(
        SELECT o.ctid FROM weaver.purges o WHERE o.at < clock_timestamp() - interval '91 days' LIMIT p_limit));
    DELETE FROM weaver.runners r WHERE r.seen_at < v_now - interval '1 day';
    RETURN v_more;
END
$$;
