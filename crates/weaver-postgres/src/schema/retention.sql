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

-- The earliest `ready_at` of the startable tasks of these queues.
CREATE FUNCTION weaver.oldest_ready_at(p_namespace text, p_queues text[], p_now timestamptz) RETURNS timestamptz
LANGUAGE plpgsql SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off AS $$
BEGIN
    RETURN (
        SELECT min(e.ready_at) FROM unnest(p_queues) AS q (name)
        CROSS JOIN {dispatches} CROSS JOIN generate_series(0, 9) AS p (number)
        CROSS JOIN LATERAL (
            SELECT r.ready_at FROM weaver.ready r
            WHERE r.namespace = p_namespace AND r.queue = q.name AND r.dispatch = d.own AND r.priority = p.number::smallint
                AND {is_startable(r.ready_at, {is_unstarted(r.executions)}, p_now, r.expires_at)}
            ORDER BY r.ready_at, r.id
            LIMIT 1
        ) e);
END
$$;

-- Deletes tasks with their attempts, labels, progress and logs; returns the log files to be removed. Unique keys stay (G8).
-- Ended members leave their shared row first: without their ends they would count as running.
CREATE FUNCTION weaver.remove_tasks(p_ids bigint[]) RETURNS text[] LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
    v_shared bigint[] := weaver.lock_shared(p_ids);
    v_log_refs text[];
BEGIN
    IF v_shared <> '{}' THEN
        PERFORM weaver.leave(v_shared, p_ids);
        PERFORM weaver.drop_empty(v_shared);
    END IF;
    DELETE FROM weaver.ended e WHERE e.id = ANY (p_ids);
    DELETE FROM weaver.progress p WHERE p.id = ANY (p_ids);
    DELETE FROM weaver.closed_attempts c WHERE c.run_id = ANY (p_ids);
    WITH deleted AS (
        DELETE FROM weaver.tasks s WHERE s.id = ANY (p_ids) RETURNING s.namespace, s.id, s.labels
    ), labels AS (
        DELETE FROM weaver.task_labels t USING deleted d
        -- Invalid labels have no rows, and must not fail the statement.
        CROSS JOIN LATERAL jsonb_each_text(CASE WHEN jsonb_typeof(d.labels) = 'object' THEN d.labels ELSE '{}' END) k
        WHERE t.namespace = d.namespace AND t.label = weaver.label(k.key, k.value) AND t.task_id = d.id
    ), streams AS (
        DELETE FROM weaver.streams s USING deleted d
        WHERE s.namespace = d.namespace AND s.run_id = d.id RETURNING s.namespace, s.name, s.log_ref
    ), logs AS (
        DELETE FROM weaver.job_run_logs l USING streams s WHERE l.namespace = s.namespace AND l.name = s.name
    )
    SELECT array_agg(s.log_ref) FILTER (WHERE s.log_ref IS NOT NULL) INTO v_log_refs FROM streams s;
    RETURN v_log_refs;
END
$$;

-- Deletes at most `p_limit` finished tasks, the oldest of each queue first; returns their number and the log files to be removed.
CREATE FUNCTION weaver.purge(p_namespace text, p_queue text, p_states smallint[], p_finished_for_us bigint,
    p_limit integer, p_format smallint, OUT purged integer, OUT log_refs text[]) LANGUAGE plpgsql AS $$
DECLARE
    v_now timestamptz := weaver.clock();
    v_ids bigint[];
BEGIN
    SELECT array_agg(o.id) INTO v_ids FROM (
        SELECT d.id FROM (SELECT DISTINCT c.namespace, c.queue FROM weaver.counts(p_namespace, p_queue) c) q
        CROSS JOIN LATERAL (
            SELECT e.id FROM weaver.ended e
            WHERE e.namespace = q.namespace AND e.queue = q.queue
                AND e.finished_at <= v_now - (p_finished_for_us / 1000000) * interval '1 second'
                    - (p_finished_for_us % 1000000) * interval '1 microsecond'
                AND (p_states IS NULL OR e.state = ANY (p_states))
                -- Its cancellation hold, or a newer Weaver's format, keeps it.
                AND NOT EXISTS (SELECT FROM weaver.leases l WHERE l.first_id = e.id AND NOT l.is_shared)
                AND EXISTS (SELECT FROM weaver.tasks s WHERE s.id = e.id AND s.format BETWEEN 1 AND p_format)
            ORDER BY e.finished_at
            LIMIT p_limit
            FOR UPDATE OF e SKIP LOCKED
        ) d
        LIMIT p_limit
    ) o;
    purged := coalesce(cardinality(v_ids), 0);
    IF purged = 0 THEN
        RETURN;
    END IF;
    INSERT INTO weaver.purges (what) VALUES (purged || ' finished runs');
    WITH counted AS (
        SELECT e.namespace, e.queue, e.state, -count(*)::integer AS delta FROM weaver.ended e WHERE e.id = ANY (v_ids) GROUP BY 1, 2, 3
    )
    INSERT INTO weaver.moves (at, ids, namespaces, versions, states, count_namespaces, count_queues, count_states, count_deltas)
    SELECT v_now, '{}', '{}', '{}', '{}', array_agg(namespace), array_agg(queue), array_agg(state), array_agg(delta) FROM counted;
    log_refs := weaver.remove_tasks(v_ids);
END
$$;

-- Off the hot path, in small batches: rows of `moves` older than 10 minutes, expired keys, empty leases, workers without a heartbeat
-- for a day.
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
    PERFORM weaver.number_audit(n.namespace) FROM (SELECT DISTINCT p.namespace FROM weaver.pending_audit p ORDER BY 1) n;
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
    -- Shared leases whose members have all ended, of workers that did not say so.
    PERFORM weaver.drop_leases(ARRAY(SELECT l.token FROM weaver.leases l
        WHERE l.is_shared AND l.expires_at <= v_now ORDER BY l.lease_id LIMIT p_limit));
    DELETE FROM weaver.runners r WHERE r.seen_at < v_now - interval '1 day';
    RETURN v_more;
END
$$;
