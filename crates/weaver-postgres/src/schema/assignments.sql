-- What a leader reads (seed 004): due tasks that it assigns, and tasks that are assigned.

-- The ids of the due tasks that a leader assigns, in the order of G7: of open queues, within their limits. Reads only: the write checks
-- admission again, under locks.
CREATE FUNCTION weaver.assignable(p_namespace text, p_queues text[], p_types text[], p_max integer, p_format smallint,
    p_skip bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql
    SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    v_now timestamptz := weaver.clock();
BEGIN
    RETURN QUERY
    SELECT e.id FROM (
        SELECT q.name, s.max_running - weaver.occupied(p_namespace, q.name) AS room
        FROM (SELECT DISTINCT name FROM unnest(p_queues) AS q (name)) q
        LEFT JOIN weaver.queues s ON s.namespace = p_namespace AND s.queue = q.name
        WHERE NOT {is_paused(weaver.is_set_to_pause(s.paused, s.max_running))}
    ) o
    CROSS JOIN LATERAL (
        SELECT c.* FROM weaver.sources(p_namespace, ARRAY[o.name], {assign}::smallint) AS d
        CROSS JOIN generate_series(0, 9) AS p (number)
        CROSS JOIN LATERAL (
            SELECT r.id, r.priority, r.ready_at FROM weaver.ready r
            WHERE r.namespace = p_namespace AND r.queue = o.name AND r.dispatch = d.own AND r.priority = p.number::smallint
                AND {wanted(1)} AND {leasable(v_now)}
            ORDER BY r.ready_at, r.id LIMIT p_max
        ) c
        ORDER BY c.priority, c.ready_at, c.id LIMIT greatest(least(o.room, p_max), 0)
    ) e
    ORDER BY e.priority, e.ready_at, e.id LIMIT p_max;
END
$$;
